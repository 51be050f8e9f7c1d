"""What a program costs before any code is made for it grows with its stages, not with their square.

Nothing is timed: what is counted is how many functions of Python are entered, those of generators at each value.
"""

from __future__ import annotations

import cProfile
from collections.abc import Callable

import numpy as np
import pytest

from tilesmith.codegen.pipeline import loop_program
from tilesmith.schedules.rules import inline as rules_inline
from tilesmith.schedules.space import Population
from tilesmith.schedules.task import Task
from tilesmith.targets.ceilings import default_ceilings
from tilesmith.targets.target import parse_target
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.canonical import family_key
from tilesmith.tensor.text.parse import parse
from tilesmith.tuner.task_space import TaskSpace

CPU = parse_target("x86:avx512")
TWICE = 2.3  # what twice as many stages may cost: sorting and the like are a little more than linear


def chain(stages: int) -> str:
    """Each stage reads the one before it."""
    lines = [f"s{n}[i: 640] = s{n - 1}[i] * f32(1.0{n % 7}) + f32({n % 9 + 1})" for n in range(1, stages)]
    return "\n".join(["input x: f32[640]", "s0[i: 640] = x[i] + f32(1)", *lines, f"return s{stages - 1}"])


def planes(stages: int) -> str:
    """A chain over two axes, which are merged in all stages at once."""
    return (
        chain(stages).replace("f32[640]", "f32[40, 16]").replace("[i: 640]", "[i: 40, j: 16]").replace("[i]", "[i, j]")
    )


def diamonds(stages: int) -> str:
    """Each stage reads the two before it."""
    lines = [f"s{n}[i: 640] = s{n - 1}[i] * f32(1.0{n % 7}) + s{n - 2}[i]" for n in range(2, stages)]
    first = ["input x: f32[640]", "s0[i: 640] = x[i] + f32(1)", "s1[i: 640] = s0[i] * x[i]"]
    return "\n".join([*first, *lines, f"return s{stages - 1}"])


def rows(stages: int) -> str:
    """Rows are divided by the root of their mean square, again and again: sums along a row, and points of it, in turn."""
    lines, last = ["input x: bf16[8, 48]"], "x"
    for n in range(stages // 3):
        lines.append(f"m{n}[i: 8] = sum[j: 48]({last}[i, j] * {last}[i, j])")
        lines.append(f"r{n}[i: 8] = rsqrt(m{n}[i] * bf16(0.02))")
        lines.append(f"y{n}[i: 8, j: 48] = {last}[i, j] * r{n}[i]")
        last = f"y{n}"
    return "\n".join([*lines, f"return {last}"])


def entered(run: Callable[[], object]) -> int:
    """How many functions of Python are entered while something runs."""
    profile = cProfile.Profile(subcalls=False, builtins=False)
    profile.runcall(run)
    return sum(function.callcount for function in profile.getstats())


def prepared(program: Program) -> None:
    """All that is found out about a task before a candidate is chosen, and the loop IR of one."""
    task = Task.of(program, CPU, 2)
    assert task.key and family_key(task.program)
    space = TaskSpace(task, default_ceilings(CPU, 2))
    sketch = len(space.config_spaces) - 1
    drawn = Population(sketch, np.array([space.config_spaces[sketch].default], dtype=np.int32))
    assert space.valid(drawn).shape == space.prior(drawn).shape
    loop_program(task.program, task.sketches[sketch], space.config(drawn.candidate(0)), CPU)


@pytest.mark.parametrize(("text", "stages"), [(chain, 150), (planes, 150), (diamonds, 150), (rows, 60)])
def test_work_grows_with_the_stages(text: Callable[[int], str], stages: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, most in (("NODES", 256), ("DEPTH", 32), ("REPEATED", 48)):  # bodies are full after fewer stages
        monkeypatch.setattr(rules_inline, name, most, raising=False)
    prepared(parse(text(20)))  # what is imported and remembered for all programs is there now
    few, many = (entered(lambda n=n: prepared(parse(text(n)))) for n in (stages, 2 * stages))  # type: ignore[misc]
    assert many < TWICE * few


def test_programs_of_many_stages_have_fewer_sketches() -> None:
    """Each exponential may be written where it is read, or not: a choice for each, and each sketch walks all of them."""

    def sketches(layers: int) -> int:
        lines, last = ["input x: f32[8, 48]"], "x"
        for n in range(layers):
            lines.append(f"e{n}[i: 8, j: 48] = exp({last}[i, j])")
            lines.append(f"d{n}[i: 8] = sum[j: 48](e{n}[i, j])")
            lines.append(f"y{n}[i: 8, j: 48] = e{n}[i, j] / d{n}[i]")
            last = f"y{n}"
        return len(Task.of(parse("\n".join([*lines, f"return {last}"])), CPU, 2).sketches)

    few, many = sketches(16), sketches(80)
    assert few > 24
    assert many * 80 < 2 * few * 16
