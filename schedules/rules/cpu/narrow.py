"""The rule of narrow products, whose columns are too few for vectors. Lanes go along the depth, where the data are contiguous.

    y[o, p, q] = sum[c, r, s](x[p + r, q + s, c] * w[o, c, r, s])        o < 8

Axes play parts that are read off the accesses:

    depth     the reduction axis along which the data are contiguous: its points are the lanes
    columns   all axes that move the weights and not the data; they are written out
    rows      the last axis that moves the data and not the weights: with the columns, its points are the register tile

Each sum of the tile is a vector, whose lanes are added up when the depth has gone by. Constant weights are packed once, in the
order in which they are read. Borders stay guards: they are the same for all lanes, and most tiles have none.

    loops    others, blocks of tiles, tiles, other reductions, depth, rows, columns, lanes
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from math import prod

from ....common.remembered import remembered
from ....tensor.exceptional import exceptional_condition
from ....tensor.expr import Read
from ....tensor.indices.members import member_axes
from ....tensor.indices.scatter import scattered
from ....tensor.program import Program, Stage
from ...access import depends, element_stride, output_stride, plain_dimension
from ...extents import Extent, ceildiv
from ...prepared import constant_tensors
from ...schedule import LoopHandle, Schedule, StageHandle
from ..orders import correspondence, finished_in_any_order
from ..rule import Rule, finishing, scheduling
from .register_tile import require_registers
from .window import FEWEST_COLUMNS

ROWS_AT_MOST = 8
UNROLL_AT_MOST = 4
LEAST_DEPTH = 16  # points of the depth, of which vectors are full
LEAST_TERMS = 32  # of a sum, beside which adding up its lanes counts little
LEAST_SUMS = 4  # of a tile: fewer load as much as they multiply, and each addition waits for the one before it


@dataclass(frozen=True, slots=True)
class NarrowRoles:
    """The parts that the axes of an anchor play, and which of its reads are the data and the weights."""

    depth: str
    reductions: tuple[str, ...]  # the others
    columns: tuple[str, ...]
    rows: str
    others: tuple[str, ...]
    data: Read
    weights: tuple[Read, ...]


@remembered
def narrow_of(program: Program, anchor: Stage) -> NarrowRoles | None:
    """Returns the parts of the axes, or None where the rule does not apply."""
    if anchor.combiner != "sum" or len(anchor.tensors) != 1 or member_axes(anchor):
        return None
    if exceptional_condition(anchor) is not None or scattered(anchor) is not None:
        return None
    if prod(axis.extent for axis in anchor.reduction) < LEAST_TERMS:
        return None
    constants = constant_tensors(program)
    moving = [read for read in anchor.reads() if read.tensor not in constants]
    found = (_roles(program, anchor, data, constants) for data in moving)
    return next((roles for roles in found if roles is not None), None)


def _roles(program: Program, anchor: Stage, data: Read, constants: Set[str]) -> NarrowRoles | None:
    depth = next((a for a in anchor.reduction if element_stride(program, data, a.name) == 1), None)
    weights = tuple(read for read in anchor.reads() if read != data)
    if depth is None or depth.extent < LEAST_DEPTH or not weights:
        return None
    if not all(_is_along(program, read, depth.name, constants) for read in weights):
        return None
    spatial = [axis for axis in anchor.axes if axis.extent > 1]
    still = [a for a in spatial if not depends(data, a.name)]
    pixels = [a for a in spatial if not any(depends(read, a.name) for read in weights)]
    if prod(a.extent for a in still) >= FEWEST_COLUMNS or not pixels or pixels[-1].extent < LEAST_SUMS:
        return None
    columns, rows = tuple(a.name for a in still), pixels[-1].name
    others = tuple(a.name for a in anchor.axes if a.name not in (*columns, rows))
    reductions = tuple(a.name for a in anchor.reduction if a != depth)
    return NarrowRoles(depth.name, reductions, columns, rows, others, data, weights)


def _is_along(program: Program, read: Read, depth: str, constants: Set[str]) -> bool:
    """Tells whether weights lie along the depth, or will when they are packed."""
    if read.tensor in constants:
        return plain_dimension(read, depth) is not None
    return element_stride(program, read, depth) == 1


class _Narrow:
    """The tunables of a narrow product and the steps that schedule it."""

    def __init__(self, s: Schedule, root: str, anchor: str, roles: NarrowRoles) -> None:
        self.s, self.root, self.anchor, self.roles = s, root, anchor, roles
        self.definition = s.program.stage(anchor)
        self.lanes: Extent = s.lanes(self.definition.tensors[0].dtype)
        self.rows = s.factor(f"{anchor}.rows", self._extent(roles.rows), at_most=ROWS_AT_MOST, default=4)
        columns = prod(self.definition.axis(name).extent for name in roles.columns)
        # all operands of a step, too: they are loaded before the first of them is multiplied
        require_registers(s, self.rows * columns + self.rows + columns)
        s.require(self.rows * columns >= LEAST_SUMS, "there are sums enough, so that additions overlap")
        self.unroll = s.factor(f"{anchor}.unroll", self._extent(roles.depth), at_most=UNROLL_AT_MOST, default=1)
        self.tiles = s.factor(f"{anchor}.tiles", self._extent(roles.rows), at_most=64, default=16)

    def _extent(self, axis: str) -> Extent:
        return self.s.stage(self.anchor).along(self.definition, axis).extent

    def apply(self) -> set[str]:
        """Takes all steps; returns the stages taken."""
        if self.root == self.anchor:
            self._alone()
        else:
            self._finished()
        self._pack_weights()
        return {self.root, self.anchor}

    def _alone(self) -> None:
        """Makes one nest."""
        roles, stage = self.roles, self.s.stage(self.anchor)
        others = [stage.along(self.definition, name) for name in roles.others]
        block, *tiles = self.s.split(stage.along(self.definition, roles.rows), self.tiles, self.rows)
        self._tile(stage, [*others, block], tiles)
        self.s.parallel(*others, block)

    def _finished(self) -> None:
        """Computes a block of tiles at a time, which the root then finishes, in vectors where it is stored along the rows."""
        s, roles, root = self.s, self.roles, self.s.stage(self.root)
        order = correspondence(root.definition, self.anchor, self.definition)
        loops = {mine: root.along(root.definition, theirs) for mine, theirs in order.items()}
        others, columns = ([loops[name] for name in kind] for kind in (roles.others, roles.columns))
        points = self.tiles * self.rows
        if output_stride(root.definition, order[roles.rows]) == 1:
            block, *rows = s.split(loops[roles.rows], ceildiv(points, self.lanes), self.lanes)
            s.reorder(*others, block, *columns, *rows)
            s.vectorize(rows[-1])
        else:
            block, *rows = s.split(loops[roles.rows], points)
            s.reorder(*others, block, *rows, *columns)
        s.parallel(*others, block)
        stage = s.compute_at(self.anchor, block)
        tiles = s.split(stage.along(self.definition, roles.rows), self.rows)
        self._tile(stage, [stage.along(self.definition, name) for name in roles.others], tiles)

    def _tile(self, stage: StageHandle, outside: Sequence[LoopHandle], tiles: Sequence[LoopHandle]) -> None:
        """Goes through tiles, and through the depth in each."""
        s, roles = self.s, self.roles
        depth = s.split(stage.along(self.definition, roles.depth), self.unroll, self.lanes)
        reductions = [stage.along(self.definition, name) for name in roles.reductions]
        columns = [stage.along(self.definition, name) for name in roles.columns]
        s.reorder(*outside, tiles[0], *reductions, *depth[:2], tiles[1], *columns, depth[2])
        s.unroll(depth[1], tiles[1], *columns)
        s.vectorize(depth[2])

    def _pack_weights(self) -> None:
        """Packs constant weights in the order in which they are read."""
        s, constants = self.s, constant_tensors(self.s.program)
        for read in self.roles.weights:
            if read.tensor not in constants or sum(r.tensor == read.tensor for r in self.roles.weights) > 1:
                continue
            depth = plain_dimension(read, self.roles.depth)
            assert depth is not None
            made = s.copy(read.tensor, self.anchor)
            columns = {plain_dimension(read, name) for name in self.roles.columns}
            inside = [loop for n, loop in enumerate(made.loops) if n in columns]
            rest = [loop for n, loop in enumerate(made.loops) if n not in columns and n != depth]
            pieces = s.split(made.loops[depth], self.lanes)
            s.reorder(*rest, pieces[0], *inside, pieces[1])
            s.vectorize(pieces[1])


def _scheduled(s: Schedule, root: str, anchor: str, parts: NarrowRoles) -> set[str]:
    return _Narrow(s, root, anchor, parts).apply()


NARROW = Rule(
    "narrow",
    matches=finishing(finished_in_any_order(narrow_of), narrow_of),
    apply=scheduling(narrow_of, _scheduled),
)
