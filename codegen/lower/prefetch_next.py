"""Bringing near what a later trip of an outer loop will read, a little in each trip of the reduction around a register tile.

    for j                                       for j
      for i                                       for i
        for k unroll 4                              for k unroll 4
          unroll: acc += a[i, k] * b[k, j]   ->       if k % 4 == 0: prefetch b[.. a share of j + 1's lines ..]
                                                      unroll: acc += a[i, k] * b[k, j]

All lines that one trip of the outer loop reads are shared out evenly among the trips of the loops inside, windows among them,
so that memory works while the arithmetic units do. They come into the first cache where they fit there beside what is in use,
else into the second (16x4096 times 4096x4096, Sapphire Rapids, 128 KiB of a panel at a time: 2.3 ms with the first, 2.1 with
the second). A hint has no effect on values, so an address beyond the tensor is no fault; but it takes its time (4096 rows of 64
bytes of the same product at a time, EPYC Zen 5, one thread: 8.2 ms without hints, 12.8 where all of them lay beyond the end).
So a loop of one trip asks for nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import reduce
from math import prod

from ...schedules.hints import FITTING, PrefetchNext
from ...schedules.loops import WRITTEN_OUT, Loop, LoopKind, StageLoops
from ...schedules.plan.storage import LINE
from ...schedules.reads_inside import reads_inside
from ...tensor.dtype import boolean
from ...tensor.expr import Expr, Op, Read, Var, rewrite, variables
from ...tensor.indices.affine import affine
from ..ir.index import floor_div, modulo, number, plus, times
from ..ir.loop_ir import For, If, Let, Prefetch, Scope, Statement
from .body import StageBody
from .prefetch import LATER, NEAR, apart, depends_on_data
from .view import AxisRange, Names, View, fixed

WHOLE = 1 << 24  # in which parts are counted: more than the points of what one trip of an outer loop does


@dataclass(frozen=True, slots=True)
class LineRange:
    """One hint for each line along an axis: at start, start + step, ..."""

    axis: str
    count: int
    step: int


def prefetch_next(
    body: StageBody, names: Names, stage: StageLoops, depth: Loop, unroll: int, view: View, variable: Expr
) -> Iterator[Statement]:
    """The hints of one trip of the reduction loop `depth` (of `unroll` points). `view` is that around the loop, `variable` the
    point that the loop has come to."""
    for hint in stage.hints.of(PrefetchNext):
        if not fixed(hint.asked):
            continue
        outer = _enclosing(body, stage, hint.loop)
        if outer is None or outer.name not in view.variables or fixed(outer.extent) == 1:
            continue  # its next trip reads nothing else, is part of this register tile or reduction, or there is none
        for read in reads_inside(body.tree, stage.stage, hint.tensor):
            if not depends_on_data(read):
                hints = _hints(body, names, stage, outer, depth, unroll, view, variable, read)
                if hints is not None:
                    yield hints


def _hints(
    body: StageBody, names: Names, stage: StageLoops, outer: Loop, depth: Loop, unroll: int, view: View,
    variable: Expr, read: Read,
) -> Statement | None:  # fmt: skip
    points = fixed(depth.extent) * unroll
    if not _moves(body, stage, outer, depth.axis, read):
        return None
    inside = list(_inside(body, stage, outer, view, read))
    axes = dict.fromkeys((depth.axis, *(one.range.axis for one in inside)))
    blocks = {axis: _blocks(stage, axis, view) for axis in axes}
    run = _run(body, stage, inside, depth.axis, points, view, read)
    ranges = [] if run else [*_line_ranges(body, stage, depth.axis, points, view, read), *(x.range for x in inside)]
    point, total = _point(body, stage, outer, view, variable, depth, points, blocks)
    lines, trips = run or prod(part.count for part in ranges), total // unroll
    locality = NEAR if lines * LINE <= FITTING else LATER
    each = -(-lines // trips)
    share = names.variable("ahead", lines + each)
    one = names.variable("line", each)
    line = plus(times(share, each), one) if each > 1 else share
    begun = {one.variable for one in inside}.union(*blocks.values())
    lets, ahead = _spread(names, stage, ranges, line, _next_trip(stage, outer, view, axes, begun))
    found = body.at(stage, read, ahead)
    assert isinstance(found, Read)
    indices = found.indices
    if run:  # beyond the end of a row lies the next one
        indices = (*indices[:-1], plus(indices[-1], times(line, _lane(body, read))))
    statement: Statement = Prefetch(found.tensor, indices, locality)
    for variable_, value in reversed(lets):
        statement = Let(variable_.name, value, statement)
    if each > 1:
        statement = For(one.name, number(each), statement, LoopKind.UNROLL)
    first = _share(point, total, lines, names) if lines < trips else floor_div(point, unroll, names.bounds)
    statement = Let(share.name, first, statement)
    if unroll == 1:
        return statement
    once = Op("eq", (modulo(variable, unroll, names.bounds), number(0)), boolean)
    return If(once, statement)


def _next_trip(stage: StageLoops, outer: Loop, view: View, axes: Iterable[str], begun: Set[Expr]) -> View:
    """The view at the start of the next trip of the outer loop. `begun`: the variables of what goes along some axes inside of
    it, which are at their first trips then."""
    ahead = view.shifted(stage.stage, outer.axis, number(fixed(outer.stride)))
    for axis in axes:
        place = ahead.places[stage.stage, axis]
        position = rewrite(place.position, lambda node: number(0) if node in begun else None)
        ahead = ahead.moved(stage.stage, axis, AxisRange(position, place.size))
    return ahead


def _spread(
    names: Names, stage: StageLoops, ranges: Sequence[LineRange], line: Expr, ahead: View
) -> tuple[list[tuple[Var, Expr]], View]:
    """Goes to a line of all those along some axes, the first one the fastest: variables with what they are, and the view."""
    lets: list[tuple[Var, Expr]] = []
    left = line
    for number_, part in enumerate(ranges):
        last = number_ == len(ranges) - 1
        at = names.variable(f"{part.axis}.line", part.count)
        lets.append((at, left if last else modulo(left, part.count, names.bounds)))
        left = left if last else floor_div(left, part.count, names.bounds)
        ahead = ahead.shifted(stage.stage, part.axis, times(at, part.step))
    return lets, ahead


def _moves(body: StageBody, stage: StageLoops, outer: Loop, depth: str, read: Read) -> bool:
    """Says whether a read moves through memory with both loops."""
    moving = _axes(read)
    return body.storage[read.tensor].buffer.scope is not Scope.REGISTER and {outer.axis, depth} <= moving


@dataclass(frozen=True, slots=True)
class LoopInside:
    """A loop between the outer one and the reduction loop that moves a read. `step`: elements of memory that it goes on by."""

    range: LineRange
    variable: Expr
    step: int | None


def _inside(body: StageBody, stage: StageLoops, outer: Loop, view: View, read: Read) -> Iterator[LoopInside]:
    """The loops, innermost first, that stand between the outer one and the reduction loop and move a read."""
    for name in _opened_inside(view, outer):
        loop = _enclosing(body, stage, name)
        if loop is not None and loop.axis in _axes(read) and fixed(loop.extent) > 1:
            step = _step(body, stage, read, loop.axis, view, fixed(loop.stride))
            yield LoopInside(LineRange(loop.axis, fixed(loop.extent), fixed(loop.stride)), view.variables[name], step)


def _opened_inside(view: View, outer: Loop) -> list[str]:
    """The loops that stand between the outer one and the reduction loop, innermost first."""
    opened = list(view.variables)
    return opened[: opened.index(outer.name) : -1]


def _run(
    body: StageBody, stage: StageLoops, inside: Sequence[LoopInside], depth: str, points: int, view: View, read: Read
) -> int:
    """Lines that one trip of the outer loop reads, where they lie one after the other, as in what was packed for this tile; 0
    where they do not.

    A place in them is a product and a shift; places along several axes take quotients and remainders in every trip. 128x768
    times 768x768 in steps of one point, one thread of an EPYC of Zen 3: 1.70 ms without hints, 2.06 with places along axes,
    1.61 with these.
    """
    tile = [x for x in stage.loops if x.kind in WRITTEN_OUT and x.axis in _axes(read) and x.axis != depth]
    if not tile or any(x.axis != tile[0].axis for x in tile):
        return 0
    width = prod(fixed(loop.extent) for loop in tile)
    if _step(body, stage, read, tile[0].axis, view) != 1 or _step(body, stage, read, depth, view) != width:
        return 0
    run = points * width
    for one in sorted(inside, key=lambda one: one.step or 0):
        if one.step != run:
            return 0
        run *= one.range.count
    return -(-run // _lane(body, read))


def _blocks(stage: StageLoops, axis: str, view: View) -> dict[Expr, int]:
    """Variables of blocks in which a long sum goes along an axis, and the points of each (blocked_sums.py)."""
    opened = set(view.variables.values())
    position = affine(view.places[stage.stage, axis].position)
    return {atom: points for atom, points in position.terms if atom not in opened}


def _step(body: StageBody, stage: StageLoops, read: Read, axis: str, view: View, points: int = 1) -> int | None:
    """Elements of memory from one point of an axis to one so many further; None where that is no constant."""
    here, there = body.at(stage, read, view), body.at(stage, read, view.shifted(stage.stage, axis, number(points)))
    assert isinstance(here, Read) and isinstance(there, Read)
    total = 0
    for a, b, stride in zip(here.indices, there.indices, body.storage[read.tensor].buffer.strides, strict=True):
        further = affine(b).plus(affine(a).times(-1))
        if further.terms:
            return None
        total += further.constant * stride
    return total


def _lane(body: StageBody, read: Read) -> int:
    """Elements of a line."""
    return LINE // body.storage[read.tensor].buffer.dtype.bytes


def _axes(read: Read) -> frozenset[str]:
    """The axes with which a read moves."""
    return frozenset[str]().union(*(variables(index) for index in read.indices))


def _line_ranges(
    body: StageBody, stage: StageLoops, depth: str, points: int, view: View, read: Read
) -> list[LineRange]:
    """Says which lines one trip of the outer loop reads, along each axis: one hint each."""
    lane, moving = _lane(body, read), _axes(read)
    found = [
        LineRange(loop.axis, fixed(loop.extent), fixed(loop.stride))
        for loop in stage.loops
        if loop.kind is LoopKind.UNROLL
        and loop.axis in moving
        and loop.axis != depth
        and not (fixed(loop.extent) * fixed(loop.stride) <= lane and apart(body, stage, read, loop.axis, view))
    ]
    step = lane if apart(body, stage, read, depth, view) else 1
    return [*found, LineRange(depth, -(-points // step), step)]


def _share(point: Expr, total: int, lines: int, names: Names) -> Expr:
    """The line that belongs to a point of so many. A product and a shift: a quotient takes three times the instructions where
    the divisor is odd."""
    return floor_div(times(point, -(-lines * WHOLE // total)), WHOLE, names.bounds)


def _point(
    body: StageBody, stage: StageLoops, outer: Loop, view: View, inner: Expr, depth: Loop, count: int,
    blocks: dict[str, dict[Expr, int]],
) -> tuple[Expr, int]:  # fmt: skip
    """(number of this point of the reduction among all those inside of `outer`, how many there are). `inner`: the point that
    the reduction loop `depth`, of `count` points, has come to in its block."""
    point, points = _from_start(inner, 1, blocks[depth.axis]), count
    for name in _opened_inside(view, outer):
        loop, own = _loop(body, name), _enclosing(body, stage, name)
        before = {} if own is None or own.axis == depth.axis else blocks.get(own.axis, {})
        point = plus(times(_from_start(view.variables[name], fixed(loop.stride), before), points), point)
        points *= fixed(loop.extent)
    return point, points


def _from_start(variable: Expr, stride: int, blocks: dict[Expr, int]) -> Expr:
    """Trips of a loop, of so many points each, since its first block began."""
    return reduce(plus, (times(block, points // stride) for block, points in blocks.items()), variable)


def _loop(body: StageBody, name: str) -> Loop:
    return body.tree.owner(name).loop(name)


def _enclosing(body: StageBody, stage: StageLoops, name: str) -> Loop | None:
    """A loop around the stage, its own or that of a stage that it runs inside of, whose axes are its own by position.

    None for a loop over an axis that the stage has not.
    """
    owner, loop = body.tree.owner(name), _loop(body, name)
    if owner.stage == stage.stage:
        return loop
    own = body.tree.definition(stage.stage).axes
    names = [axis.name for axis in body.tree.definition(owner.stage).axes[: len(own)]]
    return replace(loop, axis=own[names.index(loop.axis)].name) if loop.axis in names else None
