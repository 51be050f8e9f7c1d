"""The programs of rows of narrow elements: products, convolutions, attention.

Sums of bytes are of i32, those of bfloat16 of f32. A convolution has its channels last and one image; bytes are quantised
again, with a scale for each output channel, as models do it.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilesmith.tensor import build
from tilesmith.tensor.build import compute, constant, maximum, minimum, placeholder
from tilesmith.tensor.collect import program
from tilesmith.tensor.dtype import DTYPES, bf16, f32, u8
from tilesmith.tensor.expr import Expr
from tilesmith.tensor.ops.conv import convolved
from tilesmith.tensor.ops.window import Window, all_of
from tilesmith.tensor.precision import wide
from tilesmith.tensor.program import Program, Tensor
from tilesmith.tensor.text.parse import parse


def product(
    m: int, n: int, k: int, left: str, right: str, constants: tuple[str, ...], requantised: bool = False
) -> Program:
    """C = A B of narrow elements: integers in i32, or quantised again; bfloat16 summed in f32 and rounded once."""
    kind = "f32" if left == "bf16" else "i32"
    lines = [f"{'constant' if 'B' in constants else 'input'} B: {right}[{k}, {n}]"]
    lines += [f"S[i: {m}, j: {n}] = sum[k: {k}]({kind}(A[i, k]) * {kind}(B[k, j]))"]
    result = "bf16(S[i, j])" if left == "bf16" else ""
    if requantised:
        lines.insert(1, f"constant scale: f32[{n}]")
        result = f"u8(min(max(round(f32(S[i, j]) * (abs(scale[j]) * {step_of(k)!r})), 0), 255))"
    lines += [f"C[i: {m}, j: {n}] = {result}", "return C"] if result else ["return S"]
    return parse("\n".join([f"input A: {left}[{m}, {k}]", *lines]))


def convolution(c: int, h: int, o: int, kernel: int, stride: int, left: str, depthwise: bool = False) -> Program:
    """Y[1, p, q, o] of X[1, h, h, c] and a constant W[kernel, kernel, c, o], or W[kernel, kernel, c] of one channel each."""
    window = Window.of("conv2d", (h, h), kernel, stride, kernel // 2)
    data = placeholder((1, h, h, c), DTYPES[left], "X")
    filters = (kernel, kernel, c) if depthwise else (kernel, kernel, c, o)
    weights = constant(filters, DTYPES[weights_of(left)], "W")
    sums = _depthwise(data, weights, window) if depthwise else convolved(data, weights, window, first=False)
    if left == "bf16":
        return program([compute(sums.shape, lambda *i: sums[i].cast(bf16), name="Y")], inputs=[data, weights])
    scale, step = constant((sums.shape[-1],), f32, "scale"), step_of(kernel * kernel * (1 if depthwise else c))

    def quantised(*i: Expr) -> Expr:
        value = build.round(sums[i].cast(f32) * (build.absolute(scale[i[-1]]) * step))
        return minimum(maximum(value, 0.0), 255.0).cast(u8)

    return program([compute(sums.shape, quantised, name="Y")], inputs=[data, weights, scale])


def weights_of(left: str) -> str:
    """The type of the weights that go with data."""
    return "bf16" if left == "bf16" else "i8"


def step_of(terms: int) -> float:
    """The number that a scale of a channel is multiplied with, so that sums of so many products of any bytes fill a byte."""
    return float(0.005 / terms**0.5)


def _depthwise(data: Tensor, weights: Tensor, window: Window) -> Tensor:
    offsets = window.axes()

    def element(n: Expr, p: Expr, q: Expr, o: Expr) -> build.Reduction:
        places = window.places((p, q), offsets)
        value = build.select(all_of(window.inside(places)), data[(n, *places, o)], 0)
        return build.sum(wide(value) * wide(weights[(*offsets, o)]), offsets)

    return compute((1, *window.counts, data.shape[-1]), element, name="y", axes=("n", "p", "q", "o"))


def attention(heads: int, length: int, width: int, causal: bool, constants: Sequence[str] = ()) -> Program:
    """O = softmax(Q K^T / sqrt(width)) V of bfloat16, weights of the second product rounded to bfloat16 as well."""
    score, term = f"S[h, i, j] * {width**-0.5!r}", "f32(P[h, i, j]) * f32(V[h, j, d])"

    def seen(value: str, otherwise: str) -> str:
        return f"select(j <= i, {value}, {otherwise})" if causal else value

    shape, square = f"bf16[{heads}, {length}, {width}]", f"h: {heads}, i: {length}, j: {length}"
    lines = [f"input {name}: {shape}" for name in "QKV"]
    lines += [f"S[{square}] = sum[d: {width}](f32(Q[h, i, d]) * f32(K[h, j, d]))"]
    lines += [f"T[{square}] = {seen(score, '-inf')}"]
    lines += [f"m[h: {heads}, i: {length}] = max[j: {length}](T[h, i, j])"]
    lines += [f"E[{square}] = exp(T[h, i, j] - m[h, i])"]
    lines += [f"l[h: {heads}, i: {length}] = sum[j: {length}]({seen('E[h, i, j]', '0')})"]
    lines += [f"P[{square}] = bf16(E[h, i, j] / l[h, i])"]
    lines += [f"R[h: {heads}, i: {length}, d: {width}] = sum[j: {length}]({seen(term, '0')})"]
    lines += [f"O[h: {heads}, i: {length}, d: {width}] = bf16(R[h, i, d])", "return O"]
    return parse("\n".join(lines))
