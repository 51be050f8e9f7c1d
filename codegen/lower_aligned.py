"""Streaming stores of rows that begin anywhere: the first points of a row are stored alone, the others in whole lines.

    for j0                                  first = distance from y[i, 0] to the next multiple of 16
      unroll j1: 4                          if first > 0:  vector j2: 16 valid first   y[i, j2] = ...
        vector j2: 16              ->       for j0, unroll j1, vector j2               y[i, first + ...] =(stream) ...
          y[i, ...] =(stream) ...

A streaming store has to be aligned to its size, which no vector of a row surely is where rows are no multiple of a vector
long. Counted in whole vectors from the start of the buffer the addresses of the rest are multiples of a vector in the text
already, so the emitter sees that they may be streamed. The start of a buffer is looked at when the kernel runs (llvm.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..schedules.loops import LoopKind
from ..tensor.dtype import boolean
from ..tensor.expr import Expr, Op
from .index import ceil_div, known, minus, number, plus, times
from .loop_ir import Block, If, Let, Scope, Statement
from .lower_loops import Leaf, LoopLowering
from .view import Place, View, fixed


def aligned_start(lowering: LoopLowering) -> int | None:
    """The depth of the outermost of the last loops, all of one axis, that walk a streamed row; None where there is no such row."""
    stage, loops = lowering.stage, lowering.loops
    streamed = any(kind == "streaming" and on for kind, _, on in stage.notes)
    if not streamed or lowering.definition.reduction or stage.at is not None or lowering.nest.target.kind == "cuda":
        return None
    vector = loops[-1]
    depth = len(loops)
    while depth and loops[depth - 1].axis == vector.axis and not _attached(lowering, depth - 1):
        depth -= 1
    contiguous = all(
        lowering.definition.axes_of(number)[-1].name == vector.axis
        for number, _ in enumerate(lowering.definition.tensors)
    )
    if vector.kind is not LoopKind.VECTOR or fixed(vector.stride) != 1 or not contiguous or depth == len(loops):
        return None
    return depth


def from_line(
    lowering: LoopLowering, view: View, depth: int, rest: Callable[[View, int], Statement], leaf: Leaf
) -> Statement:
    """The loops of a row from `depth` on, which `rest` writes, from the first point on that begins a vector in memory."""
    stage, names, vector = lowering.stage, lowering.names, lowering.loops[-1]
    place = view.places[stage.stage, vector.axis]
    lanes, points = fixed(vector.extent), known(place.size)
    start = _linear(lowering, view)
    if start is None or points is None or points < lanes or names.multiple(start) % lanes == 0:
        return rest(view, depth)
    first = names.variable("first", lanes)
    distance = minus(times(ceil_div(start, lanes, names.bounds), lanes), start)
    head = replace(view.moved(stage.stage, vector.axis, Place(place.position, first)), edge=True)
    main = view.moved(
        stage.stage, vector.axis, Place(plus(place.position, first), minus(place.size, first))
    )
    some = Op("lt", (number(0), first), boolean)
    body = Block((If(some, lowering.alone(head, [vector], leaf)), rest(main, depth)))
    return Let(first.name, distance, body)


def _attached(lowering: LoopLowering, depth: int) -> bool:
    return (lowering.stage.stage, lowering.loops[depth].name) in lowering.nest.tree.attached


def _linear(lowering: LoopLowering, view: View) -> Expr | None:
    """How far from the start of their buffers a stage's tensors are stored; None if not all equally far."""
    found: Expr | None = None
    for place, _ in enumerate(lowering.definition.tensors):
        buffer, indices = lowering.nest.body.place(lowering.stage, place, view)
        if buffer.scope is not Scope.OUTPUT or len(indices) != len(buffer.shape):
            return None
        total: Expr = number(0)
        for index, extent in zip(indices, buffer.shape, strict=True):
            total = plus(times(total, extent), index)
        if found is not None and known(minus(found, total)) != 0:
            return None
        found = total
    return found
