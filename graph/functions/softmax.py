"""Softmax and its logarithm over an axis, and attention, which is made of it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...common.errors import ArgumentError
from ...tensor.build import compute, select
from ...tensor.dtype import DType, accumulator, bf16, boolean
from ...tensor.expr import Expr
from ...tensor.ops.softmax import attended, log_softmax_of, softmax_of
from ...tensor.precision import precise
from ...tensor.program import Tensor
from .elementwise import cast
from .function import axis_of, function
from .linear import matmul
from .operands import at, broadcast_shape
from .reductions import log_sum_exp
from .shape import reshape, transpose


@function
def softmax(x: Tensor, axis: int, dtype: DType | None = None, safe: bool = False) -> Tensor:
    """exp(x) / sum of exp(x) over an axis, computed from x - max. Where all are -inf it is NaN, or 0 if `safe`."""
    out = dtype or x.dtype
    if not x.shape:
        return reshape(softmax(reshape(x, [1]), 0, dtype, safe), [])
    given = x if x.dtype.is_float else cast(x, out)
    return softmax_of(given, "out", axis_of(axis, len(x.shape)), dtype=out, empty=safe)


@function
def log_softmax(x: Tensor, axis: int, dtype: DType | None = None) -> Tensor:
    """x - max - log(sum of exp(x - max)) over an axis."""
    out = dtype or x.dtype
    if not x.shape:
        return reshape(log_softmax(reshape(x, [1]), 0, dtype), [])
    given = x if x.dtype.is_float else cast(x, out)
    return cast(log_softmax_of(given, "out", axis_of(axis, len(x.shape))), out)


@function
def attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, causal: bool = False, scale: float | None = None
) -> Tensor:
    """softmax(q k^T * scale + mask) v over the last two axes (scaled dot product attention); scale is 1 / sqrt(width) unless
    given. A mask of bool says which keys are seen; a query that sees none gives 0. Fewer heads of k and v than of q are shared
    by neighbours. Of bfloat16 the softmax is rounded to it before it is multiplied with v, as torch does it."""
    outer = broadcast_shape(q.shape[:-3], k.shape[:-3], v.shape[:-3])
    if any(t.shape[:-3] != outer for t in (q, k, v)) or len({q.dtype, k.dtype, v.dtype}) > 1:
        raise ArgumentError("q, k and v do not fit", found=f"{q.shape}, {k.shape} and {v.shape}")
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else float(scale)

    def adjusted(i: Sequence[Expr], value: Expr) -> Expr:
        return _masked(mask, i, value)

    masked, rounded = None if mask is None else adjusted, bf16 if v.dtype == bf16 else None
    made = attended(q, k, v, factor, causal, masked, mask is not None, rounded)
    return made if made.dtype == q.dtype else compute(made.shape, lambda *i: made[i].cast(q.dtype), name="rounded")


_MOST_SCORES = 1 << 24  # 64 MiB of them


def keeps_scores(q: Sequence[int], k: Sequence[int]) -> bool:
    """Says, of the shapes of q and k, whether a gradient is computed here, which keeps all scores at once. Those of long texts
    are left to whoever computes them block by block."""
    return q[:-2] == k[:-2] and math.prod(q[:-1]) * k[-2] <= _MOST_SCORES


@function
def attention_sums(
    q: Tensor, k: Tensor, mask: Tensor | None = None, causal: bool = False, scale: float | None = None
) -> Tensor:
    """log of the sum of exp(q k^T * scale + mask) over the keys, in the dtype of the sums: what the gradient of `attention`
    reads of it."""
    wide = accumulator(q.dtype)
    dots = matmul(q, transpose(k, -1, -2), wide)
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else float(scale)

    def score(*i: Expr) -> Expr:
        value = _masked(mask, i, dots[i] * factor)
        return select(i[-1] <= i[-2], value, -math.inf) if causal else value

    return log_sum_exp(compute(dots.shape, score, name="scores"), -1)


def _masked(mask: Tensor | None, i: Sequence[Expr], value: Expr) -> Expr:
    """A score under a mask, which is added to it, or says whether it counts."""
    if mask is None:
        return value
    found = at(mask, i)
    return select(found, value, -math.inf) if mask.dtype == boolean else value + precise(found).cast(value.dtype)
