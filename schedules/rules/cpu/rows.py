"""The rule for products of products with something of each row between them: attention, mostly.

    s[h, i, j] = sum[d](q[h, i, d] * k[h, j, d]);  p = softmax of the rows of s;  o[h, i, d] = sum[j](p[h, i, j] * v[h, j, d])

Where an anchor's rows need only the same rows of stages before it, one of which is an anchor itself, all of them run for a
block of rows at a time, so that the matrices between them stay in a near cache. Each product is tiled for registers; what
belongs to one row is done row by row.

    loops    others, blocks of rows, { first product, then the rest row by row }, columns, tiles, depth, rows, vectors, lanes
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from ....common.remembered import remembered
from ....tensor.indices.members import member_axes
from ....tensor.program import Program, Stage
from ...access import contiguous_axis, depends, element_stride, is_anchor, is_expensive, plain_dimension
from ...extents import ceildiv
from ...schedule import LoopHandle, Schedule, StageHandle
from ..row_groups import RowAxes, row_members
from ..rule import Decided, Rule
from .register_tile import UNROLL_AT_MOST, RegisterTile, register_tile
from .tile import can_tile, parts_of
from .transpose import contiguous_dimension, square

BLOCK_AT_MOST = 64  # tiles of rows


@dataclass(frozen=True, slots=True)
class RowBlocks:
    """Holds what runs by blocks of rows. `root` is the last anchor; `members` run for a block of its rows, consumers first."""

    root: str
    members: tuple[str, ...]


@remembered
def row_blocks_of(program: Program) -> RowBlocks | None:
    """Returns the last anchor whose rows need rows of an anchor before it, or None."""
    for root in reversed(program.stages):
        parts = parts_of(program, root, root) if can_tile(program, root, root) and is_anchor(root) else None
        if parts is None or parts.rows is None:
            continue
        shared = (*parts.others, parts.rows)
        members = row_members(
            program, root, shared, lambda stage, own: not is_anchor(stage) or _same_rows(program, stage, own)
        )
        if any(is_anchor(program.stage(name)) for name in members):
            return RowBlocks(root.name, tuple(members))
    return None


def _same_rows(program: Program, stage: Stage, own: RowAxes) -> bool:
    """Tells whether the rows of an anchor's register tile are rows of the root."""
    parts = parts_of(program, stage, stage) if can_tile(program, stage, stage) else None
    return parts is not None and parts.rows == own[-1]


def _prepare(s: Schedule, decided: Decided) -> Decided:
    """Chooses, perhaps, the last product as a root by blocks of rows.

    Where a softmax runs by blocks (online.py), that root has the products already.
    """
    found = None if decided.alone else row_blocks_of(s.program)
    if found is None:
        return decided
    kept = _kept(s.program, found)
    if not s.variant(f"{found.root} by rows", [True] if kept else [True, False]):
        return decided
    return replace(decided, alone=decided.alone | {found.root}).keeping(kept).noting(found)


def _kept(program: Program, found: RowBlocks) -> frozenset[str]:
    """Returns what must not be inlined: functions of points, which a product would compute again and again."""
    return frozenset(name for name in found.members if is_expensive(program.stage(name)))


def _matches(program: Program, stage: Stage, decided: Decided) -> str | None:
    blocks = decided.fact(RowBlocks)
    return stage.name if blocks is not None and blocks.root == stage.name else None


def _apply(s: Schedule, root: str, anchor: str, decided: Decided) -> set[str]:
    """Schedules the root with all members that are left after inlining."""
    found = decided.fact(RowBlocks)
    assert found is not None
    members = [name for name in found.members if any(stage.name == name for stage in s.program.stages)]
    run_row_blocks(s, members, _root(s, s.stage(root), members))
    return {root, *members}


