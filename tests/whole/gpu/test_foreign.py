"""Programs as strangers write them, in the emulator: sketches of the rules under random configs, and what `compile` picks."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.foreign_programs import foreign_program
from helpers.gpu.assembler import PTXAS, assembled
from helpers.gpu.candidates import EMULATORS, body_of, sketches
from helpers.gpu.foreign import complaints, wrong
from tilesmith.codegen.pipeline import build
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor.text.parse import parse

PORTION = 50


@pytest.mark.parametrize("seed", range(8))
def test_foreign_programs_are_right(seed: int) -> None:
    for target in EMULATORS:
        assert not complaints(foreign_program(seed), seed, most=1, target=parse_target(target))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 3000, PORTION))
def test_three_thousand_foreign_programs(first: int) -> None:
    for seed in range(first, first + PORTION):
        target = parse_target(EMULATORS[seed // 2 % len(EMULATORS)])
        assert not complaints(foreign_program(seed), seed, most=1, target=target), f"seed {seed}"


# What the seeds have found, shrunk; each was refused or wrong once.
FOUND = {
    "a table": """
        input x: f32[3]
        table w: f32[3] = [1, 2, 3]
        t[i: 3] = x[i] * w[i]
        return t
        """,
    "a table that is copied ahead": """
        input x: i32[64, 4]
        input y: i32[9, 4]
        table w: i64[4] = [1, -1, 0, -100]
        t[i: 64, j: 9] = max[r: 4](select(select(j + r >= 0 and j + r < 4, w[j + r], -100) > 2, x[i, r] * y[j, r], 0))
        return t
        """,
    "a stage that reads nothing": """
        input x: f32[4]
        t2[i: 16, j: 8, k: 13] = i8(j)
        t3[i: 1] = max[r: 4](-max(f32(t2[r - i, r % 8, 3 * i + 3]), f32(t2[r // 4, i + 1, 3 * i + 8])))
        return t3
        """,
    "a sum of nothing that is read": """
        input x: f32[1, 3]
        t[i: 1] = sum[r: 16](i8(select(i - 2 >= 0 and i - 2 < 1, x[i - 2, 0], 0)) % i8(-3))
        return t
        """,
    "a factor that uses every axis beside one that slides": """
        input x: f32[20]
        input y: f32[9, 12]
        t[i: 9, j: 7] = sum[r: 12](x[j + r] * max(y[i, r], x[i + r] * x[j + 2]))
        return t
        """,
    "an operand that moves along its diagonal": """
        input x: u8[2, 9, 16]
        input y: f32[5]
        t[i: 9, j: 16, k: 5] = sum[r: 2](f32(x[r, r + k, j]) * y[k])
        return t
        """,
    "a swizzled operand of ragged slots": """
        input w: f32[24, 16]
        input x: f32[5, 16]
        t[i: 24, j: 5] = sum[r: 16](w[i, r] * select(j * 2 - 2 >= 0 and j * 2 - 2 < 5, x[j * 2 - 2, r], 0))
        return t
        """,
    "a quotient of more than 31 bits": """
        input x: i32[3001]
        t[i: 3000] = x[(999983 * i) // 1000000]
        return t
        """,
    "a bound of more than 31 bits": """
        input x: i32[100]
        t[i: 3000] = x[min(999983 * i, 97)]
        return t
        """,
    "a comparison of more than 31 bits": """
        input x: i32[3000]
        t[i: 3000] = select(999983 * i < 999999999, x[i], 0)
        return t
        """,
}


@pytest.mark.parametrize("target", EMULATORS)
@pytest.mark.parametrize("text", FOUND.values(), ids=FOUND.keys())
def test_what_was_found_stays_right(text: str, target: str) -> None:
    assert not complaints(parse(text), 1, most=4, target=parse_target(target))


@pytest.mark.parametrize("terms", [2, 3, 6, 10])
def test_a_remainder_in_a_loop_that_counts_groups(terms: int) -> None:
    """The counter of groups of `terms` trips is no multiple of `terms`."""
    program = parse("input x: i32[16]\nt[i: 8] = sum[r: 20](x[(2 * r) % 8])\nreturn t")
    (sketch,) = sketches(body_of(program))
    values = {"t0.vector": 1, "t0.threads": 3, "t0.terms": terms}
    assert not wrong(program, build(body_of(program), sketch, values, parse_target(EMULATORS[0]), 1), 1)


@pytest.mark.skipif(PTXAS is None, reason="needs ptxas")
@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        ("f32", "1, 2, 3"),
        ("bf16", "1, 2, 0.5"),
        ("f16", "1, 2, 0.5"),
        ("bool", "true, false, true"),
        ("i64", "-1, 2, 3"),
    ],
)
def test_tables_are_global_data_of_ptx(dtype: str, values: str, tmp_path: Path) -> None:
    program = parse(f"input x: f32[3]\ntable w: {dtype}[3] = [{values}]\nt[i: 3] = x[i] + f32(w[i])\nreturn t")
    task = Task.of(program, parse_target("cuda:sm_80"), 1)
    config = {"t0.vector": 1, "t0.threads": 3, "t0.items": 1}
    artifact = build(task.program, task.sketches[1], config, task.target, 1)
    assert b".global .align 64 .b8 table" in artifact.code
    assert assembled(artifact, "sm_80", tmp_path)
