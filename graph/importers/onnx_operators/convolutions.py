"""ONNX's convolutions, and how its windows are padded."""

from __future__ import annotations

from collections.abc import Sequence

from ....common.errors import ArgumentError
from ....tensor.program import Tensor
from ...functions import convolution
from .registry import Node, onnx

Pairs = list[tuple[int, int]]


def pairs_of(pads: Sequence[int]) -> Pairs:
    """(in front, behind) of each dimension, of a list that has all in front first."""
    half = len(pads) // 2
    return list(zip(pads[:half], pads[half:], strict=True))


def window_pads(
    node: Node, sizes: Sequence[int], kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> Pairs:
    """The padding that a node's `pads` or `auto_pad` says."""
    mode = node.text("auto_pad", "NOTSET")
    if mode == "VALID":
        return [(0, 0)] * len(sizes)
    if mode == "NOTSET":
        return pairs_of(node.ints("pads") or [0] * (2 * len(sizes)))
    found: Pairs = []
    for size, length, step, apart in zip(sizes, kernel, stride, dilation, strict=True):
        whole = max((-(-size // step) - 1) * step + apart * (length - 1) + 1 - size, 0)
        found.append(halves(whole, mode))
    return found


def halves(whole: int, mode: str) -> tuple[int, int]:
    """Halves it: what is odd lies behind with SAME_UPPER, and in front with SAME_LOWER."""
    less = whole // 2
    return (less, whole - less) if mode == "SAME_UPPER" else (whole - less, less)


@onnx("Conv")
def conv(node: Node) -> Tensor:
    """A convolution"""
    return convolved(node, node.tensor(0), node.tensor(1), node.maybe(2))


def convolved(node: Node, x: Tensor, weights: Tensor, bias: Tensor | None = None) -> Tensor:
    """The convolution of a node's attributes."""
    rank = len(weights.shape) - 2
    stride, dilation = node.ints("strides") or [1] * rank, node.ints("dilations") or [1] * rank
    pads = window_pads(node, x.shape[2:], weights.shape[2:], stride, dilation)
    return convolution.convolution(x, weights, bias, stride, pads, dilation, node.integer("group", 1))


@onnx("ConvTranspose")
def conv_transpose(node: Node) -> Tensor:
    """The transpose of a convolution"""
    x, weights = node.tensor(0), node.tensor(1)
    rank = len(weights.shape) - 2
    stride, dilation = node.ints("strides") or [1] * rank, node.ints("dilations") or [1] * rank
    extra = node.ints("output_padding") or [0] * rank
    reach = [step * (size - 1) + 1 for step, size in zip(dilation, weights.shape[2:], strict=True)]
    whole = [s * (n - 1) + e + r for s, n, e, r in zip(stride, x.shape[2:], extra, reach, strict=True)]
    wanted, mode = node.ints("output_shape"), node.text("auto_pad", "NOTSET")
    if wanted is None and mode in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [s * n for s, n in zip(stride, x.shape[2:], strict=True)]
    if wanted is None:
        pads = pairs_of(node.ints("pads") or [0] * (2 * rank)) if mode == "NOTSET" else [(0, 0)] * rank
    else:
        over = [max(a - b, 0) for a, b in zip(whole, wanted[-rank:], strict=True)]
        short = [max(b - a, 0) for a, b in zip(whole, wanted[-rank:], strict=True)]
        extra = [e + s for e, s in zip(extra, short, strict=True)]
        pads = [halves(n, mode) for n in over]
    group = node.integer("group", 1)
    return convolution.transposed_convolution(x, weights, node.maybe(2), stride, pads, dilation, group, extra)


def kernel_of(node: Node) -> list[int]:
    """The attribute that says the size of a window. Errors: ArgumentError where it is missing."""
    kernel = node.ints("kernel_shape")
    if kernel is None:
        raise ArgumentError("kernel_shape is missing")
    return kernel
