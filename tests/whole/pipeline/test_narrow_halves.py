"""Constant bytes that few rows read stay bytes in memory, and become halves in registers: exact for every byte."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.pipeline.candidates import complaint, random_config, run
from helpers.pipeline.narrow_products import product
from tilesmith.codegen.pipeline import build
from tilesmith.common.errors import ProgramError
from tilesmith.schedules.rules.cpu.dots import LEAST_USES_CROSSED
from tilesmith.schedules.sketch import Sketch
from tilesmith.schedules.task import Task
from tilesmith.targets.host import missing_here
from tilesmith.targets.target import parse_target
from tilesmith.tensor.oracle.errors import signed_halves
from tilesmith.tensor.oracle.random_inputs import random_inputs
from tilesmith.tensor.oracle.reference import evaluate
from tilesmith.tensor.rewrites.registry import half_words
from tilesmith.tensor.text.parse import parse

TARGETS = ("x86:avx512", "x86:avx2", "x86:sse2")


def narrow(task: Task) -> list[Sketch]:
    return [sketch for sketch in task.sketches if "narrow=" in sketch.text]


def task_of(m: int, n: int, k: int, kinds: str = "u8 i8", target: str = "x86:avx2") -> Task:
    return Task.of(parse(product(*kinds.split(), m, n, k, "constant")), parse_target(target), 1)


def test_all_pairs_of_bytes_become_halves() -> None:
    pairs = np.arange(1 << 16).astype(np.uint16).view(np.int16)
    halves = signed_halves(pairs).reshape(-1, 1).view(np.int16)
    np.testing.assert_array_equal(halves, pairs.reshape(-1, 1).view(np.int8))


@pytest.mark.parametrize("k", [16, 19])
@pytest.mark.parametrize("kinds", ["u8 i8", "i8 i8"])
def test_the_sums_are_the_same(kinds: str, k: int) -> None:
    program = parse(product(*kinds.split(), 5, 6, k))
    second = program.inputs[1].tensor.name
    words = half_words(program, program.stages[-1].name, program.stages[-1].reduction[0].name, second)
    assert parse(str(words)) == words and "signed_halves(" in str(words)
    inputs = random_inputs(program, 5)
    for before, after in zip(evaluate(program, inputs), evaluate(words, inputs), strict=True):
        np.testing.assert_array_equal(after, before)


@pytest.mark.parametrize("kinds", ["i8 u8", "u8 i16"])
def test_only_bytes_with_a_sign_stay(kinds: str) -> None:
    program = parse(product(*kinds.split(), 5, 6, 16))
    stage = program.stages[-1]
    with pytest.raises(ProgramError, match="is no operand of bytes with a sign"):
        half_words(program, stage.name, stage.reduction[0].name, program.inputs[1].tensor.name)


def test_few_rows_have_both_ways_and_many_have_halves() -> None:
    few = task_of(4, 64, 64)
    assert narrow(few) and any("bytes=false" in sketch.title for sketch in few.sketches)
    assert not narrow(task_of(LEAST_USES_CROSSED, 64, 64)) and not narrow(task_of(4, 64, 64, "u8 u8"))
    assert not narrow(task_of(4, 64, 64, target="x86:avx2+avxvnni"))


def test_one_instruction_makes_halves_and_no_sum_is_spilled() -> None:
    task = task_of(4, 64, 64)
    values = random_config(task, narrow(task)[0], np.random.default_rng(0))
    assert values is not None
    anchor = next(name.split(".")[0] for name in values if name.endswith(".rows"))
    values |= {f"{anchor}.rows": 4, f"{anchor}.vectors": 2, f"{anchor}.unroll": 1}
    lines = build(task.program, narrow(task)[0], values, task.target, 1, texts=True).texts["asm"].splitlines()
    assert any("vpmovsxbw" in line and "(" in line for line in lines)
    assert not any("ymm" in line and "(%rsp)" in line for line in lines)


@pytest.mark.parametrize("text", TARGETS)
@pytest.mark.parametrize("kinds", ["u8 i8", "i8 i8"])
def test_every_product_of_two_bytes_is_exact(kinds: str, text: str) -> None:
    """All 65,536 pairs of bytes meet, some rows at a time, at a depth that words do not divide."""
    target = parse_target(text)
    if missing_here(target):
        pytest.skip(f"this machine has no {', '.join(missing_here(target))}")
    a, b = (np.arange(256).astype(np.uint8).view({"u8": np.uint8, "i8": np.int8}[kind]) for kind in kinds.split())
    right = np.repeat(b[None, :], 17, axis=0)
    task = task_of(16, 256, 17, kinds, text)
    sketch = narrow(task)[0]
    values = random_config(task, sketch, np.random.default_rng(3))
    assert values is not None
    artifact = build(task.program, sketch, values, target, 1)
    for rows in a.reshape(16, 16):
        left = np.repeat(rows[:, None], 17, axis=1)
        (made,) = run(artifact, task, [left, right], at_end=True)
        np.testing.assert_array_equal(made, left.astype(np.int64) @ right.astype(np.int64))


@pytest.mark.parametrize("text", TARGETS)
@pytest.mark.parametrize("m", [1, 5])
def test_all_ways_are_right(m: int, text: str) -> None:
    target = parse_target(text)
    if missing_here(target):
        pytest.skip(f"this machine has no {', '.join(missing_here(target))}")
    task, rng = task_of(m, 53, 67, target=text), np.random.default_rng(m)
    for sketch in narrow(task):
        values = random_config(task, sketch, rng)
        assert values is not None
        assert complaint(task, sketch, values, 3, at_end=bool(rng.integers(2))) is None, f"{sketch.title} {values}"
