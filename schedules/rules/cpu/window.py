"""The window rule: a reduction with reuse whose data slide. Columns are what the data do not move with; pixels are the rows.

    y[o, p, q] = sum[c, r, s](x[c, p + r, q + s] * w[o, c, r, s])

Axes play parts that are read off the accesses:

    vector    an axis that moves the weights and not the data: vectors of it are the columns of the register tile
    rows      the last axis that moves the data and not the weights: its points are the rows of the tile
    lines     the axis before that of the same kind, in blocks that share a piece of the data
    windows   reduction axes that shift the data; depth: the longest of the others

The data are read one number at a time, for all lanes, so any stride, dilation and layout will do. Guards are taken out of the
loops first: the border is written into a piece of the data (tensor/rewrites/pad_reads.py). A result that is stored along
another axis is computed with `vector` innermost all the same (tensor/rewrites/reorder_axes.py), and turned while it is still
in a near cache.

    loops    others, blocks of columns, blocks of lines, [data], line, tiles, windows, depth, rows, vectors, lanes
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from ....common.remembered import remembered
from ....tensor.dots import dot_of
from ....tensor.expr import Expr, Read, Var
from ....tensor.indices.affine import affine
from ....tensor.program import Program, Stage
from ....tensor.rewrites.pad_reads import can_pad_reads, guarded_reads
from ...access import depends, element_stride, is_anchor, output_stride, plain_dimension
from ...extents import Extent, ceildiv
from ...prepared import constant_tensors
from ...schedule import LoopHandle, Schedule, StageHandle
from ..orders import correspondence, finished_in_any_order
from ..rule import Rule, finishing, keeping, rewriting, scheduling
from .register_tile import UNROLL_AT_MOST, VECTORS_AT_MOST, require_registers
from .transpose import NARROWEST, square, square_side

ROWS_AT_MOST = 28
FEWEST_COLUMNS = 8  # points along the vector axis that are worth a vector
# Elements of weights that come from beyond the second cache. In the order of reading, 3x3 weights of 512 x 512 channels on
# 7 x 7 points take 1.0 ms instead of 1.34 (EPYC Zen 5, one thread, windows outside); those of 256 x 256 on 14 x 14 3% more.
BEYOND = 1 << 20


DataAndColumns = tuple[LoopHandle, LoopHandle]  # the loops around a piece of the data, and of blocks of columns


@dataclass(frozen=True, slots=True)
class WindowRoles:
    """The parts that the axes of an anchor play, and which of its reads are the data and the weights. Of sums over words of
    narrow elements there may be several of each: `data` and `weights` are the first ones then, and `all_weights` has one of
    each tensor; `words`: how many reads of data there are, and of weights."""

    vector: str
    rows: str
    lines: str | None
    others: tuple[str, ...]
    windows: tuple[str, ...]
    depth: tuple[str, ...]
    data: Read
    weights: Read
    all_weights: tuple[Read, ...]
    words: tuple[int, int]


@remembered
def window_of(program: Program, anchor: Stage) -> WindowRoles | None:
    """Returns the parts of the axes, or None where the rule does not apply."""
    if not is_anchor(anchor) or len(anchor.tensors) != 1:
        return None
    reads = anchor.reads()
    sliding = [r for r in reads if slides(anchor, r)]
    still = [r for r in reads if r not in sliding]
    if not sliding or not still or (len(reads) != 2 and not _sums_words(anchor, sliding)):
        return None
    (data, *_), (weights, *_) = sliding, still
    spatial = [a for a in anchor.axes if a.extent > 1]
    columns = [a for a in spatial if all(depends(r, a.name) for r in still) and not depends(data, a.name)]
    pixels = [a.name for a in spatial if depends(data, a.name) and not any(depends(r, a.name) for r in still)]
    if not columns or not any(_slides_along(index, pixels, anchor) for index in data.indices):
        return None
    vector = max(columns, key=lambda a: a.extent)
    if vector.extent < FEWEST_COLUMNS or any(plain_dimension(read, vector.name) is None for read in still):
        return None
    shifts = {name for index in data.indices if is_shifted(index) for name in shifting_axes(index)}
    lines = pixels[-2] if len(pixels) > 1 else None
    others = tuple(a.name for a in anchor.axes if a.name not in (vector.name, pixels[-1], lines))
    windows = tuple(a.name for a in anchor.reduction if a.name in shifts)
    depth = tuple(a.name for a in anchor.reduction if a.name not in shifts)
    each = tuple({read.tensor: read for read in reversed(still)}.values())[::-1]
    words = (len(sliding), len(still))
    return WindowRoles(vector.name, pixels[-1], lines, others, windows, depth, data, weights, each, words)


def _sums_words(anchor: Stage, sliding: Sequence[Read]) -> bool:
    """Tells whether a sum goes over words of narrow elements, of which it may read several of one tensor."""
    return len(anchor.bodies) == 1 and dot_of(anchor.bodies[0]) is not None and len({r.tensor for r in sliding}) == 1


def _slides_along(index: Expr, pixels: Sequence[str], anchor: Stage) -> bool:
    """Tells whether a window slides on pixels; heads and groups, each with operands of its own, are no pixels."""
    steps = {atom.name: step for atom, step in affine(index).terms if isinstance(atom, Var)}
    along = steps.keys() & set(pixels)
    return bool(along) and (
        not steps.keys().isdisjoint(a.name for a in anchor.reduction) or max(steps[p] for p in along) > 1
    )


def shifting_axes(index: Expr) -> tuple[str, ...]:
    """Returns the axes that move an index."""
    return tuple(atom.name for atom, _ in affine(index).terms if isinstance(atom, Var))


def is_shifted(index: Expr) -> bool:
    """Tells whether more than one axis moves an index."""
    return len(shifting_axes(index)) > 1


def slides(anchor: Stage, read: Read) -> bool:
    """Tells whether an index of a read has a spatial axis that a reduction axis shifts, or that takes steps longer than one."""
    spatial = {a.name for a in anchor.axes}
    for index in read.indices:
        form = affine(index)
        names = set(shifting_axes(index))
        if any(not isinstance(atom, Var) for atom, _ in form.terms):
            return False
        if names & spatial and (names - spatial or any(c > 1 for _, c in form.terms)):
            return True
    return False


def _rewrite(s: Schedule) -> None:
    """Rewrites all anchors to which the rule applies: borders are written, vectors lie innermost."""
    while _pad_one(s) or _reorder_one(s):
        pass


def _pad_one(s: Schedule) -> bool:
    for stage in s.program.stages:
        window = window_of(s.program, stage)
        if window is None or not guarded_reads(stage, window.data.tensor):
            continue
        if can_pad_reads(s.program, stage, window.data.tensor):
            s.rewrite("pad_reads", stage=stage.name, tensor=window.data.tensor)
            return True
    return False


def _reorder_one(s: Schedule) -> bool:
    for stage in s.program.stages:
        window = window_of(s.program, stage)
        if window is not None and output_stride(stage, window.vector) != 1:
            kept = [a.name for a in stage.axes if a.name != window.vector]
            s.rewrite("reorder_axes", stage=stage.name, axes=[*kept, window.vector])
            return True
    return False


def _pieces_of_data(program: Program) -> frozenset[str]:
    """Returns the pointwise stages that make the data of one anchor and nothing else: they run where a piece is needed."""
    return pieces_of(program, lambda stage: None if (window := window_of(program, stage)) is None else window.data)


def pieces_of(program: Program, data_of: Callable[[Stage], Read | None]) -> frozenset[str]:
    """Returns the pointwise stages that make the data of one stage, which slide over it, and nothing else."""
    found = set()
    for stage in program.stages:
        data = data_of(stage)
        producer = None if data is None else program.producers.get(data.tensor)
        if producer is None or producer.combiner is not None or producer.name in program.outputs:
            continue
        if len(program.consumers[producer.name]) == 1 and len(producer.tensors) == 1:
            found.add(producer.name)
    return frozenset(found)


class _Tiling:
    """The tunables of a window and the steps that schedule it."""

    def __init__(self, s: Schedule, root: str, anchor: str, window: WindowRoles) -> None:
        self.s, self.root, self.anchor, self.window = s, root, anchor, window
        self.definition = s.program.stage(anchor)
        self.lines_outside = s.variant(f"{anchor} lines outside", [False, True])
        rows, columns = (self._extent(axis) for axis in (window.rows, window.vector))
        self.lanes: Extent = s.lanes(self.definition.tensors[0].dtype)
        self.rows = s.factor(f"{anchor}.rows", rows, at_most=ROWS_AT_MOST, default=14)
        vectors = ceildiv(columns, self.lanes)
        self.vectors = s.factor(f"{anchor}.vectors", vectors, at_most=VECTORS_AT_MOST, default=2)
        require_registers(s, self.rows * self.vectors + self.vectors * window.words[1] + window.words[0])
        self.columns = s.factor(f"{anchor}.column_tiles", vectors, at_most=8, default=1)
        s.require(self.columns * self.vectors < vectors + self.vectors, "no more tiles than columns")
        self.reading: list[str] = []  # the reductions in the order of their loops
        self.lines: Extent = 1
        if window.lines is not None:
            self.lines = s.factor(f"{anchor}.lines", self._extent(window.lines), default=4)

    def _extent(self, axis: str) -> Extent:
        return self.s.stage(self.anchor).along(self.definition, axis).extent

    def apply(self) -> set[str]:
        """Takes all steps; returns the stages taken."""
        taken = {self.root, self.anchor}
        data = self.window.data.tensor
        if data in _pieces_of_data(self.s.program):
            taken.add(data)
        at, columns = self._alone() if self.root == self.anchor else self._finished()
        self._pack_weights(columns)
        if data in taken:
            self._piece(self.s.compute_at(data, at))
        return taken

    # ---- the anchor is the root ----

    def _alone(self) -> DataAndColumns:
        """Makes one nest."""
        s, window, stage = self.s, self.window, self.s.stage(self.anchor)
        others = [stage.along(self.definition, axis) for axis in window.others]
        vector, rows = stage.along(self.definition, window.vector), stage.along(self.definition, window.rows)
        lines = [] if window.lines is None else list(s.split(stage.along(self.definition, window.lines), self.lines))
        columns = s.split(vector, self.columns, self.vectors, self.lanes)
        tiles = s.split(rows, self.rows)
        outer = self._outer(columns[0], lines[:1])
        reductions = self._reductions(stage)
        s.reorder(*others, *outer, *lines[1:], tiles[0], columns[1], *reductions, tiles[1], *columns[2:])
        s.parallel(*others, *outer[: 1 if self.lines_outside else 2])
        s.unroll(reductions[-1], tiles[1], columns[2])
        s.vectorize(columns[3])
        return lines[0] if lines else outer[0], columns[0]

    def _outer(self, columns: LoopHandle, lines: list[LoopHandle]) -> list[LoopHandle]:
        return [*lines, columns] if self.lines_outside else [columns, *lines]

    def _reductions(self, stage: StageHandle) -> list[LoopHandle]:
        """Returns windows and depth, the last one in pieces that are written out."""
        s, window = self.s, self.window
        inside = window.depth and s.variant(f"{self.anchor} windows innermost", [False, True])
        names = [*window.depth, *window.windows] if inside or not window.depth else [*window.windows, *window.depth]
        self.reading = names
        loops = [stage.along(self.definition, axis) for axis in names]
        unroll = s.factor(f"{self.anchor}.unroll", loops[-1].extent, at_most=UNROLL_AT_MOST, default=1)
        return [*loops[:-1], *s.split(loops[-1], unroll)]

    # ---- another stage finishes it ----

    def _finished(self) -> DataAndColumns:
        """Schedules the root, a pointwise stage of the same points in any order of its axes, with the anchor inside."""
        root = self.s.stage(self.root)
        order = correspondence(root.definition, self.anchor, self.definition)
        loops = {mine: root.along(root.definition, theirs) for mine, theirs in order.items()}
        if output_stride(root.definition, order[self.window.vector]) == 1:
            return self._finished_in_registers(root, loops)
        return self._finished_across(root, loops, order)

    def _finished_in_registers(self, root: StageHandle, loops: dict[str, LoopHandle]) -> DataAndColumns:
        """Finishes the values of a register tile before they are stored."""
        s, window = self.s, self.window
        others = [loops[axis] for axis in window.others]
        lines = [] if window.lines is None else list(s.split(loops[window.lines], self.lines))
        columns = s.split(loops[window.vector], self.columns, self.vectors, self.lanes)
        tiles = s.split(loops[window.rows], self.rows)
        outer = self._outer(columns[0], lines[:1])
        s.reorder(*others, *outer, *lines[1:], tiles[0], columns[1], tiles[1], *columns[2:])
        s.parallel(*others, *outer[: 1 if self.lines_outside else 2])
        s.unroll(tiles[1], columns[2])
        s.vectorize(columns[3])
        stage = s.compute_at(self.anchor, columns[1])
        rest = [
            stage.along(self.definition, axis) for axis in (*window.others, *([window.lines] if window.lines else []))
        ]
        vectors = s.split(stage.along(self.definition, window.vector), self.lanes)
        rows = stage.along(self.definition, window.rows)
        reductions = self._reductions(stage)
        s.reorder(*reductions, *rest, rows, *vectors)
        s.unroll(reductions[-1], *rest, rows, vectors[0])
        s.vectorize(vectors[1])
        return lines[0] if lines else outer[0], columns[0]

    def _finished_across(
        self, root: StageHandle, loops: dict[str, LoopHandle], order: dict[str, str]
    ) -> DataAndColumns:
        """Computes a line of all rows and a block of columns, then turns it."""
        s, window = self.s, self.window
        others = [loops[axis] for axis in window.others]
        lines = [] if window.lines is None else list(s.split(loops[window.lines], self.lines))
        side = square_side(s, root.definition.tensors[0].dtype)
        block = ceildiv(self.columns * self.vectors * self.lanes, side)
        columns = s.split(loops[window.vector], block, side)
        turned = s.split(loops[window.rows], side)
        outer = self._outer(columns[0], lines[:1])
        s.reorder(*others, *outer, *lines[1:], columns[1], turned[0], columns[2], turned[1])
        s.parallel(*others, *outer[: 1 if self.lines_outside else 2])
        s.unroll(columns[2])
        s.vectorize(turned[1])
        at = lines[1] if lines else outer[-1]
        if _is_wide(self.definition, window.rows):
            dimension = [a.name for a in self.definition.axes].index(window.vector)
            square(s, self.anchor, self.root, dimension, turned[0])
        stage = s.compute_at(self.anchor, at)
        rest = [
            stage.along(self.definition, axis) for axis in (*window.others, *([window.lines] if window.lines else []))
        ]
        vectors = s.split(stage.along(self.definition, window.vector), self.vectors, self.lanes)
        tiles = s.split(stage.along(self.definition, window.rows), self.rows)
        reductions = self._reductions(stage)
        s.reorder(*rest, tiles[0], vectors[0], *reductions, tiles[1], *vectors[1:])
        s.unroll(reductions[-1], tiles[1], vectors[1])
        s.vectorize(vectors[2])
        return lines[0] if lines else outer[0], columns[0]

    # ---- operands ----

    def _pack_weights(self, columns: LoopHandle) -> None:
        """Packs the weights: once and for all, or in a nest of its own. What comes from afar lies in the order of reading."""
        afar = [made for weights in self.window.all_weights if (made := self._pack(weights)) is not None]
        if afar and not self.lines_outside:
            self._bring(afar, columns)

    def _pack(self, weights: Read) -> str | None:
        """Packs a tensor of weights. Returns the copy if it comes from afar."""
        s, window = self.s, self.window
        dimension = plain_dimension(weights, window.vector)
        assert dimension is not None
        constant = weights.tensor in constant_tensors(s.program)
        if not constant and element_stride(s.program, weights, window.vector) == 1:
            return None
        made = s.copy(weights.tensor, self.anchor)
        others = [n for n in range(len(made.loops)) if n != dimension]
        afar = prod(s.program.tensors[weights.tensor].shape) >= BEYOND
        if afar:
            places = {plain_dimension(weights, axis): place for place, axis in enumerate(self.reading)}
            others.sort(key=lambda n: places.get(n, -1))
        rest = [made.loops[n] for n in others]
        pieces = s.split(made.loops[dimension], self.vectors, self.lanes)
        s.reorder(pieces[0], *rest, *pieces[1:])
        if not constant:
            s.parallel(pieces[0])
        s.unroll(pieces[1])
        s.vectorize(pieces[2])
        return made.name if afar else None

    def _bring(self, copies: Sequence[str], columns: LoopHandle) -> None:
        """Asks for the weights of the next block of columns while lines of this one are computed, if both have a place in the
        second cache."""
        s, extent = self.s, self.definition.axis(self.window.vector).extent
        tensors = [s.program.tensors[weights.tensor] for weights in self.window.all_weights]
        column = sum(prod(tensor.shape) * tensor.dtype.bytes for tensor in tensors) // extent
        asked = s.flag(f"{self.anchor}.bring")
        block = column * self.columns * self.vectors * self.lanes
        s.require(2 * asked * block <= s.target("l2"), "what is asked for has a place in the second cache")
        for copy in copies:
            s.bring(self.anchor, copy, columns, asked)

    def _piece(self, stage: StageHandle) -> None:
        """Writes the piece of the data that a block of lines needs, in vectors."""
        loops = list(stage.loops)
        pieces = self.s.split(loops[-1], self.lanes)
        self.s.reorder(*loops[:-1], *pieces)
        self.s.vectorize(pieces[-1])


def _is_wide(stage: Stage, axis: str) -> bool:
    return stage.axis(axis).extent >= NARROWEST


def _scheduled(s: Schedule, root: str, anchor: str, parts: WindowRoles) -> set[str]:
    return _Tiling(s, root, anchor, parts).apply()


WINDOW = Rule(
    "window",
    rewriting(_rewrite),
    finishing(finished_in_any_order(window_of), window_of),
    scheduling(window_of, _scheduled),
)
WINDOW_DATA = Rule("window data", keeping(_pieces_of_data))
