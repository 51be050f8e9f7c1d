"""The rule for folds on processors: the ordered axis is walked in its order, everything else is shared out.

What all tensors of a fold keep is independent: threads share it. Where vectors lie follows from the axis along which memory is
read in order:

    an axis that all tensors keep     lanes hold points of their own; memory is walked in its order by blocks of steps
    (any, where the state is large)   (and where it is not in that order, the elements of a step are gathered)
                                      chunk of columns, block of steps, columns, step, vectors, lanes
    the ordered axis                  one step after the other; several rows side by side, so that their chains overlap
                                      others, block of rows, step, rows of the block
    an axis that some tensors drop    each step in vectors, some rows side by side
                                      others, block of rows, step, rows of the block, vectors, lanes

A search for a best element along memory is done in lanes first (tensor/rewrites/fold_lanes.py). State stays in registers
through the innermost loop over steps (codegen/lower/fold.py). A fold whose state for one point is all that another fold reads
there runs inside of it.
"""

from __future__ import annotations

from math import prod

from ....common.errors import ProgramError
from ....tensor.dtype import f32
from ....tensor.program import Program, Stage
from ....tensor.rewrites.registry import apply_rewrite
from ....tensor.scan import written_in_step
from ...access import element_stride, output_stride
from ...extents import ceildiv, maximum
from ...schedule import LoopHandle, Schedule, StageHandle
from ..row_groups import row_axes
from ..rule import Decided, Rule, rewriting

ROWS_AT_MOST = 8
VECTORS_AT_MOST = 8
LANES = (64, 128, 32)  # of a search: a few vectors, so that their chains overlap
STATE_LEAST = 4  # words of a point, so many that the step costs more than gathered reads, where
LANES_LEAST = 8  # there are points enough
WIDTH_AT_MOST = 256  # points of an axis that only some tensors keep: more do not stay in registers


def _matches(program: Program, stage: Stage, decided: Decided) -> str | None:
    return stage.name if stage.fold is not None else None


def _apply(s: Schedule, root: str, anchor: str, decided: Decided) -> set[str]:
    """Schedules a fold, and a fold that feeds it alone."""
    at = _scheduled(s, s.stage(root), root=True)
    feeder = _feeder(s.program, s.program.stage(root))
    if feeder is None or at is None:
        return {root}
    _scheduled(s, s.compute_at(feeder, at), root=False)
    return {root, feeder}


def _rewrite(s: Schedule) -> None:
    """Does a search along memory in lanes, where that may be."""
    for stage in s.program.stages:
        if stage.fold is None or _in_memory(s.program, stage) != stage.reduction[0].name:
            continue
        options = [
            lanes for lanes in LANES if stage.reduction[0].extent >= 2 * lanes and _searches(s.program, stage, lanes)
        ]
        if options:
            lanes = s.variant(f"{stage.name} lanes", [*options, 0])
            if lanes:
                s.rewrite("fold_lanes", stage=stage.name, lanes=lanes)
            return


def _searches(program: Program, stage: Stage, lanes: int) -> bool:
    try:
        apply_rewrite(program, "fold_lanes", {"stage": stage.name, "lanes": lanes})
    except ProgramError:
        return False
    return True


def common_axes(stage: Stage) -> tuple[str, ...]:
    """Returns the axes that all tensors of a fold keep."""
    assert stage.fold is not None
    kept = set.intersection(*(set(names) for names in stage.fold.tensor_axes))
    return tuple(a.name for a in stage.axes if a.name in kept)


def _scheduled(s: Schedule, stage: StageHandle, root: bool) -> LoopHandle | None:
    """Schedules one fold. Returns its innermost loop over points that all tensors keep; None where a tile has it."""
    definition = stage.definition
    common, along = common_axes(definition), _walked(s.program, definition)
    if along in common:
        return _columns(s, stage, along, root)
    inner = [a.name for a in definition.axes if a.name not in (*common, *_in_step(definition))]
    return _rows(s, stage, inner, root)


def _in_step(stage: Stage) -> set[str]:
    """Returns the axes that no loop runs over, because the step itself names the place along them."""
    found = {n: written_in_step(stage, n) for n in range(len(stage.tensors))}
    free = {place.axis for place in found.values() if place is not None}
    return free - {a.name for n, place in found.items() if place is None for a in stage.axes_of(n)}


def _walked(program: Program, stage: Stage) -> str | None:
    """Returns the axis along which the loops go: that of memory, or one whose points are in lanes.

    Where the state is large, a step costs much more than to gather its elements, if memory lies in the order of the steps.
    """
    along, common = _in_memory(program, stage), common_axes(stage)
    large = _words(stage) >= STATE_LEAST and len(common) == len(stage.axes) > 0
    if large and along == stage.reduction[0].name and stage.axis(common[-1]).extent >= LANES_LEAST:
        return common[-1]
    return along


