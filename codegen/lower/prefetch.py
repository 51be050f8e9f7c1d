"""Prefetches: in each trip of a loop, hints for what a later trip will read or write of one tensor.

    for i.p0                        for i.p0
      unroll i.p1: 2         ->       unroll i.p1: 2
        vector j: 16                    prefetch x[position of (i.p0 + distance, i.p1), first lane]
          ... x[i, j] ...             unroll i.p1: 2 ...

One hint for each vector (or scalar) of the register tile that the access moves with, but one for all that lie in a line; along
any other loop inside, for the first trip only: a distance is meant for the loop right around a tile. A hint has no effect on
values, so an address beyond the tensor does no harm; but what places depend on data is not asked for, as finding them out is a
read of its own.

What is needed soon is asked for into the first cache, what is needed later into the second: it would leave the first again, and
on its way there takes places of the few that wait for memory. x * sigmoid(x) + y on 16M reaches 91.5% of a triad's rate with
2048 bytes ahead into the first, 81% with 16384, and 93.5% with 8192 or 16384 into the second.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from ...schedules.hints import PrefetchAhead as PrefetchHint
from ...schedules.loops import WRITTEN_OUT, Loop, LoopKind, StageLoops
from ...schedules.plan.storage import LINE
from ...tensor.expr import Read, Var, reads, variables
from ...tensor.indices.affine import Affine, affine
from ..ir.index import known, number, times
from ..ir.loop_ir import For, Prefetch, Scope, Statement
from .body import StageBody
from .view import Names, View, fixed

NEAR, LATER = 3, 2  # localities: the first cache, the second
SOON = 2048  # bytes of one tensor


def prefetches(body: StageBody, names: Names, stage: StageLoops, loop: Loop, view: View) -> Iterator[Statement]:
    """The hints of one trip of a loop; `view` is that inside of the trip."""
    for hint in stage.hints.of(PrefetchHint):
        if hint.loop != loop.name or not fixed(hint.asked) or _made_inside(body, stage, loop, hint.tensor):
            continue
        distance = fixed(hint.distance)
        for read in leading(accesses(body, stage, hint.tensor)):
            if depends_on_data(read):
                continue
            ahead = _ahead(view, stage, loop, distance)
            inside = stage.loops[stage.position(loop.name) + 1 :]
            moving = frozenset[str]().union(*(variables(index) for index in read.indices))
            tile = [x for x in inside if x.axis in moving]
            yield _hints(body, names, stage, tile, read, ahead, _locality(body, tile, hint.tensor, distance))


def depends_on_data(read: Read) -> bool:
    """Says whether other reads say where this one reads."""
    return any(reads(index) for index in read.indices)


def _made_inside(body: StageBody, stage: StageLoops, loop: Loop, tensor: str) -> bool:
    """Says whether the tensor lives in registers, or each trip makes its own part of it: there is nothing to ask for."""
    storage = body.storage[tensor].buffer
    producer = body.tree.program.producers.get(tensor)
    if storage.scope is Scope.REGISTER:
        return True
    depth = stage.position(loop.name)
    return producer is not None and any(
        outer.stage == stage.stage and around > depth for outer, around in body.tree.chain(producer.name)
    )


def accesses(body: StageBody, stage: StageLoops, tensor: str) -> list[Read]:
    """Returns what a stage reads of a tensor, and, of its own ones, where it stores."""
    definition = body.tree.definition(stage.stage)
    found = [read for read in definition.reads() if read.tensor == tensor]
    for place, own in enumerate(definition.tensors):
        if own.name == tensor:
            found.append(Read(tensor, tuple(axis.var for axis in definition.axes_of(place)), own.dtype))
    return list(dict.fromkeys(found))


def leading(accesses: list[Read]) -> list[Read]:
    """Returns, of accesses that are apart by constants, the one that comes to new places first: what the others ask for it has
    asked for before, but along dimensions in which nothing moves. Six hints for the neighbours of a point in a volume cost a
    third of the time of the whole sum."""
    found: dict[tuple[Affine, ...], tuple[tuple[int, ...], Read]] = {}
    for read in accesses:
        forms = [affine(index) for index in read.indices]
        here = tuple(form.constant for form in forms)
        alike = tuple(form.plus(Affine((), -form.constant)) if form.terms else form for form in forms)
        if alike not in found or here > found[alike][0]:
            found[alike] = here, read
    return [read for _, read in found.values()]


def _ahead(view: View, stage: StageLoops, loop: Loop, distance: int) -> View:
    return view.shifted(stage.stage, loop.axis, times(number(fixed(loop.stride)), distance))


def _locality(body: StageBody, tile: list[Loop], tensor: str, distance: int) -> int:
    """Says where to: by how much of the tensor is read until then."""
    points = prod(fixed(loop.extent) for loop in tile if loop.kind in WRITTEN_OUT)
    return NEAR if distance * points * body.storage[tensor].buffer.dtype.bytes <= SOON else LATER


def _hints(
    body: StageBody, names: Names, stage: StageLoops, loops: list[Loop], read: Read, view: View, locality: int
) -> Statement:
    opened: list[tuple[Var, int]] = []
    for loop in loops:
        if loop.kind is not LoopKind.UNROLL or known(view.places[stage.stage, loop.axis].size) == 1:
            continue
        step = apart(body, stage, read, loop.axis, view) * body.storage[read.tensor].buffer.dtype.bytes
        together = max(LINE // (fixed(loop.stride) * step), 1) if step > 0 else 1
        count = -(-fixed(loop.extent) // together)
        variable = names.variable(loop.name, count)
        view = view.shifted(stage.stage, loop.axis, times(variable, together * fixed(loop.stride)))
        opened.append((variable, count))
    found = body.at(stage, read, view)
    assert isinstance(found, Read)
    statement: Statement = Prefetch(found.tensor, found.indices, locality)
    for variable, extent in reversed(opened):
        statement = For(variable.name, number(extent), statement, LoopKind.UNROLL)
    return statement


def apart(body: StageBody, stage: StageLoops, read: Read, axis: str, view: View) -> int:
    """Elements between neighbours along the axis, 0 where they do not lie in one row."""
    a, b = body.at(stage, read, view), body.at(stage, read, view.shifted(stage.stage, axis, number(1)))
    assert isinstance(a, Read) and isinstance(b, Read)
    further = affine(b.indices[-1]).plus(affine(a.indices[-1]).times(-1))
    return 0 if a.indices[:-1] != b.indices[:-1] or further.terms else further.constant
