"""The backend that torch.compile finds by the entry point `torch_dynamo_backends`.

torch gives a graph; AOTAutograd makes of it one graph for inference, or one forward and one backward, of core ATen operators.
Each is split (split.py), and each part that is covered is a model: imported, tuned if so many trials are asked for, compiled.
What no kernel can be built of stays in torch too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any

from ...common.debug import DebugLevel, show
from ...common.errors import ArgumentError, TilesmithError
from ...graph.importers.torch_export import operator_name, torch_module
from ...graph.importers.torch_graph import model_of_graph
from ...graph.memory_order import MemoryOrder, with_inputs_as_they_lie
from ...graph.model import Model
from ..apply.compile import compile
from ..tune import tune
from .autograd import with_gradients
from .options import Options
from .part import Part, orders_of
from .sizes import BySizes, are_open
from .split import PREFIX, split


def backend(
    module: Any, inputs: Sequence[Any], *, options: Mapping[str, object] | None = None, mode: str | None = None
) -> Any:
    """Returns what torch runs in place of a graph of its own; called by torch.compile(..., backend="tilesmith").

    Errors: ArgumentError for options that there are not, which torch hands on as BackendCompilerFailed.
    """
    chosen = Options.of(options)
    if mode is not None:
        raise ArgumentError("the backend has no modes", found=repr(mode), advice='options={"trials": 1000}')
    made = partial(_differentiated, module, options=chosen)
    return BySizes(module, made) if are_open(inputs) else made(inputs)


def _differentiated(module: Any, inputs: Sequence[Any], options: Options) -> Any:
    known = inputs if options.freeze else ()
    return with_gradients(partial(compiled, options=options), known=known)(module, inputs)


def compiled(module: Any, inputs: Sequence[Any], *, options: Options, title: str, known: Sequence[Any] = ()) -> Any:
    """A graph of ATen operators as a function with the calling convention of AOTAutograd.

    `known`: what its inputs are, where parameters among them are to be constants.
    """
    with import_module("torch._subclasses.fake_tensor").unset_fake_temporarily():  # constants have values
        return _compiled(module, options, title, known)


def _compiled(module: Any, options: Options, title: str, known: Sequence[Any]) -> Any:
    parameters = _parameters(module, known)
    fused, reasons = split(module)
    fixed: dict[str, dict[int, tuple[str, Any]]] = {}
    failed: dict[str, str] = {}
    models: dict[str, Model] = {}
    orders: dict[str, Mapping[int, MemoryOrder]] = {}
    for name in [name for name, _ in fused.named_children() if name.startswith(PREFIX)]:
        operands = next(node.args for node in fused.graph.nodes if node.target == name)
        fixed[name] = {n: (one.name, parameters[one.name]) for n, one in enumerate(operands) if one.name in parameters}
        constants = {number: tensor for number, (_, tensor) in fixed[name].items()}
        try:
            graph = getattr(fused, name)
            orders[name] = orders_of(graph)
            models[name] = _as_they_lie(model_of_graph(graph, constants, f"{title}_{name}"), constants, orders[name])
        except TilesmithError as error:
            failed[name] = str(error)
    if options.trials and models:
        tune(
            list(models.values()), trials=options.trials, db=options.db, threads=_threads(options), progress=False,
            accuracy=options.accuracy,
        )  # fmt: skip
    for name, model in models.items():
        graph = getattr(fused, name)
        try:
            part = _part(graph, model, options, fixed[name], orders[name])
        except TilesmithError as error:
            failed[name] = str(error)
            continue
        delattr(fused, name)  # a module, which makes place for what is none
        setattr(fused, name, part)
    show(DebugLevel.TASK, title, lambda: _told(module, models, reasons, failed))
    return import_module("functorch.compile").make_boxed_func(fused.forward)


def _parameters(module: Any, known: Sequence[Any]) -> dict[str, Any]:
    """Names of a graph's inputs -> the parameters that they are, which count how often they are written to."""
    torch = torch_module()
    names = [node.name for node in module.graph.nodes if node.op == "placeholder"]
    if len(names) != len(known):  # inputs that were added or taken away stand nobody knows where
        return {}
    fake = import_module("torch._subclasses").FakeTensor
    return {
        name: value
        for name, value in zip(names, known, strict=True)
        if isinstance(value, torch.nn.Parameter) and not isinstance(value, fake) and not value.is_inference()
    }


def _as_they_lie(model: Model, fixed: Collection[int], orders: Mapping[int, MemoryOrder]) -> Model:
    """The model that reads its inputs as they lie in memory. `orders`: of operands, some of which are constants."""
    operands = [number for number in range(len(model.program.dynamic_inputs) + len(fixed)) if number not in fixed]
    inputs = dict(zip(operands, model.program.dynamic_inputs, strict=True))
    named = {inputs[number].name: order for number, order in orders.items() if number in inputs}
    return replace(model, program=with_inputs_as_they_lie(model.program, named))


def _part(
    graph: Any,
    model: Model,
    options: Options,
    fixed: Mapping[int, tuple[str, Any]],
    orders: Mapping[int, MemoryOrder],
) -> Any:
    results = graph.graph.output_node().args[0]
    several = isinstance(results, tuple | list)
    fakes = [node.meta["val"] for node in (results if several else [results])]
    kernel = compile(model, db=options.db, threads=_threads(options), accuracy=options.accuracy)
    return Part(kernel, fakes, single=not several, fixed=fixed, orders=orders)


def _threads(options: Options) -> int:
    """Takes as many as torch uses, unless it is said otherwise."""
    return options.threads or int(torch_module().get_num_threads())


def _told(module: Any, models: Mapping[str, Model], reasons: Mapping[str, str], failed: Mapping[str, str]) -> str:
    """Returns what is computed here, and what stays in torch and why."""
    operators = {node.name: operator_name(node.target) for node in module.graph.nodes if node.op == "call_function"}
    lines = [f"{len(models.keys() - failed.keys())} parts are compiled"]
    lines += [f"  {name} stays in torch: {why}" for name, why in failed.items()]
    lines += [
        f"  {name} stays in torch: {operators[name]}{'' if why == operators[name] else f' ({why})'}"
        for name, why in reasons.items()
        if name in operators
    ]
    return "\n".join(lines)