def _in_memory(program: Program, stage: Stage) -> str | None:
    """Returns the axis along which most of what is read lies in order; without reads, that of the largest tensor."""
    score = {a.name: 0 for a in stage.all_axes}
    for read in stage.reads():
        for axis in score:
            if element_stride(program, read, axis) == 1:
                score[axis] += prod(program.tensors[read.tensor].shape)
    if not any(score.values()):
        whole = max(range(len(stage.tensors)), key=lambda n: len(stage.axes_of(n)))
        score |= {a.name: 1 for a in stage.axes if output_stride(stage, a.name, whole) == 1}
    best = max(score, key=lambda axis: score[axis], default=None)
    return best if best is not None and score[best] else None


def _words(stage: Stage) -> int:
    """Returns the vectors of four-byte lanes that hold the state of as many points."""
    return sum(max(1, tensor.dtype.bytes // f32.bytes) for tensor in stage.tensors)


def _feeder(program: Program, root: Stage) -> str | None:
    """Returns the fold that the root alone reads, at its own points."""
    rows = {root.name: tuple(common_axes(root))}
    for read in root.reads():
        stage = program.producers.get(read.tensor)
        if stage is None or stage.fold is None or any(t.name in program.outputs for t in stage.tensors):
            continue
        readers = {reader.name for t in stage.tensors for reader in program.consumers[t.name]}
        own = row_axes(program, stage, dict(rows)) if readers == {root.name} and rows[root.name] else None
        if own is not None and None not in own:
            return stage.name
    return None


def _columns(s: Schedule, stage: StageHandle, along: str, root: bool) -> LoopHandle | None:
    """Puts points in vectors. Each block of columns takes some steps, then the next one does."""
    definition, name = stage.definition, stage.name
    lanes = s.lanes(min((t.dtype for t in definition.tensors), key=lambda d: d.bytes))
    if min(t.dtype.bytes for t in definition.tensors) < f32.bytes:
        lanes = s.lanes(f32)
    loops = dict(zip((a.name for a in definition.axes), stage.axes, strict=True))
    (ordered,) = stage.reduction
    column = loops[along]
    vectors = s.factor(f"{name}.vectors", ceildiv(s.most(column), lanes), at_most=VECTORS_AT_MOST, default=4)
    words = _words(definition)
    room = maximum(s.target("vector_registers"), words + 1)  # the state of one vector may lie in memory
    s.require(vectors * words < room, "the state of a tile fits in the vector registers, or is that of one vector")
    others = [loops[a] for a in common_axes(definition) if a != along]
    rest = [loops[a.name] for a in definition.axes if a.name not in common_axes(definition)]
    if not root:
        pieces = s.split(column, vectors, lanes)
        s.reorder(*others, pieces[0], ordered, *pieces[1:], *rest)
    else:
        chunks = s.factor(f"{name}.chunks", ceildiv(column.extent, lanes), at_most=1024, default=2)
        count = ceildiv(column.extent, vectors * lanes)
        s.require(chunks <= count, "no more chunks than vectors")
        steps = s.split(ordered, s.factor(f"{name}.steps", ordered.extent, default=16))
        pieces = s.split(column, ceildiv(count, chunks), vectors, lanes)
        s.reorder(*others, pieces[0], steps[0], pieces[1], steps[1], *pieces[2:], *rest)
        s.parallel(*others, pieces[0])
    s.unroll(pieces[-2])
    s.vectorize(pieces[-1])
    return None


def _rows(s: Schedule, stage: StageHandle, inner: list[str], root: bool) -> LoopHandle | None:
    """Runs rows side by side, one step after the other. Axes that only some tensors keep are in vectors inside of a step."""
    definition, name = stage.definition, stage.name
    loops = dict(zip((a.name for a in definition.axes), stage.axes, strict=True))
    (ordered,) = stage.reduction
    common = [loops[a] for a in common_axes(definition)]
    rest = [loops[a.name] for a in definition.axes if a.name not in common_axes(definition)]
    tile: list[LoopHandle] = []
    widest = max((definition.axis(a).extent for a in inner), default=0)
    if inner and widest <= WIDTH_AT_MOST:
        vector = loops[inner[-1]]
        tile = [*s.split(vector, s.lanes(f32))]
        rest = [*(loop for loop in rest if loop is not vector), *tile]
    feeds = _feeder(s.program, definition) is not None
    if common and not feeds:
        rows = s.split(common[-1], s.factor(f"{name}.rows", s.most(common[-1]), at_most=ROWS_AT_MOST, default=4))
        s.reorder(*common[:-1], rows[0], ordered, rows[1], *rest)
        s.unroll(rows[1])
        common = [*common[:-1], rows[0]]
    if tile:
        s.unroll(tile[0])
        s.vectorize(tile[1])
    if root:
        s.parallel(*common)
    return common[-1] if common and feeds else None


FOLD = Rule("fold", rewriting(_rewrite), _matches, _apply)
