"""Random sketches: any steps, in any combination that the schedule language takes; and all stages in tiles of the last one.

A step that does not apply must say so with a ScheduleError; the random template then goes on without it.
"""

from __future__ import annotations

import re
from contextlib import suppress
from random import Random

from tilesmith.common.errors import ProgramError, ScheduleError
from tilesmith.schedules.extents import Extent
from tilesmith.schedules.inlining import can_inline
from tilesmith.schedules.loops import Loop, StageLoops
from tilesmith.schedules.schedule import LoopHandle, Schedule, trace
from tilesmith.schedules.sketch import Sketch
from tilesmith.tensor.program import Program

SIZES = (1, 2, 3, 4, 5, 7, 8)


def random_sketch(program: Program, random: Random, lines: bool = False) -> Sketch:
    """One sketch, drawn from `random`, for a program in canonical form.

    `lines`: rows may begin where lines of memory do, which takes trips that the analysis does not count.
    """
    (sketch,) = trace(lambda s: _Drawing(s, random, lines).schedule(), program, "random")
    return sketch


def tiled(program: Program, sizes: tuple[int, ...]) -> Sketch:
    """All other stages in tiles of the last one."""

    def template(s: Schedule) -> None:
        *others, last = [stage.name for stage in s.program.stages]
        pieces = [s.split(loop, size) for loop, size in zip(s.stage(last).loops, sizes, strict=True)]
        s.reorder(*(outer for outer, _ in pieces), *(inner for _, inner in pieces))
        for name in reversed(others):
            s.compute_at(name, pieces[-1][0])

    (sketch,) = trace(template, program, "tiles")
    return sketch


