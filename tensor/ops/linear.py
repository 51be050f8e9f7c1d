"""Matrix products."""

from __future__ import annotations

from collections.abc import Sequence

from .. import build
from ..activations import gelu
from ..build import compute, reduce_axis
from ..expr import Expr, Operand
from ..precision import narrowed, wide
from ..program import Program, Tensor
from .arguments import Size
from .norm import layer_normalised
from .operator import Operands, operator


@operator
def matmul(
    m: Size, n: Size, k: Size, transpose_a: bool = False, transpose_b: bool = False, dtype: str = "f32",
    constants: Sequence[str] = (),
) -> Program:  # fmt: skip
    """C[m, n] = A[m, k] B[k, n]; a transposed operand is stored as A[k, m] or B[n, k].

    Unlike those of NumPy and torch, products of i8, u8 and i16 are summed in i32 and stay i32, as ONNX's MatMulInteger.
    """
    operand = Operands(dtype, constants)
    return operand.program(narrowed(_product(operand, m, n, k, transpose_a, transpose_b), operand.dtype))


@operator
def batch_matmul(
    b: Size, m: Size, n: Size, k: Size, transpose_a: bool = False, transpose_b: bool = False, dtype: str = "f32",
    constants: Sequence[str] = (),
) -> Program:  # fmt: skip
    """C[b, m, n] = A[b, m, k] B[b, k, n], one product for each b.

    A is [b, m, k], or [b, k, m] if `transpose_a`; B is [b, k, n], or [b, n, k] if `transpose_b`.
    """
    operand = Operands(dtype, constants)
    return operand.program(narrowed(_product(operand, m, n, k, transpose_a, transpose_b, (b,)), operand.dtype))


@operator
def matvec(m: Size, k: Size, dtype: str = "f32", constants: Sequence[str] = ()) -> Program:
    """y[m] = A[m, k] x[k]"""
    operand = Operands(dtype, constants)
    a, x, axis = operand("A", m, k), operand("x", k), reduce_axis(k, "k")
    y = compute(m, lambda i: build.sum(wide(a[i, axis]) * wide(x[axis]), axis), name="y")
    return operand.program(narrowed(y, operand.dtype))


@operator
def dot(size: Size, dtype: str = "f32", constants: Sequence[str] = ()) -> Program:
    """s = sum of x[i] y[i]"""
    operand = Operands(dtype, constants)
    x, y, i = operand("x", size), operand("y", size), reduce_axis(size, "i")
    total = compute((), lambda: build.sum(wide(x[i]) * wide(y[i]), i), name="s")
    return operand.program(narrowed(total, operand.dtype))


@operator
def matmul_bias_relu(m: Size, n: Size, k: Size, dtype: str = "f32", constants: Sequence[str] = ()) -> Program:
    """D[m, n] = max(A[m, k] B[k, n] + bias[n], 0)"""
    operand = Operands(dtype, constants)
    product = _product(operand, m, n, k, False, False)
    bias = operand("bias", n)
    d = compute((m, n), lambda i, j: build.maximum(product[i, j] + wide(bias[j]), 0), name="D")
    return operand.program(narrowed(d, operand.dtype))


@operator
def matmul_bias_gelu(m: Size, n: Size, k: Size, dtype: str = "f32", constants: Sequence[str] = ()) -> Program:
    """D[m, n] = gelu(A[m, k] B[k, n] + bias[n])"""
    operand = Operands(dtype, constants)
    product = _product(operand, m, n, k, False, False)
    bias = operand("bias", n)
    sums = compute((m, n), lambda i, j: product[i, j] + wide(bias[j]), name="S")
    d = compute((m, n), lambda i, j: gelu(sums[i, j]), name="D")
    return operand.program(narrowed(d, operand.dtype))


@operator
def matmul_residual_layer_norm(
    m: Size, n: Size, k: Size, epsilon: float = 1e-5, dtype: str = "f32", constants: Sequence[str] = ()
) -> Program:
    """D = layer_norm(A[m, k] B[k, n] + residual[m, n]) * gamma[n] + beta[n], mean and variance over n"""
    operand = Operands(dtype, constants)
    product = _product(operand, m, n, k, False, False)
    residual, gamma, beta = operand("residual", m, n), operand("gamma", n), operand("beta", n)
    sums = compute((m, n), lambda i, j: product[i, j] + wide(residual[i, j]), name="S")
    return operand.program(layer_normalised(sums, gamma, beta, epsilon))


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
        return build.sum(wide(left) * wide(right), axis)

    if batch:
        return compute((*batch, m, n), lambda b, i, j: element((b,), i, j), name="C")
    return compute((m, n), lambda i, j: element((), i, j), name="C")
