"""ONNX's matrix products."""

from __future__ import annotations

from ....tensor.program import Tensor
from ...functions import linear, shape
from .registry import Node, onnx


@onnx("MatMul")
def matmul(node: Node) -> Tensor:
    """The product of matrices, as NumPy's"""
    return linear.matmul(node.tensor(0), node.tensor(1))


@onnx("Gemm")
def gemm(node: Node) -> Tensor:
    """alpha * x y + beta * added; factors may be turned."""
    x, y, added = node.tensor(0), node.tensor(1), node.maybe(2)
    alpha, beta = node.real("alpha", 1.0), node.real("beta", 1.0)
    if node.integer("transA"):
        x = shape.transpose(x, 0, 1)
    vector = added is None or added.shape == (node.shape(1)[0],)
    if node.integer("transB") and alpha == 1 and beta == 1 and vector:
        return linear.linear(x, y, added)
    if node.integer("transB"):
        y = shape.transpose(y, 0, 1)
    return linear.product_plus(added, x, y, alpha, beta)
