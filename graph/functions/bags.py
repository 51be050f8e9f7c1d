"""Rows of a table added up in bags that a list of offsets makes of a row of indices (torch's EmbeddingBag)."""

from __future__ import annotations

from collections.abc import Callable

from ...tensor import build
from ...tensor.build import compute, literal, reduce_axis, select
from ...tensor.dtype import i64
from ...tensor.expr import Expr
from ...tensor.identity import identity
from ...tensor.ops.window import all_of
from ...tensor.precision import narrowed, precise
from ...tensor.program import Tensor
from .function import NotCovered, function
from .indexing import index_of
from .reductions import scan

MODES = ("sum", "mean", "max")


@function
def embedding_bag(
    weights: Tensor, indices: Tensor, offsets: Tensor, mode: str = "sum", factors: Tensor | None = None,
    has_end: bool = False, padding: int = -1,
) -> Tensor:  # fmt: skip
    """out[b] = the sum, mean or greatest of weights[indices[k]] over the k of bag b, from offsets[b] to where the next begins.

    Args:
        factors: of the rows, one for each index. has_end: the last offset is the end of the last bag, and begins none.
        padding: rows that an index of this value names count nowhere; none does where it is negative.

    A bag without rows is 0. One pass over the indices, whatever the number of bags.
    """
    count, bags = indices.shape[0], offsets.shape[0] - has_end
    if not bags:
        raise NotCovered("results without elements")
    begin = reduce_axis(offsets.shape[0], "begin")
    one, zero = literal(1, i64), literal(0, i64)
    begun = compute((count,), lambda k: build.sum(select(k.equal(offsets[begin]), one, zero), begin), name="begun")
    bag = scan(begun, 0)  # the number of the last bag that has begun, and one
    k = reduce_axis(count, "k")

    def counts(b: Expr) -> Expr:
        met = [b.equal(bag[k] - 1)]
        return all_of([*met, indices[k].cast(i64).not_equal(padding)] if padding >= 0 else met)

    def row(d: Expr) -> Expr:
        value = precise(weights[index_of(indices[k], weights.shape[0], negative=False), d])
        return value if factors is None else value * precise(factors[k])

    def combined(reduction: Callable[..., build.Reduction], combiner: str) -> Tensor:
        def element(b: Expr, d: Expr) -> build.Reduction:
            value = row(d)
            return reduction(select(counts(b), value, identity(combiner, value.dtype)), k)

        return compute((bags, weights.shape[1]), element, name="bags")

    if mode == "sum":
        return narrowed(combined(build.sum, "sum"), weights.dtype)
    sizes = compute((bags,), lambda b: build.sum(select(counts(b), one, zero), k), name="sizes")
    if mode == "max":
        most = combined(build.max, "max")
        return compute(most.shape, lambda b, d: select(sizes[b] > 0, most[b, d], 0).cast(weights.dtype))
    sums = combined(build.sum, "sum")
    return compute(
        sums.shape, lambda b, d: (sums[b, d] / build.maximum(sizes[b], 1).cast(sums.dtype)).cast(weights.dtype)
    )
