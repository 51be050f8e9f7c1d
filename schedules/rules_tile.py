"""The tiling rule: multi-level tiling of a reduction with reuse, with register tiles, packing and a fused epilogue.

Axes play parts that are read off the accesses:

    vector   the axis along which the result is contiguous: vectors of it make the columns of the register tile
    rows     another axis along which an operand that moves with `vector` is used again: the rows of the register tile
    depth    the longest reduction axis: blocked, unrolled
    others   all the rest, as loops around

    loops    others, outer block, [depth block, packs], inner block, tiles, other reductions, depth, rows, vectors, lanes
"""

from __future__ import annotations

from dataclasses import dataclass

from ..tensor.program import Program, Stage
from .access import contiguous_axis, depends, element_stride, is_anchor, output_stride, plain_dimension
from .extents import Extent, ceildiv
from .schedule import LoopHandle, Schedule, StageHandle

ROWS_AT_MOST = 16
VECTORS_AT_MOST = 6
UNROLL_AT_MOST = 8


@dataclass(frozen=True, slots=True)
class Parts:
    """Which axis plays which part; names of axes of the anchor (the epilogue's axes are the same, by position)."""

    vector: str
    rows: str
    depth: str
    others: tuple[str, ...]
    other_reductions: tuple[str, ...]


def parts_of(program: Program, stage: Stage, anchor: Stage) -> Parts | None:
    """The parts of the axes, or None where no register tile can be made."""
    spatial = [a for a in anchor.axes if a.extent > 1]
    vectors = [a for a in spatial if output_stride(anchor, a.name) == 1]
    if not vectors or not anchor.reduction:
        return None
    vector = vectors[0].name
    moving = [r for r in anchor.reads() if depends(r, vector)]
    rows = [a for a in spatial if a.name != vector and moving and all(not depends(r, a.name) for r in moving)]
    if not rows:
        return None
    row = max(rows, key=lambda a: a.extent).name
    depth = max(anchor.reduction, key=lambda a: a.extent).name
    others = tuple(a.name for a in anchor.axes if a.name not in (vector, row))
    return Parts(vector, row, depth, others, tuple(a.name for a in anchor.reduction if a.name != depth))


def can_tile(program: Program, stage: Stage, anchor: Stage) -> bool:
    """True when the rule applies to an anchor, finished by `stage` (or by itself)."""
    if not is_anchor(anchor) or len(stage.axes) != len(anchor.axes):
        return False
    return parts_of(program, stage, anchor) is not None and contiguous_axis(program, anchor) is not None


def tile(s: Schedule, root: str, anchor: str, few: bool) -> None:
    """Applies the rule. `few`: leave out the rarer structures, because several stages multiply."""
    parts = parts_of(s.program, s.program.stage(root), s.program.stage(anchor))
    assert parts is not None
    label = f"{anchor} "
    columns_outside = s.variant(label + "columns outside", [True, False])
    rows_inside = True if few else s.variant(label + "rows innermost", [True, False])
    block = _Block(s, root, anchor, parts, columns_outside, rows_inside)
    if root == anchor:
        block.alone()
    elif not few and s.variant(label + "block depth", [False, True]):
        block.with_epilogue_blocked()
    else:
        block.with_epilogue()


