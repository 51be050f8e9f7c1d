"""The overlap rule: stages that read one another a few points apart run tile by tile of the last of them.

    t1[i, j] = t0[i, j] + t0[i + 1, j] + ...        t2[i, j] = sum[r](t1[i + r, j])        stencils, filters, image pipelines

Without it, each stage is a pass over memory, or is computed again wherever it is read. Here a tile of the last stage is
computed from tiles of the others, which have a border around and stay in a near cache (overlapped tiling: Ragan-Kelley
et al. 2013). Each stage goes through a tile by small blocks of rows and vectors, which are written out: a number that
several of their points read is loaded once.

    loops    others, blocks of rows, blocks of columns, [members], blocks, window, rows, vectors, lanes
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from math import prod

from ....tensor.indices.members import member_axes
from ....tensor.program import Program, Stage
from ...access import operations_of, output_stride
from ...boxes import identity_forms
from ...extents import ceildiv
from ...prepared import constant_tensors
from ...schedule import LoopHandle, Schedule, StageHandle
from ..rule import Decided, Rule
from ..tile_groups import WHOLE_AT_MOST, TileGroup, readers_of, tile_group, worth_keeping
from .slide import slide_of, window_loops
from .stream import loops_by_axis, perhaps_streaming

APART, TILES, SLIDING = "apart", "tiles", "sliding"
HALO = 16  # points that the border of a member has along one axis, both sides together, at most
FAR = 64  # the same where the root does so much more than all members that a border costs little
MUCH = 4  # times as much
ROWS_AT_MOST = 8
VECTORS_AT_MOST = 4
HELD_AT_MOST = 4  # members whose values for a block are in registers
TERMS_AT_MOST = 512  # in the code of one block


@dataclass(frozen=True, slots=True)
class Overlapped:
    """The roots of the groups that run by tiles: noted down where it was chosen."""

    roots: frozenset[str]
    sliding: bool  # members slide along the rows of a tile: each row is computed once


def _prepare(s: Schedule, decided: Decided) -> Decided:
    """Decides whether groups run by tiles, and how. What is read a few points apart stays a stage then."""
    groups = groups_of(s.program, decided.taken | decided.alone | decided.nests)
    how = s.variant("stages", [APART, TILES, SLIDING]) if groups else APART
    if how == APART:
        return decided
    kept = frozenset[str]().union(*(worth_keeping(s.program, group) for group in groups))
    return decided.keeping(kept).noting(Overlapped(frozenset(group.root for group in groups), how == SLIDING))


def groups_of(program: Program, without: Collection[str]) -> list[TileGroup]:
    """Returns the groups of a program that are worth tiles of their own, last ones first. `without`: stages to leave out."""
    found: list[TileGroup] = []
    taken = set(without)
    for stage in reversed(program.stages):
        group = None if stage.name in taken else _group_of(program, stage, taken)
        if group is None:
            continue
        taken |= {group.root, *group.members}
        if group.has_halo and _is_more_than_a_slide(program, group):
            found.append(group)
    return found


def _group_of(program: Program, root: Stage, taken: Collection[str]) -> TileGroup | None:
    taken = frozenset(taken) | constant_tensors(program)  # what is computed once belongs to no tile
    group = tile_group(program, root, taken, FAR)
    if group is None or max(map(group.halo, (axis.name for axis in root.axes)), default=0) <= HALO:
        return group
    members = sum(_work(program.stage(name)) for name in group.members)
    return group if _work(root) >= MUCH * members else tile_group(program, root, taken, HALO)


def _work(stage: Stage) -> int:
    """Returns the operations of one point."""
    return operations_of(stage) * prod(axis.extent for axis in stage.reduction)


def _is_more_than_a_slide(program: Program, group: TileGroup) -> bool:
    """Says whether some member is more than the data of one sliding window, which runs in pieces anyway (slide.py)."""
    kept = worth_keeping(program, group)
    for name in group.members:
        readers = program.consumers[name]
        if program.stage(name).combiner is not None:
            if any(reader.combiner is not None for reader in readers):
                return True
        elif name in kept and (len(readers) > 1 or slide_of(program, readers[0]) is None):
            return True
    return False


def _matches(program: Program, stage: Stage, decided: Decided) -> str | None:
    chosen = decided.fact(Overlapped)
    if chosen is None or stage.name not in chosen.roots:
        return None
    group = _group_of(program, stage, decided.taken | decided.nests)
    return stage.name if group is not None and group.has_halo else None


def _apply(s: Schedule, root: str, anchor: str, decided: Decided) -> set[str]:
    group = _group_of(s.program, s.program.stage(root), decided.taken | decided.nests)
    chosen = decided.fact(Overlapped)
    assert group is not None and chosen is not None
    return _Tiles(s, group, chosen.sliding).apply()


class _Tiles:
    """The tunables of a group and the steps that schedule it."""

    def __init__(self, s: Schedule, group: TileGroup, sliding: bool) -> None:
        self.s, self.group, self.sliding = s, group, sliding
        stages = [s.program.stage(name) for name in (group.root, *group.members)]
        self.shared = self._shared(stages[0])
        self.held = self._held(stages)
        self.moving = {group.root, *self.held}  # stages that run block of rows by block of rows
        self.rows = s.factor(f"{group.root}.rows", ROWS_AT_MOST, default=4)
        self.vectors = s.factor(f"{group.root}.vectors", VECTORS_AT_MOST, default=2)
        block = self.rows * self.vectors
        if any(stage.reduction for stage in stages):
            together = sum(self._sums(stage) for stage in stages if stage.name in self.held) or self._sums(stages[0])
            together += bool(self.shared)  # what the sums along a short axis share is held meanwhile
            s.require(
                together * block + 2 <= s.target("vector_registers"), "the sums of a block fit in the vector registers"
            )
        terms = max(
            prod(a.extent for a in stage.reduction) if stage.reduction else operations_of(stage) for stage in stages
        )
        s.require(block * terms <= TERMS_AT_MOST, "a block whose window is written out stays short code")

    def apply(self) -> set[str]:
        """Takes all steps; returns the stages taken."""
        s, root = self.s, self.group.root
        stage = s.stage(root)
        loops = loops_by_axis(stage)
        axes = [a for a in stage.definition.axes if a.extent > 1]
        vector = next((a.name for a in reversed(axes) if output_stride(stage.definition, a.name) == 1), axes[-1].name)
        others = [a.name for a in axes if a.name != vector]
        outer, inside, block = [], [], []
        again = [name for name in others if self.group.members and not self.group.moves(name)]
        again += [name for name in self.shared if name not in again]
        others = [name for name in others if name not in again]
        for name in others:
            tiles, rest = self._tile(name, loops[name], last=name == others[-1])
            outer.append(tiles)
            inside += rest[:1]
            block += rest[1:]
        lanes = s.lanes(stage.definition.tensors[0].dtype)
        width = s.factor(f"{root}.columns", ceildiv(loops[vector].extent, lanes), at_most=1024, default=16)
        columns = s.split(loops[vector], width, self.vectors, lanes)
        window = window_loops(s, stage, stage.definition)
        ones = [loops[a.name] for a in stage.definition.axes if a.extent == 1]
        apart = [loops[name] for name in again]
        s.reorder(*ones, *outer, columns[0], *inside, columns[1], *apart, *window, *block, *columns[2:])
        s.parallel(*ones, *outer, columns[0])
        s.unroll(*(loops[name] for name in self.shared), *window[1::2], *block, columns[2])
        s.vectorize(columns[3])
        perhaps_streaming(s, stage)
        for name in self.group.members:
            if name in self.held:
                self._hold(s.compute_at(name, columns[1]))
            else:
                self._attach(name, columns[0], inside[0] if inside and self.sliding else None)
        return {root, *self.group.members}

    def _tile(self, axis: str, loop: LoopHandle, last: bool) -> tuple[LoopHandle, list[LoopHandle]]:
        """Cuts an axis of the root in tiles; returns the loop over tiles and those inside: blocks, and the rows of one."""
        s = self.s
        if not self.group.halo(axis) and not last:
            return loop, []
        size = s.factor(f"{self.group.root}.{axis}.tile", loop.extent, at_most=256, default=8)
        pieces = s.split(loop, size, self.rows) if last else s.split(loop, size)
        return pieces[0], list(pieces[1:])

    def _shared(self, root: Stage) -> list[str]:
        """Returns the short axes of the root along which some members do not move: these are computed once for all points. So
        do those that count the members of joined reductions."""
        *others, _ = [a for a in root.axes if a.extent > 1]
        short = [a.name for a in others if a.extent <= WHOLE_AT_MOST and not self.group.halo(a.name)]
        return [name for name in short if self.group.is_shared(name) or name in member_axes(root)]

    def _sums(self, stage: Stage) -> int:
        """Returns how many points of a stage belong to one point of the root's other axes: those along its short ones."""
        forms = identity_forms(stage) if stage.name == self.group.root else self.group.forms[stage.name]
        moved = {axis for box in forms.values() for axis, _ in box.terms}
        return prod(
            a.extent for a in self.s.program.stage(self.group.root).axes if a.name in moved.intersection(self.shared)
        )

    def _held(self, stages: list[Stage]) -> frozenset[str]:
        """Returns the members that readers in the same block finish, point by point: they are values in registers."""
        root, *members = stages
        held = {root.name}
        for stage in members:
            readers = {reader.name for reader in readers_of(self.s.program, stage)}
            alike = [a.name for a in stage.axes if a.extent > 1] and self.group.same_points(stage)
            if alike and readers <= held and len(stage.tensors) == 1 and len(held) <= HELD_AT_MOST:
                held.add(stage.name)
        return frozenset(held - {root.name})

    def _hold(self, stage: StageHandle) -> None:
        """Computes a member for one block of the root."""
        s, loops = self.s, loops_by_axis(stage)
        *others, last = [a.name for a in stage.definition.axes if a.extent > 1]
        pieces = s.split(loops[last], s.lanes(stage.definition.tensors[0].dtype))
        window = window_loops(s, stage, stage.definition)
        rows = [loops[name] for name in others]
        s.reorder(*window, *rows, *pieces)
        s.unroll(*window[1::2], *rows, pieces[0])
        s.vectorize(pieces[1])

    def _attach(self, name: str, tile: LoopHandle, rows: LoopHandle | None) -> None:
        """Runs a member at a tile, or, where it slides, the rows of it that are new at each block of rows."""
        s = self.s
        if rows is None or not self._slides(s.program.stage(name), rows):
            self._member(s.compute_at(name, tile))
            return
        self.moving.add(name)
        s.compute_at(name, rows)
        s.store_at(name, tile)
        self._member(s.stage(name))

    def _slides(self, stage: Stage, rows: LoopHandle) -> bool:
        """Tells whether a member slides along blocks of rows: its readers do, and each block needs rows of it again."""
        s = self.s
        readers = {reader.name for reader in readers_of(s.program, stage)}
        axis = s.tree.owner(rows.name).loop(rows.name).axis
        return readers <= self.moving and self.group.slides(stage, axis)

    def _member(self, stage: StageHandle) -> None:
        """Runs a member in its piece of a tile, by blocks of rows and vectors."""
        s, loops = self.s, loops_by_axis(stage)
        axes = [a.name for a in stage.definition.axes if a.extent > 1]
        joined = [name for name in member_axes(stage.definition) if name != axes[-1]]
        axes = [name for name in axes if name not in joined]
        if not axes:
            return
        pieces = s.split(loops[axes[-1]], self.vectors, s.lanes(stage.definition.tensors[0].dtype))
        window = window_loops(s, stage, stage.definition)
        outer = [loops[a.name] for a in stage.definition.axes if a.name not in (*axes[-2:], *joined)]
        together = [loops[name] for name in joined]
        rows = s.split(loops[axes[-2]], self.rows) if len(axes) > 1 else ()
        s.reorder(*outer, *rows[:1], pieces[0], *window, *rows[1:], *together, *pieces[1:])
        s.unroll(*window[1::2], *rows[1:], *together, pieces[1])
        s.vectorize(pieces[2])


OVERLAP = Rule("overlap", _prepare, _matches, _apply)