class _Drawing:
    def __init__(self, schedule: Schedule, random: Random, lines: bool) -> None:
        self.s = schedule
        self.random = random
        self.lines = lines
        self.pending: list[str] = []
        self.count = 0

    def coin(self, chance: float) -> bool:
        return self.random.random() < chance

    def schedule(self) -> None:
        """Stages from the outputs back; a copy is scheduled right after the stage that reads it."""
        if self.coin(0.25):
            self._rewrite()
        for stage in self.s.program.stages:
            if can_inline(self.s.program, self.s.program.stage(stage.name)) and self.coin(0.2):
                self.s.inline(stage.name)
        self.pending = [stage.name for stage in self.s.program.stages]
        while self.pending:
            self._stage(self.pending.pop())
        for stage in self.s.tree.stages:
            self._hint(stage)

    def _hint(self, stage: StageLoops) -> None:
        """Hints that change addresses or nothing at all."""
        if stage.copies is not None and self.coin(0.2):
            self.s.pad_layout(stage.stage, self.random.choice([1, 8]))
        if stage.loops and self.coin(0.2):
            definition = self.s.program.stage(stage.stage)
            used = [*(r.tensor for r in definition.reads()), *(t.name for t in definition.tensors)]
            loop = self.random.choice(stage.loops)
            self.s.prefetch(self.random.choice(used), LoopHandle(loop.name, loop.extent), self.random.choice([0, 1, 5]))
        for step in (self.s.streaming, self.s.align):
            if self.coin(0.3):
                step(stage.stage, self.random.choice([0, 1]) if self.lines else 0)
        loops = [LoopHandle(loop.name, loop.extent) for other in self.s.tree.stages for loop in other.loops]
        self._bring(stage.stage, self.random.sample(loops, min(4, len(loops))))

    def _bring(self, name: str, loops: list[LoopHandle]) -> None:
        """Brings near what a stage reads for the next trip of one of these loops, where it runs inside of any."""
        tensors = [read.tensor for read in self.s.program.stage(name).reads()]
        self.random.shuffle(loops)
        for loop in loops if tensors and self.coin(0.5) else ():
            with suppress(ScheduleError):
                self.s.bring(name, self.random.choice(tensors), loop, self.random.choice([0, 1, 1]))
                return

    def _rewrite(self) -> None:
        stage = self.random.choice(self.s.program.stages)
        axes = [axis.name for axis in stage.all_axes] or ["none"]
        axis = self.random.choice(axes)
        first = self.random.randrange(len(axes))
        arguments: dict[str, dict[str, object]] = {
            "split_k": {"stage": stage.name, "axis": axis, "parts": self.random.choice([2, 3, 5])},
            "pad_axis": {"stage": stage.name, "axis": axis, "multiple": self.random.choice([2, 4, 8])},
            "merge_axes": {"stage": stage.name, "axes": axes[first : first + 2]},
            "im2col": {"stage": stage.name, "tensor": self.random.choice([*self.s.program.tensors])},
            "normalise": {},
        }
        name = self.random.choice([*arguments])
        with suppress(ProgramError):
            self.s.rewrite(name, **arguments[name])

    def _stage(self, name: str) -> None:
        if self.s.program.stage(name).fold is not None:
            self._fold(name)
        else:
            self._loops(name)
        for tensor in dict.fromkeys(read.tensor for read in self.s.stage(name).definition.reads()):
            if self.coin(0.25):
                scope = self.random.choice(["", "", "stack", "scratch"])
                self.pending.append(self.s.copy(tensor, name, scope).name)

    def _fold(self, name: str) -> None:
        """A fold keeps the axes that only some of its tensors have innermost."""
        if self.coin(0.6):
            self._attach(name)
        stage = self.s.stage(name)
        common = self._common(name)
        pieces = {loop.name: self._split(loop) for loop in stage.loops}
        outer = [pieces[loop.name] for loop in stage.loops if loop in common]
        inner = [pieces[loop.name] for loop in stage.loops if loop not in common]
        self.s.reorder(*self._interleaved(outer), *self._interleaved(inner))
        last = [p[-1] for p in inner]
        if last and self.coin(0.5) and self._may_be_vector(last[0].extent):
            self.s.vectorize(last.pop(0))
        for loop in last:
            if self.coin(0.5):
                self.s.unroll(loop)
        if self.coin(0.5):
            with suppress(ScheduleError):
                self.s.parallel(self.s.stage(name).loops[0])

    def _common(self, name: str) -> list[LoopHandle]:
        """The loops of a fold over axes that all its tensors have, and over its ordered axis."""
        stage = self.s.stage(name)
        assert stage.definition.fold is not None
        rank = min(len(axes) for axes in stage.definition.fold.tensor_axes)
        return [*stage.axes[:rank], *stage.reduction]

    def _interleaved(self, pieces: list[tuple[LoopHandle, ...]]) -> list[LoopHandle]:
        rest = [list(p) for p in pieces]
        order: list[LoopHandle] = []
        while any(rest):
            order.append(self.random.choice([r for r in rest if r]).pop(0))
        return order

    def _loops(self, name: str) -> None:
        if self.coin(0.7):
            self._attach(name)
        shape = self.random.random()
        if shape < 0.2 and self.s.stage(name).loops:
            self._row(name)
        elif shape < 0.4 and self.s.stage(name).reduction:
            self._register_tile(name)
        else:
            if self.coin(0.85):
                self._order(name, [self._split(loop) for loop in self.s.stage(name).loops])
            self._mark(name)

    def _row(self, name: str) -> None:
        """Vectors along the last axis, and nothing else in between: what may begin at lines."""
        *others, last = self.s.stage(name).loops
        pieces = [self._split(loop) for loop in others]
        row = self.s.split(last, *[2, 3][: self.random.choice([0, 1])], self.random.choice([2, 4, 8]))
        self.s.reorder(*self._interleaved(pieces), *row)
        self.s.vectorize(row[-1])
        if self.coin(0.5):
            self.s.unroll(row[-2])
        if self.lines and self.coin(0.7):
            self.s.align(name)

    def _register_tile(self, name: str) -> None:
        """A reduction around a piece of its own that is written out, around a tile: what spreads hints over its trips."""
        *others, last = self.s.stage(name).loops
        pieces = [self.s.split(loop, self.random.choice([1, 2, 3])) for loop in others]
        tiles = [piece[-1] for piece in pieces]
        depth = self.s.split(last, self.random.choice([1, 2, 3]))
        outer = self._interleaved([piece[:-1] for piece in pieces])
        self.s.reorder(*outer, *depth, *tiles)
        self.s.unroll(depth[-1], *tiles)
        self._bring(name, outer)

    def _attach(self, name: str) -> None:
        done = [s for s in self.s.tree.stages if s.stage not in (*self.pending, name)]
        loops = [LoopHandle(loop.name, loop.extent) for s in done for loop in s.loops if not self._in_step(s, loop)]
        for loop in self.random.sample(loops, min(4, len(loops))):
            with suppress(ScheduleError):
                self.s.compute_at(name, loop)
                return

    def _in_step(self, stage: StageLoops, loop: Loop) -> bool:
        """True for a loop over an axis that only some tensors of a fold have."""
        fold = self.s.program.stage(stage.stage).fold
        return (
            fold is not None
            and any(loop.axis not in axes for axes in fold.tensor_axes)
            and not self._ordered(stage, loop)
        )

    def _ordered(self, stage: StageLoops, loop: Loop) -> bool:
        return any(axis.name == loop.axis for axis in self.s.program.stage(stage.stage).reduction)

    def _split(self, loop: LoopHandle) -> tuple[LoopHandle, ...]:
        if self.coin(0.3):
            return (loop,)
        factors: list[Extent] = []
        vector = self.coin(0.4)  # a last piece that can be one
        for _ in range(self.random.choice([1, 1, 2] if vector else [1, 1, 1, 2, 2, 3])):
            self.count += 1
            kind = self.random.random()
            if kind < 0.15:
                factors.append(self.random.choice(SIZES))
            elif kind < 0.3:
                factors.append(self.s.choice(f"choice{self.count}", [1, 2, 4], 2))
            else:
                factors.append(self.s.factor(f"factor{self.count}", at_most=self.random.choice([3, 8, 40])))
        if vector:
            factors.append(self.random.choice([2, 4, self.s.lanes(self._dtype(loop))]))
        return self.s.split(loop, *factors)

    def _dtype(self, loop: LoopHandle):
        stage = self.s.tree.owner(loop.name).stage
        return self.s.program.stage(stage).tensors[0].dtype

    def _order(self, name: str, pieces: list[tuple[LoopHandle, ...]]) -> None:
        """A random interleaving of the axes; often the innermost pieces stay innermost, as in register tiles."""
        tiles = [p[-1] for p in pieces if len(p) > 1] if self.coin(0.6) else []
        order = self._interleaved([p[:-1] if p[-1] in tiles else p for p in pieces])
        self.random.shuffle(tiles)
        if order or tiles:
            self.s.reorder(*order, *tiles)

    def _mark(self, name: str) -> None:
        loops = list(self.s.tree.by_stage[name].loops)
        steps = [
            (0.5, self.s.vectorize, loops[::-1]),
            (0.4, self.s.unroll, loops[::-1]),
            (0.3, self.s.unroll, loops[::-1]),
            (0.4, self.s.parallel, loops),
        ]
        for chance, step, wanted in steps:
            if not self.coin(chance):
                continue
            for loop in wanted[: self.random.choice([1, 2, 3])]:
                if step == self.s.vectorize and not self._may_be_vector(loop.extent):
                    continue
                with suppress(ScheduleError):
                    step(LoopHandle(loop.name, loop.extent))
                    if step == self.s.vectorize:
                        break

    def _may_be_vector(self, extent) -> bool:
        """Whether the number of trips is a power of two for all configs."""
        return re.fullmatch(r"2|4|8|lanes\(\w+\)|choice\d+", str(extent)) is not None