class _Block:
    """One way to tile: the steps, in order."""

    def __init__(
        self, s: Schedule, root: str, anchor: str, parts: Parts, columns_outside: bool, rows_inside: bool
    ) -> None:
        self.s = s
        self.root = root
        self.anchor = anchor
        self.parts = parts
        self.columns_outside = columns_outside
        self.rows_inside = rows_inside
        self.definition = s.program.stage(anchor)
        self.dtype = self.definition.tensors[0].dtype
        self.prefix = anchor
        self.rows = s.factor(f"{anchor}.rows", self._extent(parts.rows), at_most=ROWS_AT_MOST, default=6)
        lanes = s.lanes(self.dtype)
        self.vectors = s.factor(
            f"{anchor}.vectors", ceildiv(self._extent(parts.vector), lanes), at_most=VECTORS_AT_MOST, default=2
        )
        self.lanes: Extent = lanes
        s.require(
            self.rows * self.vectors + self.vectors + 1 <= s.target("vector_registers"),
            "accumulators, one row of vectors and a broadcast fit in the vector registers",
        )
        self.unroll = s.factor(f"{anchor}.unroll", self._extent(parts.depth), at_most=UNROLL_AT_MOST, default=4)

    def _extent(self, axis: str) -> Extent:
        handle = self.s.stage(self.anchor)
        for loop, a in zip(handle.loops, handle.definition.all_axes, strict=True):
            if a.name == axis:
                return loop.extent
        raise KeyError(axis)

    def _loop(self, handle: StageHandle, axis: str) -> LoopHandle:
        """The unsplit loop of an axis; the epilogue's axes are the anchor's by position."""
        names = [a.name for a in self.definition.all_axes]
        return handle.loops[names.index(axis)]

    def _split_spatial(self, stage: StageHandle, mid: bool) -> tuple[list[LoopHandle], list[LoopHandle]]:
        """(pieces of rows, pieces of vector), each with a block of tiles if `mid`."""
        s, name = self.s, self.prefix
        row_loop, vector_loop = self._loop(stage, self.parts.rows), self._loop(stage, self.parts.vector)
        if not mid:
            return [*s.split(row_loop, self.rows)], [*s.split(vector_loop, self.vectors, self.lanes)]
        row_block = self._blocks(f"{name}.row_blocks", row_loop.extent, self.rows, least=4)
        vector_block = self._blocks(f"{name}.column_blocks", vector_loop.extent, self.vectors * self.lanes, self.lanes)
        return (
            [*s.split(row_loop, row_block, self.rows)],
            [*s.split(vector_loop, vector_block, self.vectors, self.lanes)],
        )

    def _blocks(self, name: str, extent: Extent, tile_: Extent, least: Extent) -> Extent:
        """Tiles in a block, where the number of blocks is left open: blocks of nearly equal size, whatever the tile is.

        `least`: the fewest points that a block is worth making for.
        """
        blocks = self.s.factor(name, ceildiv(extent, least), default=1)
        tiles = ceildiv(extent, tile_)
        self.s.require(blocks <= tiles, "no more blocks than tiles")
        return ceildiv(tiles, blocks)

    def _inner(self, row: LoopHandle, vector: LoopHandle) -> list[LoopHandle]:
        return [vector, row] if self.rows_inside else [row, vector]

    def _outer(self, row: LoopHandle, vector: LoopHandle) -> list[LoopHandle]:
        return [vector, row] if self.columns_outside else [row, vector]

    # ---- the three forms ----

    def alone(self) -> None:
        """No epilogue: one nest; a depth block outside accumulates into the result."""
        s, stage = self.s, self.s.stage(self.anchor)
        others = [self._loop(stage, a) for a in self.parts.others]
        other_reductions = [self._loop(stage, a) for a in self.parts.other_reductions]
        depth_loop = self._loop(stage, self.parts.depth)
        rows, vectors = self._split_spatial(stage, mid=True)
        block = self._blocks(f"{self.prefix}.depth_blocks", depth_loop.extent, self.unroll, least=32)
        depth = s.split(depth_loop, block, self.unroll)
        first, second = self._outer(rows[0], vectors[0])
        s.reorder(
            *others, first, depth[0], second, *self._inner(rows[1], vectors[1]), *other_reductions, *depth[1:],
            rows[-1], *vectors[-2:],
        )  # fmt: skip
        s.parallel(*others, first)
        self._register_tile(rows[-1], vectors[-2], vectors[-1], depth[-1])
        self._packs(depth[0], second)

    def with_epilogue(self) -> None:
        """The anchor runs at the register tile of its epilogue, over its whole depth, and stays in registers."""
        s, stage = self.s, self.s.stage(self.root)
        others = [self._loop(stage, a) for a in self.parts.others]
        rows, vectors = self._split_spatial(stage, mid=True)
        first, second = self._outer(rows[0], vectors[0])
        inner = self._inner(rows[1], vectors[1])
        s.reorder(*others, first, second, *inner, rows[-1], *vectors[-2:])
        s.parallel(*others, first)
        s.unroll(rows[-1], vectors[-2])
        s.vectorize(vectors[-1])
        tile_ = s.compute_at(self.anchor, inner[-1])
        self._anchor_tile(tile_, blocked=False)
        self._packs(first, second)

    def with_epilogue_blocked(self) -> None:
        """The anchor fills a block in scratch memory, depth block by depth block; the epilogue then reads the block."""
        s, stage = self.s, self.s.stage(self.root)
        others = [self._loop(stage, a) for a in self.parts.others]
        rows, vectors = self._split_spatial(stage, mid=True)
        first, second = self._outer(rows[0], vectors[0])
        s.reorder(*others, first, second, *self._inner(rows[1], vectors[1]), rows[-1], *vectors[-2:])
        s.parallel(*others, first)
        s.unroll(rows[-1], vectors[-2])
        s.vectorize(vectors[-1])
        block = s.compute_at(self.anchor, second)
        depth_block = self._anchor_tile(block, blocked=True)
        assert depth_block is not None
        self._packs(depth_block, depth_block)

    def _anchor_tile(self, stage: StageHandle, blocked: bool) -> LoopHandle | None:
        s = self.s
        others = [self._loop(stage, a) for a in self.parts.others]
        other_reductions = [self._loop(stage, a) for a in self.parts.other_reductions]
        depth_loop = self._loop(stage, self.parts.depth)
        if not blocked:
            row = self._loop(stage, self.parts.rows)
            vectors = s.split(self._loop(stage, self.parts.vector), self.lanes)
            depth = s.split(depth_loop, self.unroll)
            s.reorder(*others, *other_reductions, *depth, row, *vectors)
            s.unroll(*others)
            self._register_tile(row, vectors[0], vectors[1], depth[-1])
            return None
        rows, vectors_ = self._split_spatial(stage, mid=False)
        block = self._blocks(f"{self.prefix}.depth_blocks", depth_loop.extent, self.unroll, least=32)
        depth = s.split(depth_loop, block, self.unroll)
        s.reorder(
            *others, depth[0], *self._inner(rows[0], vectors_[0]), *other_reductions, *depth[1:], rows[1], *vectors_[1:]
        )
        self._register_tile(rows[1], vectors_[1], vectors_[2], depth[-1])
        return depth[0]

    def _register_tile(self, rows: LoopHandle, vectors: LoopHandle, lanes: LoopHandle, unrolled: LoopHandle) -> None:
        self.s.unroll(unrolled, rows, vectors)
        self.s.vectorize(lanes)

    # ---- packing ----

    def _packs(self, outer: LoopHandle, inner: LoopHandle) -> None:
        """Copies of operands in the order in which the register tile reads them. Constants are packed once."""
        s = self.s
        constants = {t.name for t in s.program.constant_inputs}
        for read in dict.fromkeys(s.program.stage(self.anchor).reads()):
            for axis, is_vector in ((self.parts.vector, True), (self.parts.rows, False)):
                dimension = plain_dimension(read, axis)
                other = self.parts.rows if is_vector else self.parts.vector
                if dimension is None or depends(read, other) or not depends(read, self.parts.depth):
                    continue
                if sum(r.tensor == read.tensor for r in s.program.stage(self.anchor).reads()) > 1:
                    continue
                if read.tensor in constants:
                    self._pack(read.tensor, dimension, is_vector, None)
                    continue
                stride = element_stride(s.program, read, axis)
                must = is_vector and stride != 1
                name = "columns" if is_vector else "rows"
                if must or s.variant(f"{self.anchor} pack {name}", [True, False] if is_vector else [False, True]):
                    moves_outside = is_vector == self.columns_outside
                    self._pack(read.tensor, dimension, is_vector, outer if moves_outside else inner)

    def _pack(self, tensor: str, dimension: int, is_vector: bool, at: LoopHandle | None) -> None:
        s = self.s
        made = s.copy(tensor, self.anchor)
        if at is not None:
            made = s.compute_at(made.name, at)
        rest = [loop for n, loop in enumerate(made.loops) if n != dimension]
        if is_vector:
            pieces = s.split(made.loops[dimension], self.vectors, self.lanes)
            s.reorder(pieces[0], *rest, *pieces[1:])
            s.unroll(pieces[1])
            s.vectorize(pieces[2])
        else:
            pieces = s.split(made.loops[dimension], self.rows)
            s.reorder(pieces[0], *rest, pieces[1])
            s.unroll(pieces[1])
