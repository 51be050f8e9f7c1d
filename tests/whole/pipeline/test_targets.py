"""Every operator by a sketch of the rules (slow: by all), at small ragged sizes, on the x86 levels that run here; and other
processors, for which code is made and not run."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.operators.case import Array
from helpers.operators.cases import CASES
from helpers.pipeline.candidates import complaint, random_config, run
from tilesmith.codegen.pipeline import build
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.parse import parse

ROUNDED = """
input x: f32[7, 35]
y[i: 7, j: 35] = floor(x[i, j] * 3) + ceil(x[i, j]) * round(x[i, j] * 5) + sqrt(abs(x[i, j]))
z[i: 7, j: 35] = rsqrt(abs(x[i, j]) + 1) * pow(abs(x[i, j]), 0.5) + sin(x[i, j])
return y, z
"""
INTEGERS = """
input x: i8[9, 40]
input w: i8[40, 21]
s[i: 9, j: 21] = sum[k: 40](i32(x[i, k]) * i32(w[k, j]))
q[i: 9, j: 21] = s[i, j] // 7 + s[i, j] % 5
return q
"""
HALVES = """
input x: f16[9, 40]
input w: bf16[40, 21]
s[i: 9, j: 21] = sum[k: 40](f32(x[i, k]) * f32(w[k, j]))
h[j: 21, i: 9] = f16(s[i, j])
return h
"""


TARGETS = ("x86:sse2", "x86:avx2", "host")
TEXTS = {"rounded": ROUNDED, "integers": INTEGERS, "halves": HALVES}
BY_NAME = {case.name: case for case in CASES}
NAMES = (*BY_NAME, *TEXTS)
FIRST = {case.operator: case.name for case in reversed(CASES)}


def program_of(name: str) -> Program:
    """Read from its text, as that of a file is."""
    return parse(TEXTS[name] if name in TEXTS else str(BY_NAME[name].program()))


def inputs_of(name: str, program: Program, seed: int) -> tuple[Array, ...] | None:
    """Those of a case that random numbers as they are do not serve."""
    case = BY_NAME.get(name)
    return None if case is None or case.change is None else case.inputs(program, seed)


@pytest.mark.parametrize("name", NAMES)
def test_candidates_are_right(name: str) -> None:
    seed = sum(map(ord, name))
    rng = np.random.default_rng(seed)
    task = Task.of(program_of(name), parse_target(TARGETS[seed % 3]), 2)
    for number in rng.permutation(len(task.sketches))[:1]:
        sketch = task.sketches[number]
        values = random_config(task, sketch, rng)
        if values is not None:
            inputs = inputs_of(name, task.program, seed)
            wrong = complaint(task, sketch, values, seed, at_end=bool(number % 2), inputs=inputs)
            assert wrong is None, (sketch.text, values)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("target", TARGETS)
def test_all_sketches_are_right(name: str, target: str) -> None:
    task = Task.of(program_of(name), parse_target(target), 2)
    rng = np.random.default_rng(1)
    for number, sketch in enumerate(task.sketches):
        for _ in range(2):
            values = random_config(task, sketch, rng)
            if values is not None:
                inputs = inputs_of(name, task.program, number)
                assert complaint(task, sketch, values, number, inputs=inputs) is None, (sketch.text, values)


@pytest.mark.parametrize(
    "name", ["matmul_bias_gelu", "softmax", "transpose", "column_sum", "conv2d", "rounded", "halves"]
)
@pytest.mark.parametrize(
    ("target", "machine"),
    [("aarch64:neon", 0xB7), pytest.param("aarch64:sve256", 0xB7, marks=pytest.mark.slow), ("riscv64:v", 0xF3)],
)
def test_other_processors_get_object_files(name: str, target: str, machine: int) -> None:
    task = Task.of(program_of(FIRST.get(name, name)), parse_target(target), 2)
    sketch = task.sketches[-1]
    values = random_config(task, sketch, np.random.default_rng(0))
    assert values is not None
    artifact = build(task.program, sketch, values, task.target, 2)
    for code in (artifact.code, *artifact.parts):
        assert code[:4] == b"\x7fELF" and int.from_bytes(code[18:20], "little") == machine


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("operator", ["floor", "ceil", "round"])
def test_rounding_without_an_instruction(operator: str, dtype: str) -> None:
    """No call of the C library, and bit for bit what NumPy gives: signs of zeros, infinities, NaN, the largest fractions."""
    kind = np.dtype({"f32": "float32", "f64": "float64"}[dtype])
    edge = 2.0 ** (23 if dtype == "f32" else 52)
    values = [
        0.0,
        0.3,
        0.5,
        1.5,
        2.5,
        0.49999997,
        7.9,
        edge - 0.5,
        edge - 1,
        edge,
        edge + 1,
        2 * edge,
        1e30,
        np.inf,
        np.nan,
    ]
    x = np.array([*values, *(-v for v in values)], kind)
    task = Task.of(parse(f"input x: {dtype}[30]\ny[i: 30] = {operator}(x[i])\nreturn y\n"), parse_target("x86:sse2"), 1)
    for sketch in task.sketches:
        values_of = random_config(task, sketch, np.random.default_rng(0))
        artifact = build(task.program, sketch, values_of or {}, task.target, 1, texts=True)
        assert f"llvm.{operator}" not in artifact.texts["llvm"] and not artifact.runtime_symbols
        (found,) = run(artifact, task, [x], at_end=True)
        wanted = {"floor": np.floor, "ceil": np.ceil, "round": np.round}[operator](x)
        assert np.array_equal(found, wanted, equal_nan=True) and np.array_equal(np.signbit(found), np.signbit(wanted))
