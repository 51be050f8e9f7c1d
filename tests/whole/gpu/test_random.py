"""Random programs with random GPU schedules: what lowers computes what the oracle says; what does not is a ScheduleError."""

from __future__ import annotations

from random import Random

import pytest

from helpers.gpu.candidates import EMULATORS
from helpers.gpu.running import agrees_with_the_oracle
from helpers.lowering.programs import MAKERS, random_program
from helpers.lowering.truth import exact_inputs
from tilesmith.codegen.artifact import Artifact
from tilesmith.codegen.pipeline import build
from tilesmith.common.errors import ScheduleError, TemplateError
from tilesmith.schedules.loops import is_reduction
from tilesmith.schedules.schedule import LoopHandle, Schedule, StageHandle, trace
from tilesmith.schedules.task import normalised
from tilesmith.targets.target import Target, parse_target
from tilesmith.tensor.program import Program

ATTEMPTS = 400


class Drawn:
    """A template that binds at random."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def __call__(self, s: Schedule) -> None:
        for name in reversed([stage.name for stage in s.program.stages]):
            attached = self._attach(s, name)
            stage = s.stage(name)
            if stage.definition.fold is None:
                self._bind(s, self._cut(s, stage), attached)
            elif not attached and self.random.random() < 0.7:
                self._try(lambda loop=stage.loops[0]: s.bind("block", 0, loop))

    def _attach(self, s: Schedule, name: str) -> bool:
        loops = [loop for other in s.program.stages if other.name != name for loop in s.stage(other.name).loops]
        if self.random.random() < 0.5:
            self.random.shuffle(loops)
            return any(self._try(lambda loop=loop: s.compute_at(name, loop)) for loop in loops[:6])
        return False

    def _cut(self, s: Schedule, stage: StageHandle) -> list[LoopHandle]:
        """Pieces of all axes, in some order."""
        queues = []
        for loop in stage.loops:
            factors = [self.random.choice([1, 2, 3, 4]) for _ in range(self.random.choice([0, 1, 1, 2]))]
            queues.append(list(s.split(loop, *factors)) if factors else [loop])
        order: list[LoopHandle] = []
        while any(queues):
            order.append(self.random.choice([queue for queue in queues if queue]).pop(0))
        if order:
            s.reorder(*order)
        return order

    def _bind(self, s: Schedule, loops: list[LoopHandle], attached: bool) -> None:
        outer = not attached
        for loop in loops:
            owner = s.tree.owner(loop.name)
            outer = (
                outer
                and not is_reduction(s.tree, owner.stage, owner.loop(loop.name).axis)
                and self.random.random() < 0.6
            )
            kind, dimension = self.random.random(), self.random.choice([0, 0, 1])
            if outer:
                self._try(lambda loop=loop: s.bind("block", 0, loop))
            elif kind < 0.5:
                level = "thread" if kind < 0.4 else "warp"
                self._try(lambda loop=loop, level=level, d=dimension: s.bind(level, d, loop))
            elif kind < 0.75:
                self._try(lambda loop=loop, how=s.unroll if kind < 0.65 else s.vectorize: how(loop))

    def _try(self, step: object) -> bool:
        try:
            step()  # type: ignore[operator]
        except ScheduleError:
            return False
        return True


def drawn(seed: int, target: Target) -> tuple[Program, Artifact]:
    """A program and a candidate of it that lowers."""
    random = Random(seed)
    program = normalised(random_program(random, sorted(MAKERS)[seed % len(MAKERS)]))
    for _ in range(ATTEMPTS):
        try:
            sketch = trace(Drawn(random), program, "drawn")[0]
            return program, build(program, sketch, {}, target, 1)
        except (ScheduleError, TemplateError):
            continue
    raise AssertionError(f"{ATTEMPTS} random schedules, and none lowers")


@pytest.mark.parametrize("seed", [*range(8), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(8, 120))])
@pytest.mark.parametrize("target", EMULATORS)
def test_what_lowers_is_right(seed: int, target: str) -> None:
    program, artifact = drawn(seed, parse_target(target))
    agrees_with_the_oracle(program, artifact, exact_inputs(program, seed), 16)
