"""ATen's matrix products and convolutions."""

from __future__ import annotations

from collections.abc import Sequence

from ....tensor.dtype import DType, i32
from ....tensor.program import Tensor
from ...functions import convolution, linear
from ...functions.creation import pairs
from ...functions.elementwise import cast, mapped, multiply, subtract
from ...functions.function import NotCovered
from ...functions.grouped import grouped_matmul
from ...functions.indexing import take
from ...functions.reductions import norm
from ...functions.reductions import sum as sum_of
from ...functions.shape import permute, reshape, unsqueeze
from .registry import CONVERTERS, aten


@aten("mm.default", "bmm.default", "matmul.default", "mv.default", "dot.default", "vdot.default", "inner.default")
def matmul(x: Tensor, y: Tensor) -> Tensor:
    """The product of matrices"""
    return linear.matmul(x, y)


@aten("_int_mm.default")
def integer_product(x: Tensor, y: Tensor) -> Tensor:
    """The product of matrices of bytes, in 32 bits"""
    return linear.matmul(x, y, i32)


@aten("inner.default")
def inner(x: Tensor, y: Tensor) -> Tensor:
    """The product with the last axes of both"""
    if not x.shape or not y.shape:
        return multiply(x, y)
    letters = "abcdefgh"
    own = letters[: len(x.shape) - 1]
    others = letters[len(own) : len(own) + len(y.shape) - 1]
    return linear.einsum(f"{own}z,{others}z->{own}{others}", [x, y])


@aten("linear.default")
def linear_layer(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x weight^T + bias"""
    return linear.linear(x, weight, bias)


@aten("addmm.default", "addmv.default", "baddbmm.default")
def addmm(added: Tensor, x: Tensor, y: Tensor, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta * added + alpha * x y"""
    return linear.product_plus(added, x, y, alpha, beta)


@aten("addbmm.default")
def addbmm(added: Tensor, x: Tensor, y: Tensor, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta * added + alpha * the sum of all products of a batch"""
    rows = reshape(permute(x, [1, 0, 2]), [x.shape[1], -1])
    return linear.product_plus(added, rows, reshape(y, [-1, y.shape[2]]), alpha, beta)


@aten("outer.default", "ger.default")
def outer(x: Tensor, y: Tensor) -> Tensor:
    """Each times each"""
    return linear.outer_product(x, y)


@aten("_grouped_mm.default")
def grouped_product(
    x: Tensor, weights: Tensor, ends: Tensor | None = None, bias: Tensor | None = None, dtype: DType | None = None
) -> Tensor:
    """Rows in groups times the matrix of each group, or a product of batches where there are no groups"""
    if bias is not None or (ends is not None and (len(x.shape), len(weights.shape)) != (2, 3)):
        raise NotCovered("groups of columns or of what is summed over", found=f"{x.shape} times {weights.shape}")
    made = linear.matmul(x, weights) if ends is None else grouped_matmul(x, weights, ends)
    return made if dtype is None else cast(made, dtype)


@aten("transformers.grouped_mm_fallback.default")
def grouped_rows(x: Tensor, weights: Tensor, ends: Tensor) -> Tensor:
    """The same, as Hugging Face's models call it"""
    return grouped_matmul(x, weights, ends)


@aten("einsum.default")
def einsum(equation: str, tensors: Sequence[Tensor], path: Sequence[int] | None = None) -> Tensor:
    """A sum of products"""
    return linear.einsum(equation, tensors)


@aten("convolution.default")
def convolve(
    x: Tensor, weight: Tensor, bias: Tensor | None, stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], transposed: bool, output_padding: Sequence[int], groups: int,
) -> Tensor:  # fmt: skip
    """Any convolution"""
    if transposed:
        return convolution.transposed_convolution(x, weight, bias, stride, padding, dilation, groups, output_padding)
    return convolution.convolution(x, weight, bias, stride, padding, dilation, groups)


def _conv(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | str = 0, dilation: int | Sequence[int] = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    if isinstance(padding, str):
        return convolution.convolution(x, weight, bias, stride, _named(padding, weight, dilation), dilation, groups)
    return convolution.convolution(x, weight, bias, stride, padding, dilation, groups)


def _named(padding: str, weight: Tensor, dilation: int | Sequence[int]) -> int | list[tuple[int, int]]:
    """ "valid" is none, "same" keeps the size: what is odd lies behind."""
    if padding == "valid":
        return 0
    steps = convolution.spread(dilation, len(weight.shape) - 2)
    whole = [step * (size - 1) for step, size in zip(steps, weight.shape[2:], strict=True)]
    return [(n // 2, n - n // 2) for n in whole]


def _transposed(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0, output_padding: int | Sequence[int] = 0, groups: int = 1,
    dilation: int | Sequence[int] = 1,
) -> Tensor:  # fmt: skip
    return convolution.transposed_convolution(x, weight, bias, stride, padding, dilation, groups, output_padding)


for _name in (
    "conv1d.default",
    "conv2d.default",
    "conv3d.default",
    "conv1d.padding",
    "conv2d.padding",
    "conv3d.padding",
):
    CONVERTERS[_name] = _conv
for _name in ("conv_transpose1d.default", "conv_transpose2d.input", "conv_transpose3d.input"):
    CONVERTERS[_name] = _transposed


@aten("cdist.default", "_cdist_forward.default")
def cdist(x: Tensor, y: Tensor, p: float = 2, compute_mode: int | None = None) -> Tensor:
    """The distance of each row of x from each of y"""
    return norm(subtract(unsqueeze(x, -2), unsqueeze(y, -3)), p, -1)


@aten("_pdist_forward.default")
def pdist(x: Tensor, p: float = 2) -> Tensor:
    """The distance of each row of x from each one after it"""
    first, second = pairs(x.shape[0])
    return norm(subtract(take(x, first), take(x, second)), p, -1)


@aten("_trilinear.default")
def trilinear(
    x: Tensor, y: Tensor, z: Tensor, expand1: Sequence[int], expand2: Sequence[int], expand3: Sequence[int],
    sumdim: Sequence[int], unroll_dim: int = 1,
) -> Tensor:  # fmt: skip
    """Sums of products of three, each with axes put in that it does not depend on (torch.nn.Bilinear)"""
    wider = [unsqueeze(part, axes) for part, axes in ((x, expand1), (y, expand2), (z, expand3))]
    return sum_of(mapped(lambda a, b, c: a * b * c, *wider), sumdim)
