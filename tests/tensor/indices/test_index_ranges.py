"""Indices that are data are drawn from the ranges that a program's clamps declare."""

from __future__ import annotations

import numpy as np
import pytest

from tilesmith import ops
from tilesmith.tensor.indices.ranges import index_ranges
from tilesmith.tensor.oracle.random_inputs import Magnitudes, random_inputs
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.parse import parse

CASES = {
    "a clamp": ("k: i64[5]", "x[min(max(k[i], 0), 99)]", (0, 99)),
    "a clamp the other way round": ("k: i64[5]", "x[max(min(k[i], 99), 0)]", (0, 99)),
    "a narrower clamp": ("k: i64[5]", "x[min(max(k[i], 3), 7)]", (3, 7)),
    "a cast": ("k: i32[5]", "x[min(max(i64(k[i]), 0), 99)]", (0, 99)),
    "a narrow cast": ("k: i8[5]", "x[min(max(i64(k[i]) * 2, 0), 99)]", (0, 49)),
    "u8 cannot have them all": ("k: u8[5]", "y[min(max(i64(k[i]), 0), 999)]", (0, 255)),
    "arithmetic": ("k: i64[5]", "x[min(max(2 * k[i] + 1, 0), 99)]", (0, 49)),
    "from above": ("k: i64[5]", "x[min(max(99 - k[i], 0), 99)]", (0, 99)),
    "a negative multiple": ("k: i64[5]", "x[min(max(-2 * k[i], 0), 99)]", (-49, 0)),
    "an axis beside it": ("k: i64[5]", "x[min(max(k[i] + i, 0), 99)]", (0, 95)),
    "a quotient": ("k: i64[5]", "x[min(max(k[i] // 4, 0), 99)]", (0, 399)),
    "a remainder": ("k: i64[5]", "x[k[i] % 100]", (0, 99)),
    "a guard": ("k: i64[5]", "select(k[i] >= 0 and k[i] < 100, x[min(max(k[i], 0), 99)], 0)", (0, 99)),
    "from the end": ("k: i64[5]", "x[min(max(select(k[i] < 0, k[i] + 100, k[i]), 0), 99)]", (-100, 99)),
    "two tensors": ("k: i64[5]", "x[min(max(k[i], 0), 99)] + y[min(max(k[i], 0), 999)]", (0, 99)),
    "the smaller of two": ("k: i64[5]", "x[min(max(min(k[i], k[0]), 0), 99)]", (0, 99)),
}


def program_of(declared: str, body: str) -> Program:
    return parse(f"input {declared}\ninput x: f32[100]\ninput y: f32[1000]\nz[i: 5] = {body}\nreturn z")


@pytest.mark.parametrize(("declared", "body", "wanted"), CASES.values(), ids=CASES.keys())
def test_ranges(declared: str, body: str, wanted: tuple[int, int]) -> None:
    program = program_of(declared, body)
    assert index_ranges(program) == {"k": wanted}
    for sizes in Magnitudes:
        drawn = random_inputs(program, 1, sizes)[0]
        assert (
            drawn.dtype == program.inputs[0].tensor.dtype.numpy
            and drawn.min() >= wanted[0]
            and drawn.max() <= wanted[1]
        )


def test_through_stages_and_folds() -> None:
    program = parse("""
        input k: i32[6]
        input x: f32[40]
        t[i: 6] = i64(k[i]) - 1
        m[i: 3] = max[j: 2](t[2 * i + j])
        fold[i: 3] {
            s[]: f32 = 0
            let place = m[i]
            s = s[] + x[min(max(place, 0), 39)]
        }
        return s
    """)
    assert index_ranges(program) == {"k": (1, 40)}


def test_numbers_that_are_no_indices_are_drawn_as_ever() -> None:
    program = parse("input k: i32[400]\ny[i: 400] = k[i] * 3\nreturn y")
    assert index_ranges(program) == {}
    assert set(np.unique(random_inputs(program)[0])) == set(range(-8, 9))


@pytest.mark.parametrize(
    "program",
    [
        ops.embedding(tokens=512, vocabulary=3000, width=2), ops.gather(shape=(4, 3000), count=500, axis=1),
        ops.take_along_axis(shape=(2, 3000), count=400, axis=1),
        ops.embedding(tokens=512, vocabulary=3000, width=2, constants=("index",)),
    ],
    ids=lambda program: program.outputs[0],
)  # fmt: skip
def test_operators_read_all_of_their_tables(program: Program) -> None:
    drawn = next(
        a for a, item in zip(random_inputs(program), program.inputs, strict=True) if item.tensor.name == "index"
    )
    assert drawn.min() >= 0 and drawn.max() < 3000
    assert len(np.unique(drawn)) > 300
