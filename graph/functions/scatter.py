"""Elements written to places that are tensors, where several may meet: the last one stays, or they are combined.

Each place combines all that is written to it, in its order: two writes to one place are the same on each run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...tensor import build
from ...tensor.build import compute, literal, reduce_axis, select
from ...tensor.dtype import DType, accumulator
from ...tensor.expr import Expr
from ...tensor.identity import identity
from ...tensor.ops.movement import clamped
from ...tensor.ops.window import all_of
from ...tensor.program import Tensor
from .function import NotCovered, axis_of, function
from .indexing import index_of

_MEET: dict[str, tuple[Callable[..., build.Reduction], Callable[[Expr, Expr], Expr]]] = {
    "add": (build.sum, lambda a, b: a + b), "mul": (build.prod, lambda a, b: a * b), "max": (build.max, build.maximum),
    "min": (build.min, build.minimum),
}  # fmt: skip


@function
def combined_along_axis(x: Tensor, index: Tensor, updates: Tensor, axis: int, how: str) -> Tensor:
    """x with x[..., index[..., k, ...], ...] combined with updates[..., k, ...]: how is last, add, mul, max or min. Negative
    indices count from the end."""
    place = axis_of(axis, len(x.shape))
    k = reduce_axis(index.shape[place], "k")

    def hits(i: Sequence[Expr], number: Expr) -> tuple[Expr, tuple[Expr, ...]]:
        """Says whether a write meets a place, and where the write stands."""
        rest = [a for a in range(len(x.shape)) if a != place]
        inside = [i[a] < index.shape[a] for a in rest if index.shape[a] < x.shape[a]]
        own = tuple(
            number if a == place else clamped(n, index.shape[a]) if index.shape[a] < x.shape[a] else n
            for a, n in enumerate(i)
        )
        return all_of([*inside, index_of(index[own], x.shape[place]).equal(i[place])]), own

    return _met(x, updates, how, k, hits)


@function
def combined_points(x: Tensor, index: Tensor, updates: Tensor, how: str) -> Tensor:
    """x at points combined with updates; the last axis of the index has a number for each of the first axes of x."""
    from .shape import reshape

    count = index.shape[-1]
    points = reshape(index, [-1, count])
    flat = reshape(updates, [points.shape[0], *x.shape[count:]])
    k = reduce_axis(points.shape[0], "k")

    def hits(i: Sequence[Expr], number: Expr) -> tuple[Expr, tuple[Expr, ...]]:
        met = [index_of(points[number, n], x.shape[n]).equal(i[n]) for n in range(count)]
        return all_of(met), (number, *i[count:])

    return _met(x, flat, how, k, hits)


def _met(
    x: Tensor, updates: Tensor, how: str, k: build.ReduceAxis,
    hits: Callable[[Sequence[Expr], Expr], tuple[Expr, tuple[Expr, ...]]],
) -> Tensor:  # fmt: skip
    """Each place of x with all writes that meet it."""
    from ...tensor.dtype import i64

    if how == "last":

        def latest(*i: Expr) -> build.Reduction:
            return build.max(select(hits(i, k)[0], k, identity("max", i64)), k)

        last = compute(x.shape, latest, name="last")

        def replaced(*i: Expr) -> Expr:
            own = hits(i, clamped(last[i], k.extent))[1]
            return select(last[i] >= 0, updates[own], x[i])

        return compute(x.shape, replaced, name="out")
    combine, both = _MEET[how]
    wide = accumulator(x.dtype)
    neutral = _neutral(how, wide)

    def gathered(*i: Expr) -> build.Reduction:
        hit, own = hits(i, k)
        return combine(select(hit, updates[own].cast(wide), neutral), k)

    met = compute(x.shape, gathered, name="met")
    return compute(x.shape, lambda *i: both(x[i].cast(wide), met[i]).cast(x.dtype), name="out")


def _neutral(how: str, dtype: DType) -> Expr:
    """Returns what changes nothing."""
    if how in ("add", "mul"):
        return literal(0 if how == "add" else 1, dtype)
    if dtype.is_float:
        return literal(float("-inf") if how == "max" else float("inf"), dtype)
    if not dtype.is_integer:
        raise NotCovered(f"{how} of {dtype}")
    unsigned = dtype.kind.value == "unsigned"
    least = 0 if unsigned else -(2 ** (dtype.bits - 1))
    most = 2 ** (dtype.bits - (not unsigned)) - 1
    return literal(least if how == "max" else most, dtype)
