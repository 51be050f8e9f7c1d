"""The tiling rule on GPUs: a reduction with reuse along two axes, in tiles of a block, of its warps and of its threads.

Axes play the parts that rules/cpu/tile.py reads off the accesses: `vector` (columns), `rows`, `depth`. One block computes

    warps_rows * lanes_rows * rows   by   warps_columns * lanes_columns * vectors * vector        points of the result

A warp is a rectangle of lanes, so that its threads share what they read along both axes. Depth is walked in steps of a few
terms; for each step the block copies its part of both operands to shared memory, some steps ahead of their use (pipeline).

    group of blocks, columns of blocks, blocks, depth, [copies], warps, lanes, terms, rows, vectors, vector

Operands that are contiguous along the tile are copied as they lie. Those that are contiguous along depth are either kept in
chunks of depth, so that both sides of the copy are wide, or turned, so that they are read like the others.
An epilogue takes the accumulators out of the registers of the very thread that needs them.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....tensor.expr import Read
from ....tensor.program import Program, Stage
from ...access import depends, element_stride, is_anchor, moves_apart, moves_data_only, plain_dimension
from ...extents import Extent, ceildiv
from ...inlining import can_inline
from ...schedule import LoopHandle, Schedule, StageHandle
from ..cpu.tile import Parts, epilogue_of, parts_of
from ..rule import Decided, Rule
from .binding import bind_blocks, bind_threads, lanes_factor, require_threads, widest

NARROWEST = 4  # points along an axis that are worth a tile
OTHER_REGISTERS = 28  # of a thread: addresses, counters
WIDE = 2  # warps of points along both sides that fill whole warps in any shape
COPIED_AT_MOST = 64  # elements that a thread copies for a step of depth
HELD_AT_MOST = 32  # of them where it holds them, and their addresses, over the work of a step


def can_tile(program: Program, stage: Stage, anchor: Stage) -> bool:
    """Tells whether the rule applies to an anchor that `stage` finishes (or that is `stage` itself)."""
    if anchor.combiner in (None, "fold") or len(stage.axes) != len(anchor.axes) or len(anchor.tensors) > 1:
        return False
    parts = parts_of(program, stage, anchor)
    if parts is None or parts.rows is None or not is_anchor(anchor):
        return False
    extent = {a.name: a.extent for a in anchor.all_axes}
    return min(extent[parts.rows], extent[parts.vector]) >= NARROWEST and bool(_operands(program, anchor, parts))


def copied(program: Program, anchor: Stage) -> frozenset[str]:
    """Returns the tensors that blocks copy for an anchor; none where the rule does not apply."""
    parts = parts_of(program, anchor, anchor)
    if parts is None or not can_tile(program, anchor, anchor):
        return frozenset()
    return frozenset(read.tensor for read, _ in _operands(program, anchor, parts))


def _matches(program: Program, stage: Stage, decided: Decided) -> str | None:
    """Matches a stage that finishes a reduction, or else a reduction itself."""
    anchor = epilogue_of(program, stage, decided.taken, can_tile)
    if anchor is not None:
        return anchor.name
    return stage.name if can_tile(program, stage, stage) else None


def _apply(s: Schedule, root: str, anchor: str, decided: Decided) -> set[str]:
    """Schedules the reduction and the pointwise stage that finishes it (or itself)."""
    parts = parts_of(s.program, s.program.stage(root), s.program.stage(anchor))
    assert parts is not None
    _BlockTile(s, anchor, parts, decided.few).apply(root)
    return {root, anchor}


def _operands(program: Program, anchor: Stage, parts: Parts) -> list[tuple[Read, str]]:
    """Returns what a block can copy, with the axis of the tile that it moves with: it moves with depth and that side alone."""
    found = []
    for read in dict.fromkeys(anchor.reads()):
        sides = [axis for axis in (parts.vector, parts.rows) if axis is not None and depends(read, axis)]
        once = sum(other.tensor == read.tensor for other in dict.fromkeys(anchor.reads())) == 1
        if len(sides) == 1 and depends(read, parts.depth) and once and read.indices and moves_apart(read):
            found.append((read, sides[0]))
    return found


class _BlockTile:
    """The tunables of a tile and the steps that make it."""

    def __init__(self, s: Schedule, anchor: str, parts: Parts, few: bool) -> None:
        self.s, self.anchor, self.parts, self.few = s, anchor, parts, few
        self.definition, self.warp = s.program.stage(anchor), s.gpu.warp
        self.lanes = tuple(1 << n for n in range(self.warp.bit_length()))
        self.dtype = self.definition.tensors[0].dtype
        assert parts.rows is not None
        down, right = self._extent(parts.rows), self._extent(parts.vector)
        depth = self._extent(parts.depth)
        self.group = s.factor(f"{anchor}.group", ceildiv(down, self.warp), at_most=16, default=8)
        self.warps_rows = s.factor(f"{anchor}.warps_rows", ceildiv(down, NARROWEST), at_most=8, default=4)
        self.warps_columns = s.factor(f"{anchor}.warps_columns", ceildiv(right, 2 * NARROWEST), at_most=8, default=2)
        self.lanes_rows = s.choice(f"{anchor}.lanes_rows", self.lanes, default=4)
        self.lanes_columns = self._lanes_columns()
        self.rows = s.factor(f"{anchor}.rows", down, at_most=16, default=8)
        self.vectors = s.factor(f"{anchor}.vectors", ceildiv(right, NARROWEST), at_most=4, default=2)
        self.vector = lanes_factor(s, f"{anchor}.vector", self.dtype)
        self.steps = s.factor(f"{anchor}.steps", ceildiv(depth, 2 * NARROWEST), at_most=8, default=1)
        self.terms = s.choice(f"{anchor}.terms", (1, 2, 4, 8, 16, 32), default=16)
        self.stages = s.choice(f"{anchor}.stages", (1, 2, 3, 4), default=2)
        self.staged = s.choice(f"{anchor}.staged", (0, 1), default=0)
        self._require()

    def _extent(self, axis: str) -> Extent:
        return self.s.stage(self.anchor).along(self.definition, axis).extent

    def _lanes_columns(self) -> Extent:
        """Returns the rest of the warp, or fewer lanes where there is too little to do for a whole one."""
        extent = {a.name: a.extent for a in self.definition.axes}
        if min(extent[str(self.parts.rows)], extent[self.parts.vector]) >= WIDE * self.warp:
            return self.warp // self.lanes_rows
        columns = self.s.choice(f"{self.anchor}.lanes_columns", self.lanes, default=8)
        self.s.require(self.lanes_rows * columns <= self.warp, f"the lanes of a warp are {self.warp} threads")
        return columns

    def _require(self) -> None:
        s = self.s
        threads = self.warps_rows * self.warps_columns * self.lanes_rows * self.lanes_columns
        require_threads(s, threads)
        s.require((self.staged == 0) | (self.stages == 2), "registers hold what is copied for one step")
        words = max(1, self.dtype.bytes // 4)
        columns = self.vectors * self.vector
        height = self.warps_rows * self.lanes_rows * self.rows
        width = self.warps_columns * self.lanes_columns * columns
        # what a thread copies for a step: on its way through registers unless it is asynchronous, and addresses
        copied = ceildiv((height + width) * (self.steps * self.terms), threads)
        most = COPIED_AT_MOST - self.staged * (COPIED_AT_MOST - HELD_AT_MOST)
        s.require(copied <= most, "a thread copies a few vectors for each step")
        staged = copied * ((self.stages <= 1) | (self.staged == 1)) * words + self.staged * copied + copied // 2
        registers = (self.rows * columns + 2 * (self.rows + columns)) * words + staged + OTHER_REGISTERS
        s.require(
            registers <= s.target("vector_registers"), "accumulators and operands fit in the registers of a thread"
        )
        s.require(
            threads * registers <= s.gpu.registers, "the threads of a block fit in the registers of a multiprocessor"
        )
        shared: Extent = 0
        for read, side in _operands(s.program, self.definition, self.parts):
            points = height if side == self.parts.rows else width
            shared = points * read.dtype.bytes + self._padding(read) + shared
        s.require(
            shared * (self.steps * self.terms * self.stages) <= s.target("l1"),
            "the copies of all stages fit in shared memory",
        )

    def _padding(self, read: Read) -> int:
        """Returns the bytes that the copy of an operand may have beside each row of its tile: one access, if it is turned."""
        turned = not self.few and self._contiguous(read, self.parts.depth) is not None
        return widest(read.dtype) * read.dtype.bytes if turned else 0

    # ---- loops ----

    def apply(self, root: str) -> None:
        """Schedules the root's blocks and the anchor in them: the root itself, or attached as a fragment of its registers."""
        s, parts = self.s, self.parts
        assert parts.rows is not None
        stage = s.stage(root)
        others = [stage.along(self.definition, a) for a in parts.others]
        columns_loop, rows_loop = stage.along(self.definition, parts.vector), stage.along(self.definition, parts.rows)
        depth = self._depth(stage) if root == self.anchor else []
        rows = s.split(rows_loop, self.group, self.warps_rows, self.lanes_rows, self.rows)
        columns = s.split(columns_loop, self.warps_columns, self.lanes_columns, self.vectors, self.vector)
        blocks = [*others, rows[0], columns[0], rows[1]]
        self._order(blocks, list(rows[2:]), list(columns[1:]), depth)
        bind_blocks(s, *blocks)
        self._bind(list(rows[2:]), list(columns[1:]), depth)
        if root != self.anchor:
            depth = self._fragment(blocks[-1])
        self._copies(depth[-3])

    def _fragment(self, at: LoopHandle) -> list[LoopHandle]:
        """Runs the anchor inside of a block of its epilogue, on the same threads."""
        s, parts = self.s, self.parts
        stage = s.compute_at(self.anchor, at)
        others = [stage.along(self.definition, a) for a in parts.others]
        rows_loop, columns_loop = (
            stage.along(self.definition, str(parts.rows)),
            stage.along(self.definition, parts.vector),
        )
        depth = self._depth(stage)
        rows = s.split(rows_loop, self.lanes_rows, self.rows)
        columns = s.split(columns_loop, self.lanes_columns, self.vectors, self.vector)
        # one point of each is left here; inside of the copies' loop, since nothing can be attached in a register tile
        self._order([], list(rows), list(columns), depth, others)
        s.unroll(*others)
        self._bind(list(rows), list(columns), depth)
        return depth

    def _depth(self, stage: StageHandle) -> list[LoopHandle]:
        """Returns the loops of the reduction: other axes, then steps of depth, parts of a step, terms."""
        others = [stage.along(self.definition, a) for a in self.parts.other_reductions]
        return [*others, *self.s.split(stage.along(self.definition, self.parts.depth), self.steps, self.terms)]

    def _order(
        self,
        outside: list[LoopHandle],
        rows: list[LoopHandle],
        columns: list[LoopHandle],
        depth: list[LoopHandle],
        inside: Sequence[LoopHandle] = (),
    ) -> None:
        """Puts warps around lanes, the loop of the copies around both, and the register tile innermost."""
        threads = [rows[0], columns[0], rows[1], columns[1]]
        self.s.reorder(*outside, *depth[:-2], *threads, *depth[-2:], *inside, rows[2], *columns[2:])

    def _bind(self, rows: list[LoopHandle], columns: list[LoopHandle], depth: list[LoopHandle]) -> None:
        bind_threads(self.s, rows[0], columns[0], rows[1], columns[1])
        self.s.unroll(*depth[-1:], rows[2], columns[2])
        self.s.vectorize(columns[3])

    # ---- copies ----

    def _copies(self, at: LoopHandle) -> None:
        """Copies each operand for the threads of a block, some steps ahead of its use."""
        for read, side in _operands(self.s.program, self.definition, self.parts):
            self._copy(read, side, at)
        self.s.pipeline(at, self.stages, self.staged)

    def _copy(self, read: Read, side: str, at: LoopHandle) -> None:
        s, tensor = self.s, read.tensor
        source = s.program.producers.get(tensor)
        along, deep = self._contiguous(read, side), self._contiguous(read, self.parts.depth)
        moves = source is not None and can_inline(s.program, source) and moves_data_only(source)
        if moves:  # its elements come from anywhere: lanes along the tile
            along, deep = None, None
        turned = deep is not None and not self.few
        turned = turned and s.variant(f"{self.anchor} {tensor} in", ["chunks", "columns"]) == "columns"
        made = s.copy(tensor, self.anchor, "shared")
        if source is not None and moves:
            s.inline(source.name)
        if turned:
            s.pad_layout(made.name, s.choice(f"{made.name}.pad", (0, widest(read.dtype)), default=widest(read.dtype)))
        else:
            s.swizzle(made.name, s.choice(f"{made.name}.swizzle", (0, 1, 2, 3), default=1 if deep is None else 3))
        made = s.compute_at(made.name, at)
        if turned:
            self._turned(made, deep)
        elif deep is not None:
            self._chunks(made, deep, read)
        else:
            self._rows(made, along, read, side)

    def _contiguous(self, read: Read, axis: str) -> int | None:
        """Returns the dimension of a tensor along which an axis goes element by element, if it is worth vectors."""
        dimension = plain_dimension(read, axis)
        if dimension is None or element_stride(self.s.program, read, axis) != 1:
            return None
        return dimension if self.s.program.tensors[read.tensor].shape[dimension] >= NARROWEST else None

    def _rows(self, made: StageHandle, along: int | None, read: Read, side: str) -> None:
        """Copies with depth outside and lanes along the tile, in vectors where its elements lie together."""
        s = self.s
        plain = plain_dimension(read, side)
        last = len(made.loops) - 1 if plain is None else plain
        rest = [loop for n, loop in enumerate(made.loops) if n != last]
        pieces: tuple[LoopHandle, ...] = (made.loops[last],)
        if along is not None:
            pieces = s.split(made.loops[last], lanes_factor(s, f"{made.name}.vector", read.dtype))
        s.reorder(*rest, *pieces)
        bind_threads(s, *rest, pieces[0])
        if along is not None:
            s.vectorize(pieces[1])

    def _chunks(self, made: StageHandle, deep: int, read: Read) -> None:
        """Copies chunks of depth, each with all rows of the tile: stored and read in vectors along depth."""
        s = self.s
        vector = lanes_factor(s, f"{made.name}.vector", read.dtype)
        s.require(self.terms % vector == 0, "whole chunks of depth in the terms that are written out")
        pieces = s.split(made.loops[deep], vector)
        rest = [loop for n, loop in enumerate(made.loops) if n != deep]
        s.reorder(pieces[0], *rest, pieces[1])
        # neighbouring threads read along depth, which is contiguous in memory
        s.bind("thread", 0, pieces[0])
        s.bind("thread", 1, *rest)
        s.vectorize(pieces[1])

    def _turned(self, made: StageHandle, deep: int | None) -> None:
        """Copies with depth outside and rows of the tile inside, element by element; neighbouring threads read along depth."""
        s = self.s
        assert deep is not None
        rest = [loop for n, loop in enumerate(made.loops) if n != deep]
        s.reorder(made.loops[deep], *rest)
        s.bind("thread", 0, made.loops[deep])
        s.bind("thread", 1, *rest)


TILE = Rule("tile", matches=_matches, apply=_apply)
