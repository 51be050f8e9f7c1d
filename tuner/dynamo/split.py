"""A graph of ATen operators cut into what is covered and what stays in torch.

Views that torch or the caller reads stay in torch, where they cost nothing: what is computed here is their base. A view that
both read is there twice.
"""

from __future__ import annotations

import operator
from importlib import import_module
from typing import Any

from ...graph.importers.torch_export import dtype_of, operator_name, torch_module
from ...graph.importers.torch_graph import uncovered

PREFIX = "tilesmith_"  # of the modules that stand for what is covered
# Products of groups of rows. No matrix of parameters, which torch may change, is packed ahead; to pack each at each call for
# a few rows takes five times as long as torch does (a Mixtral of three layers and 32 tokens, two threads of a Zen 4).
GROUPED = frozenset(("_grouped_mm.default", "transformers.grouped_mm_fallback.default"))


def split(module: Any) -> tuple[Any, dict[str, str]]:
    """The graph with a module for each part of it that is covered, called PREFIX and a number; and why each node that is
    left is left, by its name."""
    reasons = uncovered(module) | _strange(module.graph)
    _views_for_torch(module.graph, reasons)
    passes = import_module("torch.fx.passes.infra.partitioner")
    cut = passes.CapabilityBasedPartitioner(module, _Support(reasons), allows_single_node_partition=True)
    parts = [part for part in cut.propose_partitions() if any(_computes(node) for node in part.nodes)]
    fused = cut.fuse_partitions(parts, PREFIX)
    fused.recompile()
    return fused, reasons


class _Support:
    """Answers what the partitioner asks."""

    def __init__(self, reasons: dict[str, str]) -> None:
        self._reasons = reasons

    def is_node_supported(self, modules: object, node: Any) -> bool:
        """Says whether a node is computed here."""
        return node.op == "call_function" and node.name not in self._reasons and not node.meta.get("stays")


def _strange(graph: Any) -> dict[str, str]:
    """Operators that read or give what no kernel takes, and those that write to their operands."""
    found: dict[str, str] = {}
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        why = _why_not_run(node)
        if why:
            found[node.name] = why
            if node.target is operator.getitem:  # of the results of an operator, which are all made in one place
                found.setdefault(node.args[0].name, why)
    return found


def _why_not_run(node: Any) -> str:
    schema = getattr(node.target, "_schema", None)
    if schema is not None and schema.is_mutable:
        return "writes to an operand"
    if schema is not None and operator_name(node.target) in GROUPED:
        return "a product of groups of rows, with weights that would be packed at each call"
    value = node.meta.get("val")
    values = [] if isinstance(value, tuple | list) else [value]  # several are looked at where they are taken apart
    if node.target is not operator.getitem:
        values += [operand.meta.get("val") for operand in node.all_input_nodes]
    return next(filter(None, map(_why_not, values)), "")


def _why_not(value: Any) -> str:
    """Says why a value is nothing that goes into or comes out of a kernel; "" if it is."""
    if value is None:
        return ""
    torch = torch_module()
    if not isinstance(value, torch.Tensor):
        return "a number that is known when it runs"
    if value.device.type != "cpu":
        return f"a tensor on {value.device}"
    if value.layout != torch.strided:
        return "a sparse tensor"
    if dtype_of(value.dtype) is None:
        return f"the dtype {value.dtype}"
    if any(type(size) is not int for size in value.shape):
        return "a shape that is left open"
    return "a tensor without elements" if 0 in value.shape else ""


def _is_view(node: Any) -> bool:
    """Says whether an operator gives its operand's own memory, seen otherwise."""
    schema = getattr(node.target, "_schema", None)
    if node.op != "call_function" or schema is None or schema.is_mutable or len(schema.returns) != 1:
        return False
    alias = schema.returns[0].alias_info
    return alias is not None and not alias.is_write and operator_name(node.target) != "contiguous.default"


def _computes(node: Any) -> bool:
    return not _is_view(node) and node.target is not operator.getitem


def _views_for_torch(graph: Any, reasons: dict[str, str]) -> None:
    """Gives torch views of its own, last ones first, so that chains of them are followed to their base."""
    for node in reversed(list(graph.nodes)):
        if not _is_view(node) or node.name in reasons:
            continue
        outside = [user for user in node.users if _stays(user, reasons)]
        if not outside:
            continue
        if len(outside) == len(node.users):
            node.meta["stays"] = True
            continue
        with graph.inserting_after(node):
            own = graph.node_copy(node)
        own.meta = {**node.meta, "stays": True}
        for user in outside:
            user.replace_input_with(node, own)


def _stays(node: Any, reasons: dict[str, str]) -> bool:
    return node.op != "call_function" or node.name in reasons or bool(node.meta.get("stays"))