def run_row_blocks(
    s: Schedule,
    members: list[str],
    at: LoopHandle,
    product: Callable[[Schedule, StageHandle], None] | None = None,
    inside: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> None:
    """Runs products and what belongs to one row, consumers first, inside of a loop for a block of rows.

    `product`: how a product is scheduled, if not by register tiles of vectors. `inside`: axes of each member that lie inside
    of a row, if there are more than that of its vectors.
    """
    rows: dict[str, LoopHandle] = {}  # stage -> the loop over rows inside of which it runs, or which it has
    for name in members:
        if is_anchor(s.program.stage(name)):
            made = s.compute_at(name, at)
            _product(s, made, members) if product is None else product(s, made)
            continue
        around = [rows.get(reader.name) for reader in s.program.consumers[name]]
        names = {None if loop is None else loop.name for loop in around}
        row = around[0] if len(names) == 1 else None
        own = _row_by_row(s, s.compute_at(name, at if row is None else row), inside.get(name, ()))
        rows[name] = own if row is None else row


def _tile(s: Schedule, stage: StageHandle, rows: LoopHandle, vector: LoopHandle, depth: LoopHandle) -> RegisterTile:
    return register_tile(s, stage.name, s.most(rows), s.most(vector), depth.extent, usual=4)


def _root(s: Schedule, stage: StageHandle, members: Sequence[str]) -> LoopHandle:
    """Schedules the last product; returns the loop over blocks of rows."""
    parts = parts_of(s.program, stage.definition, stage.definition)
    assert parts is not None and parts.rows is not None
    loops = {a.name: loop for a, loop in zip(stage.definition.all_axes, stage.loops, strict=True)}
    tile = _tile(s, stage, loops[parts.rows], loops[parts.vector], loops[parts.depth])
    block = s.factor(f"{stage.name}.block", loops[parts.rows].extent, at_most=BLOCK_AT_MOST, default=8)
    s.require((block - 1) * tile.rows < loops[parts.rows].extent, "no more tiles than rows")
    rows = s.split(loops[parts.rows], block, tile.rows)
    vectors = s.split(loops[parts.vector], tile.vectors, tile.lanes)
    depth = s.split(loops[parts.depth], tile.unroll)
    others = [loops[axis] for axis in parts.others]
    rest = [loops[axis] for axis in parts.other_reductions]
    s.reorder(*others, rows[0], vectors[0], rows[1], *rest, *depth, rows[2], *vectors[1:])
    s.parallel(*others, rows[0])
    s.unroll(depth[1], rows[2], vectors[1])
    s.vectorize(vectors[2])
    _pack(s, stage.name, parts.vector, parts.depth, tile, members)
    return rows[0]


def _product(s: Schedule, stage: StageHandle, members: Sequence[str]) -> None:
    """Schedules a product for a block of rows."""
    parts = parts_of(s.program, stage.definition, stage.definition)
    assert parts is not None and parts.rows is not None
    loops = {a.name: loop for a, loop in zip(stage.definition.all_axes, stage.loops, strict=True)}
    tile = _tile(s, stage, loops[parts.rows], loops[parts.vector], loops[parts.depth])
    rows = s.split(loops[parts.rows], tile.rows)
    vectors = s.split(loops[parts.vector], tile.vectors, tile.lanes)
    depth = s.split(loops[parts.depth], tile.unroll)
    others = [loops[axis] for axis in parts.others]
    rest = [loops[axis] for axis in parts.other_reductions]
    s.reorder(*others, vectors[0], rows[0], *rest, *depth, rows[1], *vectors[1:])
    s.unroll(depth[1], rows[1], vectors[1])
    s.vectorize(vectors[2])
    width, along = tile.vectors * tile.lanes, loops[parts.vector].extent
    if isinstance(along, int) and along < stage.definition.axis(parts.vector).extent:
        s.require(along % width <= 0, "tiles of columns begin where packed operands have theirs")
    _pack(s, stage.name, parts.vector, parts.depth, tile, members)


def _pack(s: Schedule, anchor: str, vector: str, depth: str, tile: RegisterTile, members: Sequence[str]) -> None:
    """Turns an operand whose vectors lie along another dimension, in a nest of its own, once for all rows: one that none of
    the `members` makes block by block."""
    for read in s.program.stage(anchor).reads():
        dimension = plain_dimension(read, vector)
        across = contiguous_dimension(s.program, read.tensor)
        if dimension is None or not depends(read, depth) or element_stride(s.program, read, vector) == 1:
            continue
        if across is None or (read.tensor in s.program.producers and s.program.producers[read.tensor].name in members):
            continue
        made = s.copy(read.tensor, anchor)
        pieces = s.split(made.loops[dimension], tile.vectors, tile.lanes)
        steps = s.split(made.loops[across], tile.lanes)
        rest = [loop for n, loop in enumerate(made.loops) if n not in (dimension, across)]
        s.reorder(*rest, pieces[0], *steps, *pieces[1:])
        s.parallel(*rest, pieces[0])
        s.unroll(steps[1], pieces[1])
        s.vectorize(pieces[2])
        square(s, read.tensor, made.name, across, steps[0])


def _row_by_row(s: Schedule, stage: StageHandle, inside: Sequence[str]) -> LoopHandle:
    """Puts the row in vectors. Returns the innermost loop over rows (of a stage with points, the first to be attached)."""
    definition = stage.definition
    loops = {a.name: loop for a, loop in zip(definition.all_axes, stage.loops, strict=True)}
    along = contiguous_axis(s.program, definition)
    lanes = s.lanes(definition.tensors[0].dtype)
    if along is None or along not in loops:
        return stage.loops[-1]
    unroll = s.factor(f"{stage.name}.vectors", ceildiv(s.most(loops[along]), lanes), at_most=UNROLL_AT_MOST, default=4)
    pieces = s.split(loops[along], unroll, lanes)
    members = [loops[a] for a in member_axes(definition) if a != along]
    free = [a.name for a in definition.axes if a.name != along and loops[a.name] not in members]
    others = [loops[name] for name in free if name not in inside]
    rest = [loops[name] for name in free if name in inside]
    rest += [loops[a.name] for a in definition.reduction if a.name != along]
    s.reorder(*others, *rest, pieces[0], *members, *pieces[1:])
    s.unroll(*members, pieces[1])
    s.vectorize(pieces[2])
    return others[-1] if others else pieces[0]


ROWS = Rule("rows", _prepare, _matches, _apply)
