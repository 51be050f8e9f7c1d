"""What torch.compile(module, backend="tilesmith") would compute here, without compiling anything."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from ...common.errors import TilesmithError
from ...graph.importers.torch_export import operator_name, torch_module
from ...graph.importers.torch_graph import model_of_graph
from ..models.explanation import Explanation, Graph, ModelCut, cut_of
from .autograd import with_gradients
from .split import PREFIX, split


def explain_module(module: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Explanation:
    """The graphs that torch makes of a module for these inputs, and what is covered of each. The module runs, in torch."""
    torch, dynamo = torch_module(), import_module("torch._dynamo")
    found: list[Graph] = []

    def compiler(graph: Any, inputs: Sequence[Any], title: str) -> Any:
        with import_module("torch._subclasses.fake_tensor").unset_fake_temporarily():
            found.append(_graph(graph, title))
        return import_module("functorch.compile").make_boxed_func(graph.forward)

    backend = with_gradients(compiler)
    dynamo.reset()
    try:
        with torch.set_grad_enabled(module.training):
            results = torch.compile(module, backend=backend, dynamic=False)(*args, **kwargs)
            if module.training:
                _backward(torch, module, results)
    finally:
        breaks = tuple(dict.fromkeys(str(reason) for reason in dynamo.utils.counters["graph_break"]))
        dynamo.reset()
        dynamo.utils.counters["graph_break"].clear()
    return Explanation(graphs=tuple(found), breaks=breaks)


def _backward(torch: Any, module: Any, results: Any) -> None:
    """Runs the backward graph once, so that torch makes it. Gradients that the module holds stay as they are."""
    leaves = import_module("torch.utils._pytree").tree_leaves(results)
    losses = [one.sum() for one in leaves if isinstance(one, torch.Tensor) and one.requires_grad]
    wanted = [one for one in module.parameters() if one.requires_grad]
    if losses and wanted:
        torch.autograd.grad(losses, wanted, allow_unused=True)


def _graph(module: Any, title: str) -> Graph:
    calls = [node for node in module.graph.nodes if node.op == "call_function"]
    operators = {n.name: operator_name(n.target) for n in calls if n.target is not operator.getitem}
    fused, reasons = split(module)
    staying = operators.keys() & {node.name for node in fused.graph.nodes if node.op == "call_function"}
    cuts: list[ModelCut] = []
    failed: dict[str, str] = {}
    for name, part in fused.named_children():
        if not name.startswith(PREFIX):
            continue
        try:
            model = model_of_graph(part, {}, f"{title}_{name}")
        except TilesmithError as error:
            failed |= {node.name: str(error) for node in part.graph.nodes if node.name in operators}
            continue
        cuts.append(cut_of(model.program, model.name))
    left: dict[tuple[str, str], list[str]] = {}
    for name, why in {**reasons, **failed}.items():
        if name in operators:
            left.setdefault((operators[name], why), []).append(name)
    told = tuple((called, why, tuple(nodes)) for (called, why), nodes in left.items())
    views = len(staying - {name for nodes in left.values() for name in nodes})
    covered = len(operators) - views - sum(map(len, left.values()))
    return Graph(title, len(operators), covered, views, told, tuple(cuts))
