"""The rule of groups: products with weights in few bits, whose scales belong to groups of the depth.

A rewrite (tensor/rewrites/factor_sums.py) makes a sum over groups of sums over a group. Both run in one nest, with a register
tile each: the sums of a group are there when its scale is, and no scale is read or multiplied more often than once a group.
Each thread reads its part of the weights, which are packed in the order of the tile and as narrow as they are, from front to
back; memory bounds the whole, so that what comes next is asked for ahead.

    blocks of columns, panel, tile of rows, group { depth, rows, vectors, lanes }, rows, vectors, lanes
"""

from __future__ import annotations

from collections.abc import Set

from ....tensor.expr import Read
from ....tensor.program import Program, Stage
from ....tensor.rewrites.factor_sums import group_of_sum
from ...access import finished, identity_read, output_stride, plain_dimension, uses_of
from ...extents import Extent, ceildiv
from ...prepared import constant_tensors
from ...schedule import LoopHandle, Schedule, StageHandle
from ..rule import Decided, Rule
from .register_tile import ROWS_AT_MOST, UNROLL_AT_MOST
from .tile import AHEAD, CHUNK, VECTORS_AT_MOST_ALONE

USES_AT_MOST = 64  # of each weight: beyond, making floats of all of them costs less than it saves
LEAST_DEPTH = 16  # points of a group


def _prepare(s: Schedule, decided: Decided) -> Decided:
    if s.allows("factor_sums") and _next(s.program) is not None and s.variant("groups", [True, False]):
        while (found := _next(s.program)) is not None:
            s.rewrite("factor_sums", stage=found[0], group=found[1])
    return decided


def _next(program: Program) -> tuple[str, int] | None:
    """Returns the next stage to rewrite, and the length of its groups."""
    constants = constant_tensors(program)
    for stage in program.stages:
        if stage.name in constants or stage.combiner != "sum":
            continue
        weights = [read for read in stage.reads() if read.tensor in constants]
        uses = min((uses_of(stage, read) for read in weights), default=0)
        group = group_of_sum(program, stage) if 0 < uses <= USES_AT_MOST else None
        if group is not None and group >= LEAST_DEPTH:
            return stage.name, group
    return None


def sums_of_groups(program: Program, stage: Stage) -> Stage | None:
    """Returns the stage of the sums of a group that a sum over groups adds up; None for any other stage."""
    if stage.combiner != "sum" or len(stage.reduction) != 1 or len(stage.axes) not in (1, 2):
        return None
    constants = constant_tensors(program)
    producers = [program.producers.get(read.tensor) for read in stage.reads() if read.tensor not in constants]
    inner = [one for one in producers if one is not None and one.combiner == "sum" and len(one.reduction) == 1]
    if len(inner) != 1 or len(program.consumers[inner[0].name]) != 1 or inner[0].name in program.outputs:
        return None
    read = next(read for read in stage.reads() if read.tensor == inner[0].name)
    if tuple(read.indices) != (stage.reduction[0].var, *(axis.var for axis in stage.axes)):
        return None
    return inner[0] if any(read.tensor in constants for read in inner[0].reads()) else None


def _finishes(program: Program, stage: Stage, taken: Set[str]) -> Stage | None:
    """Returns the sum over groups that a pointwise stage finishes."""

    def fits(read: Read, producer: Stage) -> bool:
        return identity_read(read, stage) and sums_of_groups(program, producer) is not None

    return finished(program, stage, taken, fits)


def _matches(program: Program, stage: Stage, decided: Decided) -> str | None:
    found = _finishes(program, stage, decided.taken)
    if found is None and sums_of_groups(program, stage) is not None:
        found = stage
    return None if found is None or output_stride(stage, stage.axes[-1].name) != 1 else found.name


def _apply(s: Schedule, root: str, anchor: str, decided: Decided) -> set[str]:
    found = sums_of_groups(s.program, s.program.stage(anchor))
    assert found is not None
    inner = found.name
    nest = _Nest(s, anchor, inner)
    if root == anchor:
        stage = s.stage(root)
        (groups,) = stage.reduction
        blocks, tile = nest.split(stage, blocks=True)
        s.reorder(*blocks, groups, *tile)
    else:
        blocks, tile = nest.split(s.stage(root), blocks=True)
        s.reorder(*blocks, *tile)
        nest.write_out(tile)
        stage = s.compute_at(anchor, blocks[-1])
        (groups,) = stage.reduction
        _, tile = nest.split(stage, blocks=False)
        s.reorder(groups, *tile)
    nest.write_out(tile)
    s.parallel(blocks[0])
    depth = nest.sum_of_group(groups)
    nest.pack(depth)
    if len(found.axes) > 2:
        nest.pack_rows()
    return {root, anchor, inner}


