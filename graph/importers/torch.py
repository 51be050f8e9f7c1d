"""From a module of PyTorch to a model: `torch.export`, then one function of tensors for each node of its graph."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from ...common.outside import let_through
from ...tensor.program import Tensor
from ..functions.function import NotCovered
from ..model import Model
from ..quantization.clamped import clamped_weights
from ..quantization.integers import integer_sums
from .assemble import Assembler
from .torch_export import exported, torch_module
from .torch_nodes import Nodes


def from_torch(
    module: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, name: str | None = None
) -> Model:
    """The model that a module computes for inputs of the shapes and dtypes of these.

    Args:
        module: a torch.nn.Module, in eval() where dropout and batch normalisation are meant to be those of inference; or a
            torch.export.ExportedProgram, for which args and kwargs are not needed.
        args, kwargs: example inputs. Tensors become inputs of the model, in order; everything else is fixed.

    Sums of products of quantised numbers, as PT2E exports have them, become sums of integers (docs/low-precision.md).
    Parameters and buffers become constants, which share their memory where it is contiguous. Errors: ArgumentError for what
    torch.export refuses; one that lists all operators that are not covered, with their nodes; UserError without torch.
    """
    program = exported(module, args, kwargs)
    return clamped_weights(integer_sums(_TorchImport(program).model(name or type(module).__name__)))


class _TorchImport:
    """One exported program on its way to a model."""

    def __init__(self, program: Any) -> None:
        self._torch = torch_module()
        self._program = program
        self._made = Assembler()
        self._wanted = _output_names(program)
        self._nodes = Nodes(self._made, self._wanted)

    def model(self, name: str) -> Model:
        """The model. Errors: one ArgumentError for all that is not covered."""
        graph = self._program.graph
        values = self._inputs(graph)
        try:
            results = self._nodes.run(self._program.graph_module, graph, values)
        except NotCovered as error:  # of what the module returns; that of its nodes is known already
            self._nodes.faults.add(error.problem, "output")
            raise self._nodes.refusal() from None
        outputs = self._outputs(results)
        if self._nodes.faults:
            raise self._nodes.refusal()
        return self._made.model(outputs, name)

    def _inputs(self, graph: Any) -> dict[Any, Any]:
        """Placeholders: inputs of the model, constants with values, and what is fixed."""
        nodes = {node.name: node for node in graph.nodes if node.op == "placeholder"}
        values: dict[Any, Any] = {}
        known: dict[int, Any] = {}
        for spec in self._program.graph_signature.input_specs:
            node = nodes[spec.arg.name]
            if spec.kind.name == "TOKEN":
                continue  # of the order of side effects, of which whoever has some is refused
            if spec.kind.name == "USER_INPUT":
                values[node] = self._nodes.input(node)
                continue
            if not node.users:
                continue
            tensor = self._stored(spec)
            if not isinstance(tensor, self._torch.Tensor):
                self._nodes.fault(f"a constant that is a {type(tensor).__name__}", node)
                continue
            if id(tensor) not in known:
                known[id(tensor)] = self._nodes.constant(spec.target, tensor, node)
            values[node] = known[id(tensor)]
        return values

    def _stored(self, spec: Any) -> Any:
        program = self._program
        return program.state_dict[spec.target] if spec.target in program.state_dict else program.constants[spec.target]

    def _outputs(self, results: Any) -> list[tuple[str, Tensor]]:
        found: list[tuple[str, Tensor]] = []
        specs = self._program.graph_signature.output_specs
        for spec, value in zip(specs, results, strict=True):
            if spec.kind.name == "TOKEN":
                continue
            if spec.kind.name != "USER_OUTPUT":
                what = spec.kind.name.lower().replace("_", " ")
                self._nodes.faults.add(f"a {what}", str(spec.target))
            elif not isinstance(value, Tensor):
                self._nodes.faults.found.setdefault("a result that is no tensor", []).append(repr(value)[:40])
            else:
                found.append((self._wanted.get(spec.arg.name, spec.arg.name), value))
        return found


def _output_names(program: Any) -> dict[str, str]:
    """Node name -> the key of a result in what the module returns, where it has one: "logits"."""
    tree = import_module("torch.utils._pytree")
    specs = [spec for spec in program.graph_signature.output_specs if spec.kind.name == "USER_OUTPUT"]
    try:
        whole = tree.tree_unflatten(list(range(len(specs))), program.call_spec.out_spec)
        paths = [path for path, _ in tree.tree_flatten_with_path(whole)[0]]
    except Exception as error:  # classes of others may refuse to be made of numbers; nodes have names too
        let_through(error)
        return {}
    found: dict[str, str] = {}
    for spec, path in zip(specs, paths, strict=False):
        parts = [re.sub(r"\W+", "_", str(key)).strip("_") for key in path]
        if any(not part.isdigit() for part in parts) and spec.arg.name:
            found.setdefault(spec.arg.name, "_".join(parts))
    return found
