"""Programs as strangers write them, as machine code: sketches of the rules under random configs."""

from __future__ import annotations

import pytest

from helpers.foreign_programs import foreign_program
from helpers.pipeline.foreign import complaints
from helpers.plain_evaluation import plain_results
from tilesmith.tensor.oracle.random_inputs import random_inputs
from tilesmith.tensor.oracle.reference import evaluate
from tilesmith.tensor.text.parse import parse

PORTION = 100
NARROW = ("bf16", "f16", "bf16", "f16", "f32", "i8")


@pytest.mark.parametrize("seed", range(200))
def test_the_oracle_says_what_numpy_says(seed: int) -> None:
    program = foreign_program(seed)
    inputs = random_inputs(program, seed)
    for ours, plain in zip(evaluate(program, inputs), plain_results(program, inputs), strict=True):
        assert ours.dtype == plain.dtype
        assert ours.shape == plain.shape
        close = abs(ours * 1.0 - plain) <= 1e-9 * abs(plain) + 1e-11
        assert close.all(), program


@pytest.mark.parametrize("seed", range(16))
def test_foreign_programs_are_right(seed: int) -> None:
    assert not complaints(foreign_program(seed), seed, most=2)


@pytest.mark.slow
@pytest.mark.parametrize("types", [None, NARROW], ids=["any", "narrow"])
@pytest.mark.parametrize("first", range(0, 5000, PORTION))
def test_five_thousand_foreign_programs(first: int, types: tuple[str, ...] | None) -> None:
    for seed in range(first, first + PORTION):
        program = foreign_program(seed) if types is None else foreign_program(seed, types)
        assert not complaints(program, seed), f"seed {seed}"


# What the seeds have found, shrunk; each was refused or wrong once.
FOUND = {
    "results without terms are written": """
        input x: i16[7, 31, 7]
        t[i: 7] = sum[r: 31](select(2 * i - 3 >= 0 and 2 * i - 3 < 7, x[i, r, 2 * i - 3], 0))
        return t
        """,
    "results whose terms lie outside of the reduction are written": """
        input x: f32[17, 3]
        t[i: 17] = max[r: 3](select(4 * r >= i, x[i, r], -inf))
        return t
        """,
    "states without steps are written": """
        input x: f32[17, 3]
        fold[r: 3] {
            t[i: 17]: f32 = 1
            t = select(i <= r, t[i] + x[i, r], t[i])
        }
        return t
        """,
    "a fold of constants": """
        constant x: f16[2, 2]
        fold[q: 2] {
            t[i: 40, j: 2, k: 7]: f16 = 1
            u[i: 40, j: 2]: bool = false
            t = max(t[i, j, k], x[j, j])
            u = u[i, j] or i < j
        }
        return t, u
        """,
    "one narrow element behind whole vectors": """
        input x: bf16[65]
        fold[q: 9] {
            t[i: 7, j: 17]: bf16 = 0
            u[]: bf16 = 1
            t = t[i, j] * 0.5 + bf16(i + q)
            u = max(u[], x[q])
        }
        return t, u
        """,
    "terms that are the same 300 times over": """
        input x: u8[8]
        input y: u8[8]
        t[i: 8, j: 8] = sum[r: 100, s: 3](x[i] * y[j])
        return t
        """,
}


@pytest.mark.parametrize("text", FOUND.values(), ids=FOUND.keys())
def test_what_was_found_stays_right(text: str) -> None:
    program = parse(text)
    for seed in range(3):
        assert not complaints(program, seed, most=8)
