"""What a program costs before any code is made for it grows with its stages, not with their square.

Nothing is timed: what is counted is how many functions of Python are entered, those of generators at each value.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

import pytest

from tilesmith.schedules.task import Task
from tilesmith.targets.ceilings import default_ceilings
from tilesmith.targets.target import parse_target
from tilesmith.tensor.program import Program
from tilesmith.tensor.text import family_key, parse
from tilesmith.tuner.task_space import TaskSpace

CPU = parse_target("x86:avx512")
TWICE = 2.3  # what twice as many stages may cost: sorting and the like are a little more than linear


def chain(stages: int) -> str:
    """Each stage reads the one before it."""
    lines = [f"s{n}[i: 640] = s{n - 1}[i] * f32(1.0{n % 7}) + f32({n % 9 + 1})" for n in range(1, stages)]
    return "\n".join(["input x: f32[640]", "s0[i: 640] = x[i] + f32(1)", *lines, f"return s{stages - 1}"])


def entered(run: Callable[[], object]) -> int:
    """How many functions of Python are entered while something runs."""
    count = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return count


def prepared(program: Program) -> None:
    """All that is known of a task before a candidate is chosen, and the loop tree of one."""
    task = Task.of(program, CPU, 2)
    assert task.key and family_key(task.program)
    space = TaskSpace(task, default_ceilings(CPU, 2))
    config = {p.name: p.values[p.default] for p in space.arms[-1].parameters}
    task.sketches[-1].apply(task.body, CPU, config)
    task.sketches[-1].opened(task.body, CPU)


@pytest.mark.parametrize("text", [chain])
def test_work_grows_with_the_stages(text: Callable[[int], str]) -> None:
    prepared(parse(text(20)))  # what is imported and remembered for all programs is there now
    few, many = (entered(lambda n=n: prepared(parse(text(n)))) for n in (250, 500))  # type: ignore[misc]
    assert many < TWICE * few