class _Nest:
    """One way to run both sums, with its tunables and steps."""

    def __init__(self, s: Schedule, anchor: str, inner: str) -> None:
        self.s, self.anchor, self.inner = s, anchor, inner
        stage = s.stage(anchor)
        *rows, columns = stage.axes
        self.lanes = s.lanes(stage.definition.tensors[0].dtype)
        flat, count = not rows, ceildiv(columns.extent, self.lanes)
        self.rows: Extent = 1 if flat else s.factor(f"{anchor}.rows", rows[0].extent, at_most=ROWS_AT_MOST, default=4)
        self.vectors = s.factor(
            f"{anchor}.vectors", count, at_most=VECTORS_AT_MOST_ALONE if flat else 8, default=8 if flat else 4
        )
        s.require(
            self.rows * self.vectors + self.vectors + 1 <= s.target("vector_registers"),
            "the sums of a group, one row of weights and a broadcast fit in the vector registers",
        )
        depth = s.stage(inner).reduction[0].extent
        self.unroll = s.factor(f"{inner}.unroll", depth, at_most=UNROLL_AT_MOST, default=4)
        self.blocks = s.factor(f"{anchor}.column_blocks", count, default=1)
        s.require(self.blocks <= ceildiv(columns.extent, self.vectors * self.lanes), "no more blocks than panels")

    def split(self, stage: StageHandle, blocks: bool) -> tuple[list[LoopHandle], list[LoopHandle]]:
        """Returns the loops around a register tile, and those of the tile: rows, vectors, lanes."""
        s = self.s
        *rows, columns = stage.axes
        if not blocks:
            return [], [*rows, *s.split(columns, self.lanes)]
        panels = ceildiv(ceildiv(columns.extent, self.vectors * self.lanes), self.blocks)
        outer, panel, vectors, lanes = s.split(columns, panels, self.vectors, self.lanes)
        high = [s.split(rows[0], self.rows)] if rows else []
        return [outer, panel, *(tiles for tiles, _ in high)], [*(row for _, row in high), vectors, lanes]

    def write_out(self, tile: list[LoopHandle]) -> None:
        """Writes out a register tile."""
        self.s.unroll(*tile[:-1])
        self.s.vectorize(tile[-1])

    def sum_of_group(self, groups: LoopHandle) -> LoopHandle:
        """Runs the sums of a group where its scale is multiplied. Returns the loop over the depth."""
        s = self.s
        stage = s.compute_at(self.inner, groups)
        around, *rows, columns = stage.axes
        pieces = s.split(columns, self.lanes)
        depth = s.split(stage.reduction[0], self.unroll)
        s.reorder(around, *depth, *rows, *pieces)
        s.unroll(depth[1], *rows, pieces[0])
        s.vectorize(pieces[1])
        return depth[0]

    def pack(self, depth: LoopHandle) -> None:
        """Lays constants in the order in which the tile reads them, once; weights are asked for ahead."""
        s = self.s
        constants = constant_tensors(s.program)
        ahead = s.choice(f"{self.inner}.ahead", AHEAD, AHEAD[-2])
        for name in (self.inner, self.anchor):
            definition = s.program.stage(name)
            vector = definition.axes[-1].name
            for read in definition.reads():
                dimension = plain_dimension(read, vector)
                if read.tensor not in constants or dimension is None or len(read.indices) == 1:
                    continue
                if sum(other.tensor == read.tensor for other in definition.reads()) > 1:
                    continue
                made = s.copy(read.tensor, name)
                rest = [loop for n, loop in enumerate(made.loops) if n != dimension]
                pieces = s.split(made.loops[dimension], self.vectors, self.lanes)
                s.reorder(pieces[0], *rest, *pieces[1:])
                s.unroll(pieces[1])
                s.vectorize(pieces[2])
                if name == self.inner:
                    step = self.unroll * self.vectors * self.lanes * read.dtype.bytes
                    s.prefetch(made.name, depth, ceildiv(ahead, step))

    def pack_rows(self) -> None:
        """Lays the rows of a tile side by side, first of all and by all threads: they would meet in few sets of a cache."""
        s = self.s
        definition = s.program.stage(self.inner)
        rows = definition.axes[-2].name
        for read in definition.reads():
            dimension = plain_dimension(read, rows)
            alone = sum(other.tensor == read.tensor for other in definition.reads()) == 1
            if read.tensor in constant_tensors(s.program) or dimension is None or len(read.indices) != 2 or not alone:
                continue
            made = s.copy(read.tensor, self.inner)
            high, low = s.split(made.loops[dimension], self.rows)
            chunk, points = s.split(made.loops[1 - dimension], CHUNK)
            s.reorder(chunk, high, points, low)
            s.unroll(low)
            s.parallel(chunk)


GROUPS = Rule("groups", _prepare, _matches, _apply)
