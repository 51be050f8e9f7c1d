"""Matrix products and convolutions."""

from __future__ import annotations

from collections.abc import Sequence

from ..common.errors import ArgumentError
from . import build
from .affine import simplify
from .build import compute, reduce_axis
from .dtype import DType, Kind, f32, i32
from .expr import Expr, Operand
from .operator import Offset, Operands, Size, operator
from .ops_pointwise import gelu_of
from .ops_reduce import layer_normalised
from .program import Program, Tensor


@operator
def matmul(
    m: Size, n: Size, k: Size, transpose_a: bool = False, transpose_b: bool = False, dtype: str = "f32",
    constants: Sequence[str] = (),
) -> Program:  # fmt: skip
    """C[m, n] = A[m, k] B[k, n]; a transposed operand is stored as A[k, m] or B[n, k]."""
    operand = Operands(dtype, constants)
    return operand.program(_narrowed(_product(operand, m, n, k, transpose_a, transpose_b), operand.dtype))


@operator
def batch_matmul(
    b: Size, m: Size, n: Size, k: Size, transpose_a: bool = False, transpose_b: bool = False, dtype: str = "f32",
    constants: Sequence[str] = (),
) -> Program:  # fmt: skip
    """C[b, m, n] = A[b, m, k] B[b, k, n], one product for each b."""
    operand = Operands(dtype, constants)
    return operand.program(_narrowed(_product(operand, m, n, k, transpose_a, transpose_b, (b,)), operand.dtype))


@operator
def matvec(m: Size, k: Size, dtype: str = "f32", constants: Sequence[str] = ()) -> Program:
    """y[m] = A[m, k] x[k]"""
    operand = Operands(dtype, constants)
    a, x, axis = operand("A", m, k), operand("x", k), reduce_axis(k, "k")
    y = compute(m, lambda i: build.sum(_wide(a[i, axis]) * _wide(x[axis]), axis), name="y")
    return operand.program(_narrowed(y, operand.dtype))


@operator
def dot(size: Size, dtype: str = "f32", constants: Sequence[str] = ()) -> Program:
    """s = sum of x[i] y[i]"""
    operand = Operands(dtype, constants)
    x, y, i = operand("x", size), operand("y", size), reduce_axis(size, "i")
    total = compute((), lambda: build.sum(_wide(x[i]) * _wide(y[i]), i), name="s")
    return operand.program(_narrowed(total, operand.dtype))


@operator
def matmul_bias_relu(m: Size, n: Size, k: Size, dtype: str = "f32", constants: Sequence[str] = ()) -> Program:
    """D[m, n] = max(A[m, k] B[k, n] + bias[n], 0)"""
    operand = Operands(dtype, constants)
    product = _product(operand, m, n, k, False, False)
    bias = operand("bias", n)
    d = compute((m, n), lambda i, j: build.maximum(product[i, j] + _wide(bias[j]), 0), name="D")
    return operand.program(_narrowed(d, operand.dtype))


@operator
def matmul_bias_gelu(m: Size, n: Size, k: Size, dtype: str = "f32", constants: Sequence[str] = ()) -> Program:
    """D[m, n] = gelu(A[m, k] B[k, n] + bias[n])"""
    operand = Operands(dtype, constants)
    product = _product(operand, m, n, k, False, False)
    bias = operand("bias", n)
    sums = compute((m, n), lambda i, j: product[i, j] + _wide(bias[j]), name="S")
    d = compute((m, n), lambda i, j: gelu_of(sums[i, j]), name="D")
    return operand.program(_narrowed(d, operand.dtype))


@operator
def matmul_residual_layer_norm(
    m: Size, n: Size, k: Size, epsilon: float = 1e-5, dtype: str = "f32", constants: Sequence[str] = ()
) -> Program:
    """D = layer_norm(A[m, k] B[k, n] + residual[m, n]) * gamma[n] + beta[n], mean and variance over n"""
    operand = Operands(dtype, constants)
    product = _product(operand, m, n, k, False, False)
    residual, gamma, beta = operand("residual", m, n), operand("gamma", n), operand("beta", n)
    sums = compute((m, n), lambda i, j: product[i, j] + _wide(residual[i, j]), name="S")
    d = layer_normalised(sums, lambda j: _wide(gamma[j]), lambda j: _wide(beta[j]), epsilon)
    return operand.program(_narrowed(d, operand.dtype))


