"""Models of graphs of ATen operators as torch.compile gives them, and what of such a graph no model has."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from ..functions.function import NotCovered
from ..model import Model
from .assemble import Assembler
from .aten.registry import Missing
from .torch_nodes import Nodes


def model_of_graph(module: Any, constants: Mapping[int, Any], name: str) -> Model:
    """The model of a torch.fx.GraphModule of ATen operators, whose nodes say in `meta["val"]` what they give.

    Placeholders become inputs in order, those that `constants` has by number constants with values; the results are in the
    order of the graph's. Errors: ArgumentError that lists all that is not covered.
    """
    made = Assembler()
    nodes = Nodes(made, {})
    values: dict[Any, Any] = {}
    for number, node in enumerate(n for n in module.graph.nodes if n.op == "placeholder"):
        fixed = constants.get(number)
        values[node] = nodes.input(node) if fixed is None else nodes.constant(node.name, fixed, node)
    results = nodes.run(module, module.graph, values)
    if nodes.faults:
        raise nodes.refusal()
    named = [node.name for node in _leaves(module.graph.output_node().args[0])]
    outputs = results if isinstance(results, tuple | list) else (results,)
    return made.model(list(zip(named, outputs, strict=True)), name)


def uncovered(module: Any) -> dict[str, str]:
    """Names of the nodes of a graph as `model_of_graph` takes it that no model has, and why.

    An operator of whose results one is used that is not computed is among them, so that all who use it are not.
    """
    left: dict[str, str] = {}
    while True:
        nodes = Nodes(Assembler(), {}, left)
        graph = module.graph
        values = {node: nodes.stand_in(node) for node in graph.nodes if node.op == "placeholder"}
        with suppress(NotCovered):  # of what the graph gives, after all nodes
            nodes.run(module, graph, values)
        missing = {
            node.args[0].name: value.why for node, value in values.items() if isinstance(value, Missing) and node.users
        }
        if not missing.keys() - left.keys():
            return left | {name: what for what, names in nodes.faults.found.items() for name in names}
        left |= missing


def _leaves(results: Any) -> list[Any]:
    """The nodes that a graph gives."""
    return list(results) if isinstance(results, tuple | list) else [results]
