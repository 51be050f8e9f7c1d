"""The slide rule: a small window that moves over data without reuse along another axis: stencils, depthwise, pooling.

    y[c, p, q] = sum[r, s](x[c, 2 * p + r, 2 * q + s] * w[c, r, s])      max[r, s](x[...])

    vector    the axis along which the result is contiguous, sliding or not
    rows      the last other axis that slides: neighbouring points share data, and coefficients; they are a register tile
    lines     the axis before that which slides, in blocks that share a piece of the data; without one, blocks of rows do

The window is written out: a number that several points of the tile need is loaded once. Guards are taken out of the loops:
a piece of the data is copied with its border (tensor/rewrites/pad_reads.py).

    loops    others, blocks of lines, [blocks of vectors], [data], lines, tiles, window, rows, vectors, lanes

Blocks of lines are outside of blocks of vectors, so that each thread has whole rows of memory. Where the vectors do not slide
and no piece is copied, memory is walked through as it lies, and a register tile has several lines:

    loops    others, blocks of lines, lines, tiles, blocks of vectors, window, lines of a tile, rows, vectors, lanes
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from math import prod

from ....common.remembered import remembered
from ....tensor.expr import Read
from ....tensor.indices.members import member_axes
from ....tensor.program import Program, Stage
from ....tensor.rewrites.pad_reads import can_pad_reads, guarded_reads
from ...access import element_stride, finished, identity_read, is_anchor, output_stride, plain_dimension
from ...extents import Extent, ceildiv
from ...prepared import constant_tensors
from ...schedule import LoopHandle, Schedule, StageHandle
from ..rule import Rule, finishing, keeping, rewriting, scheduling
from .exceptional import exceptional_checks
from .window import is_shifted, pieces_of, shifting_axes, slides

POINTS_AT_MOST = 64  # of a window that is written out
ROWS_AT_MOST = 16
VECTORS_AT_MOST = 8
LINES_AT_MOST = 4  # of a register tile
TERMS_AT_MOST = 512  # in the code of one tile


@dataclass(frozen=True, slots=True)
class Slide:
    """The parts that the axes of a sliding window play. `data` is the read that slides."""

    vector: str
    rows: str | None
    lines: str | None
    data: Read


@remembered
def slide_of(program: Program, stage: Stage) -> Slide | None:
    """Returns the parts of the axes, or None where the rule does not apply."""
    if stage.combiner in (None, "fold") or len(stage.tensors) != 1 or is_anchor(stage):
        return None
    sliding = [r for r in stage.reads() if slides(stage, r)]
    vectors = [a.name for a in stage.axes if a.extent > 1 and output_stride(stage, a.name) == 1]
    if len(sliding) != 1 or not vectors:
        return None
    (data,) = sliding
    windows = {name for index in data.indices if is_shifted(index) for name in shifting_axes(index)}
    points = prod(a.extent for a in stage.reduction)
    if any(a.name not in windows for a in stage.reduction) or points > POINTS_AT_MOST:
        return None
    axes = [a.name for a in stage.axes if a.extent > 1 and a.name in windows and a.name != vectors[0]]
    return Slide(vectors[0], axes[-1] if axes else None, axes[-2] if len(axes) > 1 else None, data)


def _rewrite(s: Schedule) -> None:
    """Lets stages of their own write the borders, or each load ask whether it is inside: less is copied then."""
    found = _with_borders(s.program)
    while found and s.variant(f"{found[0].name} border", [True, False]):
        slide = slide_of(s.program, found[0])
        assert slide is not None
        s.rewrite("pad_reads", stage=found[0].name, tensor=slide.data.tensor)
        found = _with_borders(s.program)


def _with_borders(program: Program) -> list[Stage]:
    about = exceptional_checks(program)
    return [stage for stage in program.stages if stage.name not in about and _has_border(program, stage)]


def _has_border(program: Program, stage: Stage) -> bool:
    slide = slide_of(program, stage)
    if slide is None or not guarded_reads(stage, slide.data.tensor):
        return False
    return can_pad_reads(program, stage, slide.data.tensor)


def _pieces_of_slides(program: Program) -> frozenset[str]:
    """Returns the pointwise stages that make the data of one sliding window and nothing else."""
    return pieces_of(program, lambda stage: None if (slide := slide_of(program, stage)) is None else slide.data)


def _finishes(program: Program, stage: Stage, taken: Set[str]) -> Stage | None:
    """Returns the sliding reduction whose values a pointwise stage finishes, point by point."""
    return finished(
        program, stage, taken, lambda read, p: identity_read(read, stage) and slide_of(program, p) is not None
    )


def window_loops(s: Schedule, stage: StageHandle, definition: Stage) -> list[LoopHandle]:
    """Returns the loops of a window, each split by its whole extent, so that all of it is written out.

    `definition`: the stage whose window it is, if its axes are those of `stage` by position.
    """
    loops = [stage.along(definition, a.name) for a in definition.reduction]
    return [piece for loop in loops for piece in s.split(loop, loop.extent)]


class _Sliding:
    """The tunables of a sliding window and the steps that schedule it."""

    def __init__(self, s: Schedule, root: str, name: str, slide: Slide) -> None:
        self.s, self.root, self.name, self.slide = s, root, name, slide
        self.definition = s.program.stage(name)
        self.lanes: Extent = s.lanes(self.definition.tensors[0].dtype)
        self.moves = slide.vector in {v for i in slide.data.indices if is_shifted(i) for v in shifting_axes(i)}
        self.is_piece = slide.data.tensor in _pieces_of_slides(s.program)
        strewn = not (self.moves or self.is_piece or slide.lines is None)
        self.in_order = strewn and s.variant(f"{name} in order", [True, False])
        self.rows: Extent = 1
        self.together: Extent = 1
        if slide.rows is not None:
            self.rows = s.factor(f"{name}.rows", self._extent(slide.rows), at_most=ROWS_AT_MOST, default=4)
        columns = ceildiv(self._extent(slide.vector), self.lanes)
        self.vectors = s.factor(f"{name}.vectors", columns, at_most=VECTORS_AT_MOST, default=1)
        own = (slide.vector, slide.rows, slide.lines)
        self.members = [name for name in member_axes(self.definition) if name not in own]
        tile = self.rows * self.vectors * prod(self.definition.axis(a).extent for a in self.members)
        if self.in_order and slide.lines is not None:
            self.together = s.factor(f"{name}.together", self._extent(slide.lines), at_most=LINES_AT_MOST)
            tile = tile * self.together
            s.require(2 * tile <= s.target("vector_registers"), "accumulators and what neighbours share stay near")
        elif strewn:
            s.require(columns <= self.vectors, "vectors that lie side by side are read one after the other")
        s.require(tile + 2 <= s.target("vector_registers"), "accumulators fit in the vector registers")
        terms: Extent = tile
        for axis in self.definition.reduction:
            terms = terms * self._extent(axis.name)
        s.require(terms <= TERMS_AT_MOST, "a tile whose window is written out stays short code")

    def _extent(self, axis: str) -> Extent:
        return self.s.stage(self.name).along(self.definition, axis).extent

    def apply(self) -> set[str]:
        """Takes all steps; returns the stages taken."""
        s, slide = self.s, self.slide
        taken = {self.root, self.name}
        stage = s.stage(self.root)
        others = [
            stage.along(self.definition, a.name)
            for a in self.definition.axes
            if a.name not in (slide.vector, slide.rows, slide.lines, *self.members)
        ]
        members = [stage.along(self.definition, name) for name in self.members]
        blocks, around, rows = self._pixels(stage)
        vectors = s.split(stage.along(self.definition, slide.vector), self.vectors, self.lanes)
        sums = [] if self.root != self.name else window_loops(s, stage, self.definition)
        outside, inside = ([], [vectors[0]]) if self.moves or self.in_order else ([vectors[0]], [])
        s.reorder(*others, *blocks, *outside, *around, *inside, *sums, *members, *rows, *vectors[1:])
        s.parallel(*others, *blocks, *outside)
        s.unroll(*sums[1::2], *members, *rows, vectors[1])
        s.vectorize(vectors[2])
        at = [*others, *blocks, *outside][-1] if others or outside or blocks else None
        if self.root != self.name:
            self._attach([*others, *blocks, *outside, *around, *inside][-1])
        self._pack_coefficients()
        data = slide.data.tensor
        if self.is_piece and at is not None:
            taken.add(data)
            self._piece(s.compute_at(data, at))
        return taken

    def _pixels(self, stage: StageHandle) -> tuple[list[LoopHandle], list[LoopHandle], list[LoopHandle]]:
        """Returns the blocks that share data, the loops inside of one, and the rows of the register tile."""
        s, slide = self.s, self.slide
        if slide.rows is None:
            return [], [], []
        loop = stage.along(self.definition, slide.rows)
        if slide.lines is None:
            tiles = s.factor(f"{self.name}.tiles", self._extent(slide.rows), at_most=64, default=4)
            s.require((tiles - 1) * self.rows < self._extent(slide.rows), "no more tiles than rows")
            pieces = s.split(loop, tiles, self.rows)
            return [pieces[0]], [pieces[1]], [pieces[2]]
        block = s.factor(f"{self.name}.lines", self._extent(slide.lines), at_most=64, default=8)
        parts = (block, self.together) if self.in_order else (block,)
        lines = s.split(stage.along(self.definition, slide.lines), *parts)
        along = s.split(loop, self.rows)
        return [lines[0]], [lines[1], along[0]], [*lines[2:], along[1]]

    def _attach(self, at: LoopHandle) -> None:
        """Runs the reduction at a register tile of the stage that finishes it."""
        s, slide = self.s, self.slide
        stage = s.compute_at(self.name, at)
        rest = [stage.along(self.definition, a.name) for a in self.definition.axes if a.name != slide.vector]
        vectors = s.split(stage.along(self.definition, slide.vector), self.lanes)
        sums = window_loops(s, stage, self.definition)
        s.reorder(*sums, *rest, *vectors)
        s.unroll(*sums[1::2], *rest, vectors[0])
        s.vectorize(vectors[1])

    def _pack_coefficients(self) -> None:
        """Puts what vectors would collect from many places in the order in which they read it, once or in its own nest."""
        s, constants = self.s, constant_tensors(self.s.program)
        reads = self.definition.reads()
        for read in reads:
            dimension = plain_dimension(read, self.slide.vector)
            again = sum(other.tensor == read.tensor for other in reads) > 1
            if read.tensor == self.slide.data.tensor or dimension is None or again:
                continue
            if element_stride(s.program, read, self.slide.vector) == 1:
                continue
            made = s.copy(read.tensor, self.name)
            rest = [loop for n, loop in enumerate(made.loops) if n != dimension]
            pieces = s.split(made.loops[dimension], self.lanes)
            s.reorder(pieces[0], *rest, pieces[1])
            if read.tensor not in constants:
                s.parallel(pieces[0])
            s.vectorize(pieces[1])

    def _piece(self, stage: StageHandle) -> None:
        """Copies the piece of the data that a block needs, in vectors."""
        loops = list(stage.loops)
        pieces = self.s.split(loops[-1], self.lanes)
        self.s.reorder(*loops[:-1], *pieces)
        self.s.vectorize(pieces[-1])


def _scheduled(s: Schedule, root: str, anchor: str, parts: Slide) -> set[str]:
    return _Sliding(s, root, anchor, parts).apply()


SLIDE = Rule(
    "slide",
    rewriting(_rewrite),
    finishing(_finishes, slide_of),
    scheduling(slide_of, _scheduled),
)
SLIDE_DATA = Rule("slide data", keeping(_pieces_of_slides))
