"""Elements of an axis in order.

Each element counts those before it, which is its place in the order: many comparisons, all of them in vectors, and no branch.
Then the elements are put at their places, which is a reduction at computed places (tensor/indices/scatter.py). Where only the
first few of many are wanted, a fold carries the best so far; a long axis is put in order by merging (merge_sort.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...common.errors import ArgumentError
from .. import build
from ..build import compute, literal, reduce_axis, select
from ..dtype import DType, i32, i64
from ..expr import Expr
from ..identity import identity
from ..program import Program, Tensor
from .arguments import Index, Shape, Size, axis_of
from .merge_sort import merged
from .movement import clamped
from .operator import Operands, operator
from .order import before

FEW = 8  # of many, so few that a fold finds them sooner
FEW_OF_ROWS = 32  # where its rows are computed side by side,
ROWS = 4  # and so many of them
MANY = 32
LONG = 512  # so many that merging takes less time than counting, where
MUCH = 4_000_000  # comparisons are to be counted, for a dozen kernels take a second to compile


@operator
def sort(
    shape: Shape, axis: Index = -1, descending: bool = False, dtype: str = "f32", constants: Sequence[str] = ()
) -> Program:
    """out = the elements of x along the axis in order, the least first, or the greatest if `descending`; NaN is the greatest.

    Equal ones stay in their order.
    """
    operand = Operands(dtype, constants)
    place = axis_of("sort", "axis", axis, len(shape))
    return operand.program(first_along(operand("x", *shape), place, descending, shape[place])[0])


@operator
def argsort(
    shape: Shape, axis: Index = -1, descending: bool = False, dtype: str = "f32", constants: Sequence[str] = ()
) -> Program:
    """out = the indices along the axis of the elements of x in order: i64; see sort."""
    operand = Operands(dtype, constants)
    place = axis_of("argsort", "axis", axis, len(shape))
    return operand.program(first_along(operand("x", *shape), place, descending, shape[place])[1])


@operator
def topk(
    shape: Shape, k: Size, axis: Index = -1, largest: bool = True, dtype: str = "f32", constants: Sequence[str] = ()
) -> Program:
    """values, indices = the k greatest elements of x along the axis, or the least, in order, and where they are, i64.

    NaN is the greatest. Of equal ones the first comes first, as in ONNX; torch leaves that open.
    Errors: ArgumentError for more than the axis has.
    """
    operand = Operands(dtype, constants)
    place = axis_of("topk", "axis", axis, len(shape))
    if k > shape[place]:
        raise ArgumentError("topk wants more than the axis has", expected=f"k <= {shape[place]}", found=str(k))
    return operand.program(*first_along(operand("x", *shape), place, largest, k))


def first_along(x: Tensor, axis: int, descending: bool, count: int) -> tuple[Tensor, Tensor]:
    """The first elements along an axis in order, and where they were, i64."""
    rows = prod(x.shape) // x.shape[axis]
    if count <= (FEW_OF_ROWS if rows >= ROWS else FEW) and x.shape[axis] >= MANY:
        return _best(x, axis, descending, count)
    if x.shape[axis] > LONG and prod(x.shape) * x.shape[axis] > MUCH:
        return _merged(x, axis, descending, count)
    return _ranked(x, axis, descending, count)


def _ranked(x: Tensor, axis: int, descending: bool, count: int) -> tuple[Tensor, Tensor]:
    """Finds them by counting: as many comparisons for each element as there are."""
    size = x.shape[axis]
    over, again = reduce_axis(size, "k"), reduce_axis(size, "m")

    def counted(*i: Expr) -> build.Reduction:
        own, other = x[i], x[(*i[:axis], over, *i[axis + 1 :])]
        ahead = select(over < i[axis], ~before(own, other, descending), before(other, own, descending))
        return build.sum(select(ahead, literal(1, i32), literal(0, i32)), over)

    rank = compute(x.shape, counted, name="rank")

    def origin(*i: Expr) -> build.Reduction:
        met = rank[(*i[:axis], again, *i[axis + 1 :])].cast(i64).equal(i[axis])
        return build.max(select(met, again, identity("max", i64)), again)

    places = compute((*x.shape[:axis], count, *x.shape[axis + 1 :]), origin, name="indices")
    return _values(x, axis, places), places


def _merged(x: Tensor, axis: int, descending: bool, count: int) -> tuple[Tensor, Tensor]:
    """Finds them by merging, along the last axis."""
    outer = (*x.shape[:axis], *x.shape[axis + 1 :])
    last = compute((*outer, x.shape[axis]), lambda *i: x[(*i[:axis], i[-1], *i[axis:-1])], name="last")
    values, places = merged(last, descending, count)
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])

    def back(tensor: Tensor, name: str) -> Tensor:
        return compute(shape, lambda *i: tensor[(*i[:axis], *i[axis + 1 :], i[axis])], name=name)

    wide = compute(places.shape, lambda *i: places[i].cast(i64), name="wide")
    return back(values, "values"), back(wide, "indices")


def _best(x: Tensor, axis: int, descending: bool, count: int) -> tuple[Tensor, Tensor]:
    """Finds them by a fold: each element is put among the best so far, the rest of which moves on by one."""
    outer = (*x.shape[:axis], *x.shape[axis + 1 :])
    over = reduce_axis(x.shape[axis], "k")

    def step(*given: Expr) -> list[Expr]:
        i, held, places = given[: len(outer)], given[len(outer) : len(outer) + count], given[len(outer) + count :]
        new = build.named("new", x[(*i[:axis], over, *i[axis:])])
        wins = [
            build.named(f"wins{n}", (p < 0) | before(new, v, descending))
            for n, (v, p) in enumerate(zip(held, places, strict=True))
        ]
        made: list[Expr] = []
        for states, own in ((held, new), (places, over.cast(i32))):
            for n, state in enumerate(states):
                taken = own if n == 0 else select(wins[n - 1], states[n - 1], own)
                made.append(select(wins[n], taken, state))
        return made

    rank = len(outer)
    states = [build.State(f"value{n}", rank, 0, x.dtype) for n in range(count)]
    states += [build.State(f"place{n}", rank, -1, i32) for n in range(count)]
    found = build.fold(outer, over, states, step)

    def joined(parts: Sequence[Tensor], name: str, dtype: DType) -> Tensor:
        def element(*i: Expr) -> Expr:
            rest = (*i[:axis], *i[axis + 1 :])
            value: Expr = parts[-1][rest]
            for n in reversed(range(count - 1)):
                value = select(i[axis].equal(n), parts[n][rest], value)
            return value.cast(dtype)

        return compute((*x.shape[:axis], count, *x.shape[axis + 1 :]), element, name=name)

    return joined(found[:count], "values", x.dtype), joined(found[count:], "indices", i64)


def _values(x: Tensor, axis: int, places: Tensor) -> Tensor:
    size = x.shape[axis]
    return compute(places.shape, lambda *i: x[(*i[:axis], clamped(places[i], size), *i[axis + 1 :])], name="values")
