"""The first elements of a long axis in order, by merging: n log(n)^2 comparisons where counting takes n^2.

Blocks of the axis are put in order by counting. Then two neighbouring runs become one, until one is left, of which no more is
kept than is wanted. Each place of a merged run finds by itself how many elements of the first run stand before it: a search
along the diagonal of Green, Odeh and Birk ("Merge Path", 2014), in as many steps as that number has bits, so that all
places of all runs are independent and their number is fixed. Equal elements keep their order, for the first run wins.
"""

from __future__ import annotations

from dataclasses import dataclass

from .. import build
from ..build import compute, literal, maximum, minimum, reduce_axis, select
from ..dtype import i32
from ..expr import Expr
from ..identity import identity
from ..program import Tensor
from .movement import clamped
from .order import before

BLOCK = 128  # elements that are put in order by counting: as long as two levels of merging take


@dataclass(frozen=True, slots=True)
class _Runs:
    """Runs in order, each of the same number of consecutive elements of the axis (`span`), the last perhaps of fewer.

    `values`, `origins`: (*outer, runs, places): the elements, and where they were, i32; what lies behind the length of a run
    means nothing. `size`: elements of the axis.
    """

    values: Tensor
    origins: Tensor
    span: int
    size: int

    @property
    def count(self) -> int:
        """The number of runs."""
        return self.values.shape[-2]

    @property
    def width(self) -> int:
        """The places of a run."""
        return self.values.shape[-1]

    def length(self, run: Expr) -> Expr:
        """The number of elements of a run; none for one that there is not."""
        return minimum(maximum(self.size - run * self.span, 0), self.width)


def merged(x: Tensor, descending: bool, count: int) -> tuple[Tensor, Tensor]:
    """The first `count` elements along the last axis in order, and where they were, i32."""
    runs = _blocks(x, descending, count)
    while runs.count > 1:
        runs = _merged(runs, descending, count)
    shape = (*x.shape[:-1], count)

    def only(tensor: Tensor) -> Tensor:
        return compute(shape, lambda *i: tensor[(*i[:-1], 0, i[-1])], name=f"{tensor.name}_last")

    return only(runs.values), only(runs.origins)


def _blocks(x: Tensor, descending: bool, count: int) -> _Runs:
    """Blocks of the last axis, each in order: an element's place is the number of those of its block that stand before it."""
    *outer, size = x.shape
    blocks = -(-size // BLOCK)
    over, again = reduce_axis(BLOCK, "k"), reduce_axis(BLOCK, "m")

    def element(place: tuple[Expr, ...], within: Expr) -> Expr:
        return x[(*place[:-1], minimum(place[-1] * BLOCK + within, size - 1))]

    def counted(*i: Expr) -> build.Reduction:
        own, other = element(i[:-1], i[-1]), element(i[:-1], over)
        ahead = select(over < i[-1], ~before(own, other, descending), before(other, own, descending))
        there = i[-2] * BLOCK + over < size
        return build.sum(select(there & ahead, literal(1, i32), literal(0, i32)), over)

    rank = compute((*outer, blocks, BLOCK), counted, name="rank")
    width = min(BLOCK, count)

    def origin(*i: Expr) -> build.Reduction:
        met = rank[(*i[:-1], again)].equal(i[-1].cast(i32)) & (i[-2] * BLOCK + again < size)
        return build.max(select(met, (i[-2] * BLOCK + again).cast(i32), identity("max", i32)), again)

    origins = compute((*outer, blocks, width), origin, name="origins")
    values = compute(origins.shape, lambda *i: x[(*i[:-2], clamped(origins[i].cast(i[0].dtype), size))], name="ordered")
    return _Runs(values, origins, BLOCK, size)


def _merged(runs: _Runs, descending: bool, count: int) -> _Runs:
    """Runs of which each is made of two neighbours."""
    *outer, number, width = runs.values.shape
    shape = (*outer, -(-number // 2), min(2 * width, count))

    def at(tensor: Tensor, place: tuple[Expr, ...], run: Expr, index: Expr) -> Expr:
        return tensor[(*place[:-2], minimum(run, number - 1), clamped(index, width))]

    def first_wins(place: tuple[Expr, ...], left: Expr, right: Expr) -> Expr:
        """Says whether an element of the first run stands before one of the second, or before its end."""
        first, second = place[-2] * 2, place[-2] * 2 + 1
        other, own = at(runs.values, place, second, right), at(runs.values, place, first, left)
        return (right >= runs.length(second)) | ~before(other, own, descending)

    def step(*given: Expr) -> list[Expr]:
        *place, found, bit = given
        tried = build.named("tried", found.cast(place[-1].dtype) + bit.cast(place[-1].dtype))
        there = (tried <= place[-1]) & (tried <= runs.length(place[-2] * 2))
        wins = there & first_wins(tuple(place), tried - 1, place[-1] - tried)
        return [select(wins, found + bit, found), bit // 2]

    bits = width.bit_length()
    rank = len(shape)
    states = [
        build.State(f"split_{runs.span}", rank, 0, i32),
        build.State(f"bit_{runs.span}", rank, 1 << (bits - 1), i32),
    ]
    split, _ = build.fold(shape, reduce_axis(bits, "t"), states, step)

    def chosen(tensor: Tensor, name: str) -> Tensor:
        def element(*i: Expr) -> Expr:
            left = split[i].cast(i[-1].dtype)
            right = i[-1] - left
            wins = (left < runs.length(i[-2] * 2)) & first_wins(i, left, right)
            return select(wins, at(tensor, i, i[-2] * 2, left), at(tensor, i, i[-2] * 2 + 1, right))

        return compute(shape, element, name=name)

    span = 2 * runs.span
    return _Runs(chosen(runs.values, f"ordered_{span}"), chosen(runs.origins, f"origins_{span}"), span, runs.size)