@operator
def conv2d(
    n: Size, c: Size, h: Size, w: Size, o: Size, kh: Size = 3, kw: Size = 3, stride: Size = 1, padding: Offset = 0,
    dilation: Size = 1, groups: Size = 1, layout: str = "nchw", dtype: str = "f32", constants: Sequence[str] = (),
) -> Program:  # fmt: skip
    """A convolution of x with o filters, as in neural networks (no flip), zeros around.

    x is [n, c, h, w] and w is [o, c / groups, kh, kw]; with layout "nhwc" x is [n, h, w, c] and w is [kh, kw, c / groups, o].
    Errors: ArgumentError for groups that do not divide c and o, or a window larger than the padded image.
    """
    rows, columns = ((size + 2 * padding - dilation * (k - 1) - 1) // stride + 1 for size, k in ((h, kh), (w, kw)))
    if rows < 1 or columns < 1:
        raise ArgumentError("the window of conv2d is larger than the image", found=f"{kh}x{kw} on {h}x{w}")
    if c % groups or o % groups:
        raise ArgumentError("groups of conv2d must divide c and o", found=f"groups={groups} c={c} o={o}")
    if layout not in ("nchw", "nhwc"):
        raise ArgumentError("unknown layout of conv2d", expected="nchw or nhwc", found=layout)
    operand = Operands(dtype, constants)
    inner, outer = c // groups, o // groups
    first = layout == "nchw"
    x = operand("x", *((n, c, h, w) if first else (n, h, w, c)))
    weights = operand("w", *((o, inner, kh, kw) if first else (kh, kw, inner, o)))
    channel, r, s = reduce_axis(inner, "c"), reduce_axis(kh, "r"), reduce_axis(kw, "s")

    def element(n: Expr, o: Expr, p: Expr, q: Expr) -> build.Reduction:
        row = simplify(p * stride + r * dilation - padding)
        column = simplify(q * stride + s * dilation - padding)
        source = channel if groups == 1 else simplify(o // outer * inner + channel)
        value: Expr = x[(n, source, row, column) if first else (n, row, column, source)]
        guards = _guards(row, rows, h, kh) + _guards(column, columns, w, kw)
        value = build.select(_all(guards), value, 0) if guards else value
        weight = weights[(o, channel, r, s) if first else (r, s, channel, o)]
        return build.sum(_wide(value) * _wide(weight), [channel, r, s])

    def _guards(index: Expr, count: int, size: int, window: int) -> list[Expr]:
        last = (count - 1) * stride + (window - 1) * dilation - padding
        return [index >= 0] * (padding > 0) + [index < size] * (last >= size)

    if first:
        y = compute((n, o, rows, columns), element, name="y")
    else:
        y = compute((n, rows, columns, o), lambda n, p, q, o: element(n, o, p, q), name="y")
    return operand.program(_narrowed(y, operand.dtype))


def _all(conditions: Sequence[Expr]) -> Expr:
    total = conditions[0]
    for condition in conditions[1:]:
        total = total & condition
    return total


def _product(
    operand: Operands, m: int, n: int, k: int, transpose_a: bool, transpose_b: bool, batch: tuple[int, ...] = ()
) -> Tensor:
    """The stage C, in the dtype of its accumulator."""
    a = operand("A", *batch, *((k, m) if transpose_a else (m, k)))
    b = operand("B", *batch, *((n, k) if transpose_b else (k, n)))
    axis = reduce_axis(k, "k")

    def element(outer: tuple[Operand, ...], i: Expr, j: Expr) -> build.Reduction:
        left = a[(*outer, axis, i) if transpose_a else (*outer, i, axis)]
        right = b[(*outer, j, axis) if transpose_b else (*outer, axis, j)]
        return build.sum(_wide(left) * _wide(right), axis)

    if batch:
        return compute((*batch, m, n), lambda b, i, j: element((b,), i, j), name="C")
    return compute((m, n), lambda i, j: element((), i, j), name="C")


def _wide(value: Expr) -> Expr:
    """A factor in the dtype in which products are summed: float16 and bfloat16 in float32, narrow integers in int32."""
    dtype = value.dtype
    if dtype.is_float and dtype.bits < 32:
        return value.cast(f32)
    return value.cast(i32) if dtype.is_integer and dtype.bits < 32 else value


def _narrowed(tensor: Tensor, dtype: DType) -> Tensor:
    """The result back in the operands' dtype; sums of narrow integers stay int32."""
    if tensor.dtype == dtype or dtype.kind in (Kind.SIGNED, Kind.UNSIGNED):
        return tensor
    return compute(tensor.shape, lambda *i: tensor[i].cast(dtype), name=f"{tensor.name}_{dtype}")
