"""What is lowered, and what passes make of it, keeps the invariants of loop IR."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.pipeline.candidates import random_config
from helpers.pipeline.drawn import drawn_program
from tilesmith.codegen.ir.parsing import parse_loops
from tilesmith.codegen.ir.verify import faults
from tilesmith.codegen.lower.lower import planned
from tilesmith.codegen.pipeline import loop_program, steps_of
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor.ops import OPERATORS
from tilesmith.tensor.ops.catalogue import example
from tilesmith.tensor.text.parse import parse


def check(task: Task, rng: np.random.Generator) -> int:
    """A random candidate of a task after each of its passes."""
    sketch = task.sketches[int(rng.integers(len(task.sketches)))]
    values = random_config(task, sketch, rng)
    if values is None:
        return 0
    steps = steps_of(task.target)
    tree = sketch.apply(task.body, task.target, values)
    loops = [steps.lower(tree, task.target, "kernel", planned(tree, task.target))]
    for one in steps.nest:
        loops.append(one(loops[-1]))
    for program in loops:
        found = faults(program)
        assert not found, str(found[0])
    return 1


TARGETS = ("x86:avx512", "x86:avx512+amx", "x86:sse2", "cuda:sm_90a", "cuda:sm_75")


@pytest.mark.parametrize("target", TARGETS)
def test_random_candidates_of_operators_have_no_fault(target: str) -> None:
    rng, machine = np.random.default_rng(0), parse_target(target)
    names = sorted(OPERATORS)
    assert sum(check(Task.of(example(name), machine, 2), rng) for name in names[:: len(names) // 24]) > 12


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_random_candidates_of_drawn_programs_have_no_fault(target: str) -> None:
    rng, machine = np.random.default_rng(1), parse_target(target)
    assert sum(check(Task.of(drawn_program(seed), machine, 2), rng) for seed in range(800)) > 500


@pytest.mark.parametrize("index", ["min(max(k[q], 0), 7)", "q // 2", "q % 8", "q // 2 * 2 + 1"])
@pytest.mark.parametrize("target", TARGETS)
def test_what_is_gathered_and_read_across_its_vectors_is_no_square_of_registers(index: str, target: str) -> None:
    text = f"input x: f32[17, 32, 48]\ninput k: i32[16]\ny[q: 16, j: 48, i: 32] = x[{index}, i, j] + 0.0 * f32(k[q])\n"
    task, rng = Task.of(parse(f"{text}return y\n"), parse_target(target), 2), np.random.default_rng(0)
    assert sum(check(task, rng) for _ in range(12)) > 8


def test_loop_programs_are_verified_as_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as tests ask for it."""
    asked: list[str] = []
    monkeypatch.setattr("tilesmith.codegen.passes.run.verify", lambda program, when: asked.append(when))
    task = Task.of(example("softmax"), parse_target("x86:avx512"), 1)
    loop_program(task.program, task.sketches[0], {}, task.target)
    assert asked == ["after lowering"]


PADDED = """program p
  argument x: f32[6] in input
  argument y: f32[6] in output
  global t: f32[6] in workspace padded
nest t:
  vector v < i64(4) valid i64(2):
    t[v + 4] = x[v + 4]
nest y:
  for a < i64(6):
    y[a] = t[a]"""


def test_lanes_that_are_not_real_store_nothing_but_read_what_is_padded() -> None:
    assert not faults(parse_loops(PADDED))
    by_a, by_lanes = "for a < i64(6):\n    y[a] = t[a]", "vector v < i64(4) valid i64(2):\n    y[v + 4] = t[v + 4]"
    (fault,) = faults(parse_loops(PADDED.replace(by_a, by_lanes)))
    assert "index 0 of 't' is 7, of 6 elements" in str(fault)
    found = [str(fault) for fault in faults(parse_loops(PADDED.replace("valid i64(2)", "valid i64(3)")))]
    assert sorted(text.splitlines()[0] for text in found) == [f"index 0 of '{n}' is 6, of 6 elements" for n in "tx"]
