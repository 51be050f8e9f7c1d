"""The streaming rule: for everything without reuse to tile for. The contiguous axis goes in vectors, the rest in parallel.

Producers whose values belong to one row of the root (softmax: the maximum and the sum of a row) run inside of its row loop,
where their rows stay in a near cache. A producer is taken in only if nothing would be computed twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ....tensor.indices.members import member_axes
from ....tensor.program import Program, Stage
from ...access import contiguous_axis, element_stride
from ...extents import Extent, ceildiv
from ...plan.storage import LINE
from ...schedule import LoopHandle, Schedule, StageHandle
from ..row_groups import inside_rows, row_group
from ..rule import Decided, Rule
from .blocks import axis_of_blocks, by_blocks
from .transpose import crossing, transpose

UNROLL_AT_MOST = 8
ROWS_AT_MOST = 4
AHEAD = (0, 512, 1024, 2048, 4096, 16384)  # bytes that a prefetch looks ahead: the last for the next of long rows
FAR = 1 << 16  # elements: an input of this size comes from beyond the near caches
SHORT = 256  # elements: in a shorter row, pieces that are not whole lines cost more than vectors across lines
LARGE = 1 << 20  # elements: a result of this size outlives no near cache, so streaming stores are worth a try


def _matches(program: Program, stage: Stage, decided: Decided) -> str | None:
    return stage.name


def _apply(s: Schedule, root: str, anchor: str, decided: Decided) -> set[str]:
    """Schedules a root and what runs inside of its rows. Beside stages that stay nests, rarer structures are left out."""
    few = bool(decided.nests)
    group, shared = row_group(s.program, s.program.stage(root), decided.taken | decided.nests)
    stage = s.stage(root)
    across = None if group else crossing(s.program, stage.definition)
    if across is not None:
        s.parallel(*transpose(s, stage, across, few))
        perhaps_streaming(s, stage)
        return {root}
    rows = list(stage.axes[:shared]) if group else []
    axis = contiguous_axis(s.program, stage.definition)
    if not group and stage.definition.reduction and axis in {a.name for a in stage.definition.axes}:
        _columns(s, stage, axis)
        return {root}
    if group and axis in {a.name for a in stage.definition.axes[:shared]}:
        axis = None  # the contiguous axis is a row axis: the rows themselves are not vectorized
    waiting = {t.name for t in s.program.dynamic_inputs if prod(t.shape) >= FAR}
    loops = loops_by_axis(stage)
    if group and axis is not None:
        block = s.factor(f"{root}.rows", rows[-1].extent, at_most=ROWS_AT_MOST)
        rows[-1], loops[stage.definition.axes[shared - 1].name] = s.split(rows[-1], block)
    _streamed(s, stage, loops, axis, rows, root=True, waiting=waiting)
    aligned = _perhaps_aligned(s, root, group)
    if aligned is not None and axis is not None:
        s.require(aligned * (block - 1) <= 0, "rows that begin at different places of lines are aligned one by one")
    inside = inside_rows(s.program, s.program.stage(root), group, shared)
    for name in group:
        inner = s.compute_at(name, rows[-1])
        own = contiguous_axis(s.program, inner.definition)
        _streamed(s, inner, loops_by_axis(inner), own, [], root=False, waiting=waiting, inside=inside[name])
        if aligned is not None:
            s.align(name, aligned)
    return {root, *group}


def loops_by_axis(stage: StageHandle) -> dict[str, LoopHandle]:
    """Returns the loop of each axis of a stage that has not been split."""
    return {axis.name: loop for axis, loop in zip(stage.definition.all_axes, stage.loops, strict=True)}


def _streamed(
    s: Schedule,
    stage: StageHandle,
    loops: dict[str, LoopHandle],
    axis: str | None,
    rows: list[LoopHandle],
    root: bool,
    waiting: set[str],
    inside: Sequence[str] = (),
) -> None:
    """Puts one axis in vectors, with spatial axes outside and reductions inside.

    An attached reduction takes its rows side by side, so that their chains of additions and the ends of their sums overlap, and
    some of what is `inside` of a row: of a mean over the pixels of each of 1152 channels few of them, not all written out.
    Members of joined reductions are inside of all other loops, next to the vectors that they share.
    """
    definition = stage.definition
    spatial = [a.name for a in definition.axes]
    reductions = [a.name for a in definition.reduction]
    if axis is None:
        if root and spatial:
            s.parallel(*(rows or [loops[spatial[0]]]))
        return
    lanes = s.lanes(definition.tensors[0].dtype)
    name = definition.name
    down = axis_of_blocks(definition, axis) if root and not rows else None
    unrolled: Extent = 1
    if down is None:
        unrolled = s.factor(f"{name}.vectors", ceildiv(s.most(loops[axis]), lanes), at_most=UNROLL_AT_MOST, default=4)
    members = [loops[a] for a in member_axes(definition) if a != axis]
    others = [loops[a] for a in spatial if a != axis and loops[a] not in members]
    if axis in reductions:
        pieces = s.split(loops[axis], unrolled, lanes)
        rest = [loops[a] for a in reductions if a != axis]
        if root:
            s.reorder(*others, *rest, pieces[0], *members, *pieces[1:])
        else:
            around, others = _side_by_side(s, stage, loops, others, inside)
            s.reorder(*around, *rest, pieces[0], *others, *members, *pieces[1:])
            s.unroll(*others)
        outer = others
    elif root and len(others) == 0 and not rows:
        vectors = ceildiv(loops[axis].extent, unrolled * lanes)
        chunks = s.factor(f"{name}.chunks", ceildiv(loops[axis].extent, 4 * lanes), at_most=1024, default=8)
        s.require(chunks <= vectors, "no more chunks than vectors")
        pieces = s.split(loops[axis], ceildiv(vectors, chunks), unrolled, lanes)
        s.reorder(pieces[0], pieces[1], *[loops[a] for a in reductions], *members, *pieces[2:])
        outer = [pieces[0]]
    elif down is not None:
        outer, pieces = by_blocks(s, stage, loops, down, axis)
    else:
        pieces = s.split(loops[axis], unrolled, lanes)
        outer = _spatial_order(s, others, [pieces[0], *members, *pieces[1:]], [loops[a] for a in reductions], name)
    s.unroll(*members, pieces[-2])
    s.vectorize(pieces[-1])
    _perhaps_prefetching(s, definition, axis, pieces[-3], unrolled * lanes, waiting)
    if root:
        _parallel(s, outer, rows)
        perhaps_streaming(s, stage)


def _side_by_side(
    s: Schedule, stage: StageHandle, loops: dict[str, LoopHandle], others: list[LoopHandle], inside: Sequence[str]
) -> tuple[list[LoopHandle], list[LoopHandle]]:
    """Returns the loops around an attached reduction, and those whose results it sums side by side."""
    many = [loops[axis] for axis in inside if loops[axis] in others]
    rows = [loop for loop in others if loop not in many]
    if not many:
        return [], rows
    few = s.factor(f"{stage.name}.beside", s.most(many[-1]), at_most=ROWS_AT_MOST, default=ROWS_AT_MOST)
    around, own = s.split(many[-1], few)
    return [*many[:-1], around], [*rows, own]


def _perhaps_prefetching(
    s: Schedule, stage: Stage, axis: str, loop: LoopHandle, block: Extent, waiting: set[str]
) -> None:
    """Asks for what comes some bytes behind in memory, which soon is the next row: hardware prefetchers stop at the end of a
    page, and rest while other passes compute. The last stage that reads a tensor asks; `waiting`: those not asked for yet.
    """
    streamed = dict.fromkeys(
        r.tensor for r in stage.reads() if r.tensor in waiting and element_stride(s.program, r, axis) == 1
    )
    if streamed:
        ahead = s.choice(f"{stage.name}.ahead", AHEAD, AHEAD[2])
        elements = ceildiv(ahead, stage.tensors[0].dtype.bytes)
        for tensor in streamed:
            s.prefetch(tensor, loop, ceildiv(elements, block))
    waiting -= set(streamed)


def _columns(s: Schedule, stage: StageHandle, axis: str) -> None:
    """Reduces down the columns: some rows at a time, along chunks of columns, so that memory is read in its order.

    chunk of columns, block of rows, column vectors, other reductions, rows of the block, [members], vectors, lanes

    The sums of a few vectors of columns are in registers for a block of rows and in a near cache between blocks.
    """
    definition, name = stage.definition, stage.name
    loops = loops_by_axis(stage)
    lanes = s.lanes(definition.tensors[0].dtype)
    down = max(definition.reduction, key=lambda a: a.extent).name
    unrolled = s.factor(f"{name}.vectors", ceildiv(loops[axis].extent, lanes), at_most=UNROLL_AT_MOST, default=4)
    vectors = ceildiv(loops[axis].extent, unrolled * lanes)
    chunks = s.factor(f"{name}.chunks", ceildiv(loops[axis].extent, lanes), at_most=1024, default=2)
    s.require(chunks <= vectors, "no more chunks than vectors")
    block = s.factor(f"{name}.rows", loops[down].extent, default=8)
    columns = s.split(loops[axis], ceildiv(vectors, chunks), unrolled, lanes)
    rows = s.split(loops[down], block)
    members = [loops[a] for a in member_axes(definition) if a != axis]
    others = [loops[a.name] for a in definition.axes if a.name != axis and loops[a.name] not in members]
    rest = [loops[a.name] for a in definition.reduction if a.name != down]
    s.reorder(*others, columns[0], rows[0], columns[1], *rest, rows[1], *members, *columns[2:])
    s.unroll(*members, columns[2])
    s.vectorize(columns[3])
    s.parallel(*others, columns[0])


def _spatial_order(
    s: Schedule, others: list[LoopHandle], pieces: list[LoopHandle], reductions: list[LoopHandle], name: str
) -> list[LoopHandle]:
    """Puts blocks of columns inside of the rows. A reduction over rows may go around the columns or inside of them."""
    if reductions and s.variant(f"{name} reduce outside", [False, True]):
        s.reorder(*others, *reductions, *pieces)
        return others
    s.reorder(*others, pieces[0], *reductions, *pieces[1:])
    return [*others, pieces[0]]


def _parallel(s: Schedule, outer: list[LoopHandle], rows: list[LoopHandle]) -> None:
    """Shares the row loops, or else the outermost ones, out among the threads."""
    loops = rows or outer[:2]
    if loops:
        s.parallel(*loops)


def perhaps_streaming(s: Schedule, stage: StageHandle) -> None:
    """Lets the stores of a large output go past the caches, perhaps."""
    definition = stage.definition
    if not definition.reduction and definition.name in s.program.outputs and _is_large(definition):
        s.streaming(definition.name, s.flag(f"{definition.name}.streaming"))


def _perhaps_aligned(s: Schedule, root: str, group: list[str]) -> Extent | None:
    """Lets the passes over a row begin at lines of memory, perhaps; returns None where they do so anyway, or rows are short."""
    stage = s.program.stage(root)
    length = stage.axes[-1].extent if group else 0
    if length * stage.tensors[0].dtype.bytes % LINE == 0 or length < SHORT:
        return None
    aligned = s.flag(f"{root}.aligned", default=True)
    s.align(root, aligned)
    return aligned


def _is_large(stage: Stage) -> bool:
    total = 1
    for axis in stage.axes:
        total *= axis.extent
    return total >= LARGE


STREAM = Rule("stream", matches=_matches, apply=_apply)
