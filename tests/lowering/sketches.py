"""Random sketches: any steps, in any combination that the schedule language takes.

A step that does not apply must say so with a ScheduleError; the random template then goes on without it.
"""

from __future__ import annotations

import re
from contextlib import suppress
from random import Random

from tilesmith.common.errors import ProgramError, ScheduleError
from tilesmith.schedules.extents import Extent
from tilesmith.schedules.inlining import can_inline
from tilesmith.schedules.schedule import LoopHandle, Schedule, trace
from tilesmith.schedules.sketch import Sketch
from tilesmith.tensor.program import Program

SIZES = (1, 2, 3, 4, 5, 7, 8)


def random_sketch(program: Program, random: Random) -> Sketch:
    """One sketch, drawn from `random`, for a program in canonical form."""
    (sketch,) = trace(lambda s: _Drawing(s, random).schedule(), program, "random")
    return sketch


class _Drawing:
    def __init__(self, schedule: Schedule, random: Random) -> None:
        self.s = schedule
        self.random = random
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
        if self.coin(0.7):
            self._attach(name)
        if self.coin(0.85):
            self._order(name, [self._split(loop) for loop in self.s.stage(name).loops])
        self._mark(name)
        for tensor in dict.fromkeys(read.tensor for read in self.s.stage(name).definition.reads()):
            if self.coin(0.25):
                scope = self.random.choice(["", "", "stack", "scratch"])
                self.pending.append(self.s.copy(tensor, name, scope).name)

    def _attach(self, name: str) -> None:
        done = [s for s in self.s.tree.stages if s.stage not in (*self.pending, name)]
        loops = [LoopHandle(loop.name, loop.extent) for s in done for loop in s.loops]
        for loop in self.random.sample(loops, min(4, len(loops))):
            with suppress(ScheduleError):
                self.s.compute_at(name, loop)
                return

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
        rest = [list(p[:-1] if p[-1] in tiles else p) for p in pieces]
        order: list[LoopHandle] = []
        while any(rest):
            order.append(self.random.choice([r for r in rest if r]).pop(0))
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
