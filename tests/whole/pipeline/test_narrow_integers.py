"""Arithmetic on bytes that is written in 32 bits: right for all pairs of bytes, and computed in as few bits as it takes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tilesmith.codegen.pipeline import build
from tilesmith.runtime.kernel import Kernel
from tilesmith.schedules.auto import derive
from tilesmith.schedules.sketch import Sketch
from tilesmith.targets.target import Target, parse_target
from tilesmith.tensor.expr import Op, walk
from tilesmith.tensor.program import Program
from tilesmith.tensor.rewrites.narrow_integers import narrow_stage
from tilesmith.tensor.text.canonical import canonical
from tilesmith.tensor.text.parse import parse

COUNT = 1 << 16
FIRST, SECOND = (np.ascontiguousarray(half.reshape(-1)) for half in np.indices((256, 256)).astype(np.uint8))
A, B = FIRST.astype(np.int32), SECOND.astype(np.int32)
CASES: dict[str, tuple[Callable[[np.ndarray, np.ndarray], np.ndarray], int]] = {  # bits of the widest arithmetic left
    "u8((i32(x[i]) + i32(y[i])) // 2)": (lambda a, b: (a + b) // 2, 16),
    "u8((i32(x[i]) + i32(y[i]) + 1) // 2)": (lambda a, b: (a + b + 1) // 2, 16),
    "u8((i32(x[i]) * 3 + i32(y[i]) * 5 + 4) // 8)": (lambda a, b: (a * 3 + b * 5 + 4) // 8, 16),
    "u8((i32(x[i]) + i32(y[i]) * 2) // 3)": (lambda a, b: (a + b * 2) // 3, 16),
    "u8((i32(x[i]) * 2 - i32(y[i]) * 7) // 9 + 128)": (lambda a, b: (a * 2 - b * 7) // 9 + 128, 16),
    "u8((i32(x[i]) - i32(y[i])) % 7)": (lambda a, b: (a - b) % 7, 16),
    "u8(min(max(i32(x[i]) * 2 - i32(y[i]), 0), 255))": (lambda a, b: np.clip(a * 2 - b, 0, 255), 16),
    "u8(abs(i32(x[i]) - i32(y[i])))": (lambda a, b: abs(a - b), 16),
    "u8(i32(x[i]) - i32(y[i]) * 3)": (lambda a, b: a - b * 3, 16),
    "u8(i32(x[i]) - i32(y[i]))": (lambda a, b: a - b, 8),
    "u8(max(i32(x[i]), i32(y[i])))": (np.maximum, 8),
    "u8(select(x[i] < y[i], i32(x[i]) + 1, i32(y[i])))": (lambda a, b: np.where(a < b, a + 1, b), 8),
    "u8(i32(x[i] + y[i]) // 2)": (lambda a, b: ((a + b) & 255) // 2, 16),  # the sum wraps as one of bytes
    "u8(i32(u8(i32(x[i]) * i32(y[i]))) // 3)": (lambda a, b: (a * b & 255) // 3, 16),
    "i16(i32(i8(x[i])) * i32(i8(y[i])))": (lambda a, b: a.astype(np.int8).astype(np.int32) * b.astype(np.int8), 16),
    "i8(-(i32(i8(x[i])) + i32(i8(y[i]))) // 2)": (
        lambda a, b: -(a.astype(np.int8).astype(np.int32) + b.astype(np.int8)) // 2, 16,
    ),
    "u8(i32(x[i]) * i32(y[i]) // 256)": (lambda a, b: a * b // 256, 16),  # as u16
    "i16(i64(x[i]) * i64(y[i]) * 300 // 4096)": (lambda a, b: a * b * 300 // 4096, 32),
    "u8(i32(f32(x[i]) * 0.5) + i32(y[i]) // 3)": (lambda a, b: (a * 0.5).astype(np.int32) + b // 3, 32),
}  # fmt: skip


def program_of(case: str) -> Program:
    text = f"input x: u8[{COUNT}]\ninput y: u8[{COUNT}]\nz[i: {COUNT}] = {case}\nreturn z"
    return canonical(parse(text))


def scheduled(program: Program, target: Target) -> tuple[Sketch, dict[str, int]]:
    sketch = derive(program, target)[-1]
    return sketch, {t.name: 2 if t.name.endswith("vectors") else 1 for t in sketch.tunables}


@pytest.mark.parametrize("target", ["host", "x86:avx2", "x86:sse2"])
@pytest.mark.parametrize("case", CASES)
def test_all_pairs_of_bytes(case: str, target: str) -> None:
    program, chosen = program_of(case), parse_target(target)
    kernel = Kernel(build(program, *scheduled(program, chosen), chosen, 1))
    wanted = CASES[case][0](A, B)
    found = kernel(FIRST, SECOND)
    np.testing.assert_array_equal(found, wanted.astype(found.dtype))


@pytest.mark.parametrize("case", CASES)
def test_as_few_bits_as_it_takes(case: str) -> None:
    (stage,) = program_of(case).stages
    arithmetic = [n for n in walk(narrow_stage(stage).bodies[0]) if isinstance(n, Op) and n.dtype.is_integer]
    assert max(n.dtype.bits for n in arithmetic) == CASES[case][1]


def test_code_adds_halves() -> None:
    target = parse_target("x86:avx512")
    program = program_of("u8((i32(x[i]) * 3 + i32(y[i]) * 5 + 4) // 8)")
    assembly = build(program, *scheduled(program, target), target, 1, texts=True).texts["asm"]
    assert "vpaddw" in assembly and "vpaddd" not in assembly
