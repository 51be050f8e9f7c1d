"""The names of an ONNX file: they are text in UTF-8, which not every program that writes files holds to.

Protobuf gives the bytes of a string that is no such text, and whoever takes it for a name fails somewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...common.errors import ArgumentError

_SHOWN = 6


def check_names(model: Any) -> None:
    """Looks at the names of all that is read of a ModelProto. Errors: one ArgumentError for all that are no text."""
    wrong = dict.fromkeys(name for name in _of_model(model) if isinstance(name, bytes))
    if wrong:
        shown = [repr(name)[1:] for name in list(wrong)[:_SHOWN]]
        more = f" and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
        raise ArgumentError(
            "the model has names that are no text", expected="names in UTF-8", found=", ".join(shown) + more,
            advice="rename them, or write the file anew with what made it: files of ONNX hold text in UTF-8",
        )  # fmt: skip


def _of_model(model: Any) -> Iterator[str | bytes]:
    yield from _of_graph(model.graph)
    for one in model.opset_import:
        yield one.domain
    for function in model.functions:
        yield from (function.name, function.domain, *function.input, *function.output, *function.attribute)
        for node in function.node:
            yield from _of_node(node)


def _of_graph(graph: Any) -> Iterator[str | bytes]:
    yield graph.name
    for tensor in graph.initializer:
        yield tensor.name
    for sparse in graph.sparse_initializer:
        yield sparse.values.name
    for value in (*graph.input, *graph.output):
        yield value.name
        for dim in value.type.tensor_type.shape.dim:
            yield dim.dim_param
    for node in graph.node:
        yield from _of_node(node)


def _of_node(node: Any) -> Iterator[str | bytes]:
    yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
    for attribute in node.attribute:
        yield attribute.name
        yield attribute.ref_attr_name
        for graph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
            yield from _of_graph(graph)
