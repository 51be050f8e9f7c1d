"""Rows that begin anywhere in memory: their first points are done alone, the others in whole lines.

    for j0                                  let first = distance from y[i, 0] to the next multiple of 16
      unroll j1: 4                          if first > 0:  vector j2: 16 valid first   y[i, j2] = ...
        vector j2: 16              ->       for j0, unroll j1, vector j2               y[i, first + ...] = ...
          y[i, ...] = ...

A vector across two lines costs two accesses, and a streaming store has to be aligned to its size; no vector of a row is surely
aligned where rows are no multiple of a vector long. Counted in whole vectors from the start of the buffer the addresses of the
rest are multiples of a vector in the text already, so the emitter sees that they may be streamed. Where the buffer itself
begins is up to the caller: streaming stores look at it when the kernel runs (emit/cpu/module.py), and all else is only slower.
Regions count tiles as if every row began at a line: some rows have one tile less.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ...schedules.loops import LoopKind
from ...schedules.regions import full_tile
from ...tensor.dtype import boolean
from ...tensor.expr import Expr, Op, Read
from ..ir.index import ceil_div, floor_div, known, minus, number, plus, times
from ..ir.loop_ir import Block, Buffer, For, If, Let, Scope, Statement
from .loops import Leaf, LoopLowering, Next
from .view import AxisRange, View, fixed

ARGUMENTS = (Scope.INPUT, Scope.OUTPUT)  # what begins at a line, if the caller wants speed


def aligned_start(lowering: LoopLowering) -> int | None:
    """The depth of the outermost of the last loops, all of one axis, of a pointwise stage to be aligned; None for others."""
    if not _asked(lowering) or lowering.definition.reduction:
        return None
    loops, vector = lowering.loops, lowering.loops[-1]
    depth = len(loops)
    while depth and loops[depth - 1].axis == vector.axis and not _attached(lowering, depth - 1):
        depth -= 1
    return None if depth == len(loops) or lowering.full[depth] else depth  # a tile alone is no row


def aligned_points(
    lowering: LoopLowering, view: View, depth: int, rest: Callable[[View, int], Statement], leaf: Leaf
) -> Statement:
    """The loops of a row from `depth` on, which `rest` writes, from the first point on that begins a line."""
    stage, names, vector, outer = lowering.stage, lowering.names, lowering.loops[-1], lowering.loops[depth]
    tile, lanes = fixed(full_tile(lowering.nest.tree, stage, vector.axis)), fixed(vector.extent)

    def few(inner: View) -> Statement:
        return lowering.alone(replace(inner, edge=True), [vector], leaf)

    def most(inner: View) -> Statement:
        place = inner.places[stage.stage, vector.axis]
        tiles = times(floor_div(place.size, tile, names.bounds), tile)
        after = AxisRange(plus(place.position, tiles), minus(place.size, tiles))
        whole = rest(inner.moved(stage.stage, vector.axis, AxisRange(place.position, tiles)), depth)
        end = inner.moved(stage.stage, vector.axis, after).opening(outer.name, number(0))
        return Block((whole, lowering.with_attached(end, outer, vectors)))

    def vectors(inner: View) -> Statement:
        place = inner.places[stage.stage, vector.axis]
        count = floor_div(place.size, lanes, names.bounds)
        variable = names.variable(vector.name, max(1, tile // lanes))
        here = AxisRange(plus(place.position, times(variable, lanes)), number(lanes))
        one = lowering.alone(replace(inner.moved(stage.stage, vector.axis, here), edge=False), [vector], leaf)
        left = minus(place.size, times(count, lanes))
        last = few(inner.moved(stage.stage, vector.axis, AxisRange(plus(place.position, times(count, lanes)), left)))
        return Block((For(variable.name, count, one), If(Op("lt", (number(0), left), boolean), last)))

    return _in_two(lowering, view, few, most)


def aligned_reduction(
    lowering: LoopLowering, view: View, depth: int, rest: Callable[[View], Statement], inner: Next
) -> Statement:
    """Works as `aligned_points`, for a reduction in lanes from its loop `depth` on; `inner` writes the loops inside."""
    loops, stage = lowering.loops, lowering.stage
    single = all(
        known(view.places[stage.stage, x.axis].size) == 1 for x in loops[depth:] if x.axis != loops[depth].axis
    )
    last = loops[-1].axis == loops[depth].axis
    if not _asked(lowering) or not single or not last or any(_attached(lowering, d) for d in range(depth, len(loops))):
        return rest(view)

    def head(inside: View) -> Statement:
        for loop in loops[depth:-1]:
            inside = inside.opening(loop.name, number(0))
        return inner(replace(inside, tail=True), len(loops) - 1)

    return _in_two(lowering, view, head, rest)


def _in_two(
    lowering: LoopLowering, view: View, head: Callable[[View], Statement], rest: Callable[[View], Statement]
) -> Statement:
    stage, names, vector = lowering.stage, lowering.names, lowering.loops[-1]
    place = view.places[stage.stage, vector.axis]
    lanes, points = fixed(vector.extent), known(place.size)
    start = _start(lowering, view, vector.axis)
    if start is None or points is None or points < lanes or names.multiple(start) % lanes == 0:
        return rest(view)
    first = names.variable("first", lanes)
    distance = minus(times(ceil_div(start, lanes, names.bounds), lanes), start)
    few = view.moved(stage.stage, vector.axis, AxisRange(place.position, first))
    most = view.moved(stage.stage, vector.axis, AxisRange(plus(place.position, first), minus(place.size, first)))
    some = Op("lt", (number(0), first), boolean)
    return Let(first.name, distance, Block((If(some, head(few)), rest(most))))


def _asked(lowering: LoopLowering) -> bool:
    """Says whether a schedule asks for it, and the innermost loop is a vector along memory. What is stored in the order of its
    loops has a place for each trip, not for each point: such a row cannot begin elsewhere."""
    asked = fixed(lowering.stage.hints.aligns) > 0
    vector = lowering.loops[-1] if lowering.loops else None
    if not asked or vector is None or lowering.stage.tiled or lowering.nest.target.is_gpu:
        return False
    return vector.kind is LoopKind.VECTOR and fixed(vector.stride) == 1


def _attached(lowering: LoopLowering, depth: int) -> bool:
    return (lowering.stage.stage, lowering.loops[depth].name) in lowering.nest.tree.attached


def _start(lowering: LoopLowering, view: View, axis: str) -> Expr | None:
    """Says how far from the start of an argument the first vector is: of what is stored, or else of what is read first."""
    body, stage = lowering.nest.body, lowering.stage
    if not lowering.definition.reduction:
        own = [body.place(stage, n, view) for n, _ in enumerate(lowering.definition.tensors)]
        starts = [_linear(buffer, indices) for buffer, indices in own]
        if all(buffer.scope is Scope.OUTPUT for buffer, _ in own):
            same = all(known(minus(starts[0], start)) == 0 for start in starts)
            return (
                starts[0]
                if same and _moves(lowering, view, axis, starts[0], lambda v: body.place(stage, 0, v))
                else None
            )
    for read in lowering.definition.reads():
        if body.storage[read.tensor].buffer.scope not in ARGUMENTS:
            continue
        start = _linear(*_found(lowering, read, view))
        if _moves(lowering, view, axis, start, lambda v, read=read: _found(lowering, read, v)):  # type: ignore[misc]
            return start
    return None


def _moves(
    lowering: LoopLowering, view: View, axis: str, start: Expr, at: Callable[[View], tuple[Buffer, tuple[Expr, ...]]]
) -> bool:
    """Says whether neighbours along an axis are neighbours in memory."""
    later = view.shifted(lowering.stage.stage, axis, number(1))
    return known(minus(_linear(*at(later)), start)) == 1


def _found(lowering: LoopLowering, read: Read, view: View) -> tuple[Buffer, tuple[Expr, ...]]:
    found = lowering.nest.body.at(lowering.stage, read, view)
    assert isinstance(found, Read)
    return lowering.nest.storage[read.tensor].buffer, found.indices


def _linear(buffer: Buffer, indices: tuple[Expr, ...]) -> Expr:
    total: Expr = number(0)
    for index, stride in zip(indices, buffer.strides, strict=True):
        total = plus(total, times(index, stride))
    return total
