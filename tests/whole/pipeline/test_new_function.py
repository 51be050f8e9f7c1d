"""A function is an entry in the table and the code that computes it: with these, text, oracle, model and kernels know it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from helpers.gpu.candidates import EMULATOR, fault
from helpers.pipeline.candidates import run
from tilesmith.codegen.math import functions as code
from tilesmith.codegen.math.body import Body
from tilesmith.codegen.pipeline import build
from tilesmith.cost_model.operations import slots
from tilesmith.schedules.sketch import UNSCHEDULED
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor.dtype import DTYPES
from tilesmith.tensor.expr import Op
from tilesmith.tensor.language import FLOATS, MATHEMATICS, OPERATORS, Operator, Rounding, Signature, enter
from tilesmith.tensor.oracle.evaluate import from_memory
from tilesmith.tensor.oracle.random_inputs import random_inputs
from tilesmith.tensor.oracle.reference import bounded
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.parse import parse


def code_of_lorentz(b: Body, x: str) -> str:
    """1 / (1 + x^2)^2, for want of a function that nobody has."""
    below = b.muladd(x, x, b.constant(1.0))
    return b.div(b.constant(1.0), b.mul(below, below))


@pytest.fixture(autouse=True)
def lorentz(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The two entries, for one test."""
    rounding = Rounding(lambda v, r, e: 4 * np.abs(v[0]) * np.abs(r) / (1 + v[0] ** 2) * e[0], ulp=(3.0, 3.0))
    value = lambda x: 1 / (1 + x * x) ** 2  # noqa: E731
    enter(Operator("lorentz", 1, Signature(FLOATS), value, rounding=rounding, slots=9.0, meaning="a bell"), MATHEMATICS)
    monkeypatch.setitem(code.FUNCTIONS, "lorentz", code_of_lorentz)
    yield
    del OPERATORS["lorentz"], MATHEMATICS["lorentz"]


def program(dtype: str) -> Program:
    return parse(f"input x: {dtype}[5, 37]\nz[i: 5, j: 37] = lorentz(x[i, j] * 3)\nreturn z\n")


def test_the_text_and_the_model_know_it() -> None:
    (stage,) = program("f32").stages
    assert parse(str(program("f32"))) == program("f32")
    assert isinstance(stage.bodies[0], Op) and stage.bodies[0].name == "lorentz"
    assert sum(slots(stage, True).values()) == 9.0 + 1.0  # and the product


@pytest.mark.parametrize("target", ["x86:avx2", "x86:sse2"])
@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16"])
def test_kernels_compute_it_within_its_bound(dtype: str, target: str) -> None:
    task = Task.of(program(dtype), parse_target(target), 1)
    inputs = random_inputs(task.program, 3)
    (found,) = run(build(task.program, UNSCHEDULED, {}, task.target, 1), task, inputs, at_end=True)
    ((truth, room),) = bounded(task.program, inputs)
    assert (np.abs(from_memory(found, DTYPES[dtype]) - truth) <= room).all()


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16"])
def test_kernels_of_gpus_compute_it_too(dtype: str) -> None:
    task = Task.of(program(dtype), EMULATOR, 1)
    assert not fault(task.program, build(task.program, UNSCHEDULED, {}, EMULATOR, 1), 3)
