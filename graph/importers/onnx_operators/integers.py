"""ONNX's functions of bits."""

from __future__ import annotations

from ....tensor.program import Tensor
from ...functions import integers
from ...functions.elementwise import logical
from .registry import Node, onnx


@onnx("BitwiseAnd")
def bitwise_and(node: Node) -> Tensor:
    """Bits that both have"""
    return _bits("and", node)


@onnx("BitwiseOr")
def bitwise_or(node: Node) -> Tensor:
    """Bits that one has"""
    return _bits("or", node)


@onnx("BitwiseXor")
def bitwise_xor(node: Node) -> Tensor:
    """Bits that one has alone"""
    return _bits("xor", node)


def _bits(name: str, node: Node) -> Tensor:
    x, y = node.tensor(0), node.tensor(1)
    return logical(name, x, y) if x.dtype.name == "bool" else integers.bitwise(name, x, y)


@onnx("BitwiseNot")
def bitwise_not(node: Node) -> Tensor:
    """The bits of x turned"""
    return integers.bits_turned(node.tensor(0))


@onnx("BitShift")
def bit_shift(node: Node) -> Tensor:
    """x shifted by y bits to the left or to the right"""
    return integers.shifted(node.tensor(0), node.tensor(1), node.text("direction") == "LEFT")
