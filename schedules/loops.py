"""Loop trees: what a sketch is once its steps have run. Frozen; extents in any of their four lives.

    LoopTree      the program (rewritten, with copy stages) and, for each stage, its loops and where they stand
    StageLoops    the loops of one stage, outermost first; `at` = the loop of another stage inside which they run
    Loop          a piece of an axis: (axis, extent, stride): at trip v it covers points v * stride .. of the axis

The pieces of one axis, outermost first, tile it: extent[i] * stride[i] == stride[i - 1]. A *full* piece (`is_full`) runs all
its trips in the code and is masked at the edge; any other piece is clamped: the pieces from the outermost down to l run
together exactly ceil(axis / stride of l) times.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from ..common.cached import cached_property
from ..common.errors import ScheduleError
from ..tensor.program import Axis, Program, Stage
from .extents import Condition, Extent
from .hints import NOTHING, Hint, Hints


class LoopKind(StrEnum):
    """Says how the trips of a loop are run; the meaning of each stands at the top of codegen/ir/loop_ir.py."""

    SERIAL = "serial"
    UNROLL = "unroll"
    VECTOR = "vector"
    PARALLEL = "parallel"
    BLOCK = "block"
    WARP = "warp"
    THREAD = "thread"


class Scope(StrEnum):
    """Says where a buffer lives and who sees it."""

    INPUT = "input"  # argument, read only, given at each call
    CONSTANT = "constant"  # argument of the prepare nests only
    HELD = "held"  # a constant that calls read where it is
    OUTPUT = "output"  # argument, written; read only by code that wrote it before
    PREPARED = "prepared"  # written by prepare nests, read by the others; lives as long as the kernel
    WORKSPACE = "workspace"  # one for each call, seen by all threads
    SCRATCH = "scratch"  # one for each thread of a call; large
    STACK = "stack"  # one for each thread; small (at most a few tens of KiB)
    REGISTER = "register"  # values, never memory
    SHARED = "shared"  # GPU: one for each block
    TILE = "tile"  # registers of a matrix unit
    TABLE = "table"  # constants in the code


@dataclass(frozen=True, slots=True, eq=False)
class Loop:
    """A piece of an axis of one stage. `name` is unique in the tree; `step` is the step that made it (-1: the axis itself)."""

    name: str
    axis: str
    extent: Extent
    stride: Extent
    kind: LoopKind = LoopKind.SERIAL
    step: int = -1
    dimension: int = 0  # of BLOCK and THREAD loops: which index

    @property
    def runs_once(self) -> bool:
        """Says whether it has the one trip that splitting an axis by its own extent leaves. Of a population not where some
        candidates alone have one trip."""
        return isinstance(self.extent, int) and self.extent == 1


@dataclass(frozen=True, slots=True, eq=False)
class StageLoops:
    """The loops of one stage and where they stand.

    `box`: for each axis, how many points of it one instance of these loops covers at most (the axis extent at the root).
    `tiled`: storage order is the order of the loops (copies), else the order of the axes.
    `stored`: the loop right outside of `at` in which the storage lives on from trip to trip; each trip computes what is new.
    `first_use`: a loop of its reader inside of `at` in whose trips it runs, each bit in the first of them that reads it.
    """

    stage: str
    loops: tuple[Loop, ...]
    box: dict[str, Extent]
    at: tuple[str, str] | None = None
    stored: str | None = None
    scope: Scope | None = None
    copies: str | None = None
    tiled: bool = False
    tensorized: str | None = None
    hints: Hints = NOTHING
    first_use: str | None = None

    def loop(self, name: str) -> Loop:
        """The loop of this name. Raises KeyError."""
        for loop in self.loops:
            if loop.name == name:
                return loop
        raise KeyError(name)

    def position(self, name: str) -> int:
        """Says how many loops stand outside of this one. Raises KeyError."""
        for index, loop in enumerate(self.loops):
            if loop.name == name:
                return index
        raise KeyError(name)

    def pieces(self, axis: str) -> tuple[Loop, ...]:
        """The pieces of an axis, outermost first (which is also their order in the nest)."""
        return tuple(loop for loop in self.loops if loop.axis == axis)

    def with_loops(self, loops: tuple[Loop, ...]) -> StageLoops:
        """The same stage with other loops. Most steps make one: `replace` takes twice as long."""
        return StageLoops(
            self.stage, loops, self.box, self.at, self.stored, self.scope, self.copies, self.tiled, self.tensorized,
            self.hints, self.first_use,
        )  # fmt: skip

    def saying(self, hint: Hint) -> StageLoops:
        """The same loops with one more hint."""
        return replace(self, hints=self.hints.saying(hint))


@dataclass(frozen=True, eq=False)
class LoopTree:
    """All stages with their loops. `conditions`: (holds, reason) that a valid config keeps; numbers as in the extents.

    `boxes`: what regions.py has found of the boxes of stages at loops, which is asked again and again. It holds for all trees
    of one program whose stages stand at the same places, so these share it.
    """

    program: Program
    stages: tuple[StageLoops, ...]
    conditions: tuple[tuple[Condition, str], ...] = ()
    boxes: dict[tuple[str, tuple[str, str]], Any] = field(default_factory=dict, repr=False)

    @cached_property
    def places(self) -> dict[str, int]:
        """Stage name -> its place among the stages."""
        return {s.stage: place for place, s in enumerate(self.stages)}

    @cached_property
    def by_stage(self) -> dict[str, StageLoops]:
        """Stage name -> its loops."""
        return {s.stage: s for s in self.stages}

    @cached_property
    def attached(self) -> dict[tuple[str, str], tuple[str, ...]]:
        """(stage, loop) -> the stages that run inside of that loop, in program order."""
        found: dict[tuple[str, str], list[str]] = {}
        for s in self.stages:
            if s.at is not None:
                found.setdefault(s.at, []).append(s.stage)
        return {at: tuple(stages) for at, stages in found.items()}

    @cached_property
    def used_first(self) -> dict[tuple[str, str], tuple[str, ...]]:
        """(stage, loop) -> the stages that run in that loop bit by bit, in program order."""
        found: dict[tuple[str, str], list[str]] = {}
        for s in self.stages:
            if s.at is not None and s.first_use is not None:
                found.setdefault((s.at[0], s.first_use), []).append(s.stage)
        return {at: tuple(stages) for at, stages in found.items()}

    def loops_of_use(self, stage: StageLoops) -> tuple[Loop, ...]:
        """The loops of its reader, inside of the one that a stage is attached to, in which it runs on first use; none where it
        runs before them."""
        if stage.at is None or stage.first_use is None:
            return ()
        outer = self.by_stage[stage.at[0]]
        return outer.loops[outer.position(stage.at[1]) + 1 : outer.position(stage.first_use) + 1]

    def loops_of(self, stage: str) -> StageLoops:
        """The loops of a stage; ScheduleError for an unknown one."""
        try:
            return self.by_stage[stage]
        except KeyError:
            raise ScheduleError(
                f"there is no stage {stage!r}", expected="one of " + ", ".join(self.by_stage), found=repr(stage)
            ) from None

    def definition(self, stage: str) -> Stage:
        """The stage of the program behind the loops."""
        return self.program.stage(stage)

    def owner(self, loop: str) -> StageLoops:
        """The stage that has a loop of this name; ScheduleError for an unknown one."""
        found = self.by_stage.get(loop.partition(".")[0])  # a loop is named after its stage, whose name has no dot
        if found is None or all(candidate.name != loop for candidate in found.loops):
            raise ScheduleError(f"there is no loop {loop!r}")
        return found

    def replacing(self, changed: StageLoops) -> LoopTree:
        """The tree with the loops of one stage replaced."""
        place = self.places[changed.stage]
        stages = (*self.stages[:place], changed, *self.stages[place + 1 :])
        moved = changed.at != self.stages[place].at
        made = LoopTree(self.program, stages, self.conditions, dict(self.boxes) if moved else self.boxes)
        made._knows(self.places, {**self.by_stage, changed.stage: changed}, None if moved else self.attached)
        return made

    def requiring(self, holds: Condition, reason: str) -> LoopTree:
        """The tree with one more condition."""
        made = LoopTree(self.program, self.stages, (*self.conditions, (holds, reason)), self.boxes)
        made._knows(self.places, self.by_stage, self.attached)
        return made

    def with_numbers(self, stages: tuple[StageLoops, ...], conditions: tuple[tuple[Condition, str], ...]) -> LoopTree:
        """The tree with other extents: the same stages, loops and conditions in the same order."""
        made = LoopTree(self.program, stages, conditions, self.boxes)
        made._knows(self.places, None, self.attached)
        return made

    def _knows(
        self,
        places: dict[str, int],
        by_stage: dict[str, StageLoops] | None,
        attached: dict[tuple[str, str], tuple[str, ...]] | None,
    ) -> None:
        """Takes over what the tree that this one was made of knows: a tree of a thousand stages is not walked at each step."""
        known = {"places": places, "by_stage": by_stage, "attached": attached}
        self.__dict__.update((name, value) for name, value in known.items() if value is not None)

    def chain(self, stage: str) -> Iterator[tuple[StageLoops, int]]:
        """Goes from a stage outwards: (stage, how many of its loops stand around), ending with the root."""
        current = self.by_stage[stage]
        while current.at is not None:
            outer = self.by_stage[current.at[0]]
            yield outer, outer.position(current.at[1]) + 1
            current = outer


def is_reduction(tree: LoopTree, stage: str, axis: str) -> bool:
    """True for a reduction axis of a stage."""
    return any(a.name == axis for a in tree.definition(stage).reduction)


WRITTEN_OUT = (LoopKind.UNROLL, LoopKind.VECTOR)  # all their trips stand in the code
_AT_ONCE = (*WRITTEN_OUT, LoopKind.THREAD, LoopKind.WARP)


def is_full(tree: LoopTree, stage: StageLoops, loop: Loop) -> bool:
    """True for a piece that runs all its trips in the code and is masked at the edge.

    Spatial pieces: unrolled and vectorized ones. Reduction pieces: vectorized ones, and unrolled ones of an axis that is also
    vectorized (they are accumulators of their own); any other unrolled reduction piece is shortened at the tail instead.
    An unrolled piece around a clamped piece of its axis is clamped too. Loops over the threads of a GPU count like unrolled
    ones, as long as no stage runs inside of them.
    """
    if loop.kind is LoopKind.VECTOR:
        return True
    if loop.kind not in _AT_ONCE:
        return False
    pieces = stage.pieces(loop.axis)
    inside = pieces[[p.name for p in pieces].index(loop.name) :]
    if any(piece.kind not in _AT_ONCE for piece in inside):
        return False
    if any(piece.kind not in WRITTEN_OUT and _holds_stages(tree, stage, piece) for piece in inside):
        return False
    return not is_reduction(tree, stage.stage, loop.axis) or inside[-1].kind is not LoopKind.UNROLL


def _holds_stages(tree: LoopTree, stage: StageLoops, loop: Loop) -> bool:
    """Says whether a stage runs inside of a loop."""
    inside = stage.loops[stage.position(loop.name) :]
    return any((stage.stage, x.name) in tree.attached for x in inside)


def _first_order(stage: Stage) -> tuple[Axis, ...]:
    """Spatial axes outermost; the ordered axis of a fold stands right inside of the axes that all its tensors keep."""
    if stage.fold is None:
        return stage.all_axes
    common = min(len(kept) for kept in stage.fold.tensor_axes)
    return (*stage.axes[:common], *stage.reduction, *stage.axes[common:])


def initial_tree(program: Program, extent: dict[tuple[str, str], Extent] | None = None) -> LoopTree:
    """The unscheduled nests: every stage at the root, one serial loop an axis, spatial axes outermost.

    `extent`: what to use for an axis (stage, axis) instead of its number, while a template is traced.
    """
    stages = []
    for stage in program.stages:
        sizes: dict[str, Extent] = {
            a.name: a.extent if extent is None else extent[stage.name, a.name] for a in stage.all_axes
        }
        loops = tuple(Loop(f"{stage.name}.{a.name}", a.name, sizes[a.name], 1) for a in _first_order(stage))
        stages.append(StageLoops(stage.name, loops, sizes))
    return LoopTree(program, tuple(stages))
