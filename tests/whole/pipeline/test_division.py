"""Integers divided by what may be 0: 0, as in NumPy, whether it is a literal, an axis, a guarded value or data.

What can be written can be compiled, for every kind of target and every sketch.
"""

from __future__ import annotations

import numpy as np
import pytest

from helpers.gpu.candidates import EMULATOR, body_of
from helpers.pipeline.candidates import run
from tilesmith.codegen.pipeline import build
from tilesmith.measure.checking.verify import Checker
from tilesmith.runtime.devices.emulator import emulator
from tilesmith.schedules.sketch import UNSCHEDULED
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor.dtype import DTYPES, i64
from tilesmith.tensor.expr import Const, Op, Var
from tilesmith.tensor.indices.affine import affine, interval, simplify
from tilesmith.tensor.printing import print_program
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.canonical import canonical
from tilesmith.tensor.text.parse import parse

INTEGERS = [name for name, dtype in DTYPES.items() if dtype.is_integer]
DIVISORS = {
    "data": "z[i]",
    "a literal": "0",
    "data in one arm of a guard": "select(2 * j - 2 >= 0, z[i], 0)",
    "an axis": "{}(j)",
    "a shifted axis": "{}(j - 1)",
    "itself": "x[i, j]",
}


def program_of(dtype: str, divisor: str, extent: int) -> Program:
    by = divisor.format(dtype)
    return parse(
        f"input x: {dtype}[9, {extent}]\ninput z: {dtype}[9]\nq[i: 9, j: {extent}] = x[i, j] // {by}\n"
        f"r[i: 9, j: {extent}] = x[i, j] % {by}\ns[i: 9] = sum[j: {extent}](q[i, j])\nreturn q, r, s"
    )


def inputs_of(program: Program) -> list[np.ndarray]:
    """The ends of the range, -1 and 0 among small numbers."""
    dtype = DTYPES[program.inputs[0].tensor.dtype.name].numpy
    ends = np.iinfo(dtype)
    values = np.array([0, 1, 2, 7, ends.max, ends.min, *([-1, -3] if ends.min else [5])], dtype)
    generator = np.random.default_rng(1)
    return [generator.choice(values, item.tensor.shape) for item in program.inputs]


@pytest.mark.parametrize(
    ("dtype", "divisor", "extent"),
    [*((dtype, "z[i]", 17) for dtype in INTEGERS), *(("i16", d, n) for d in DIVISORS.values() for n in (1, 17))],
)
def test_division_by_zero_is_zero(dtype: str, divisor: str, extent: int) -> None:
    program = program_of(dtype, divisor, extent)
    assert parse(print_program(canonical(program))) == canonical(program)
    task = Task.of(program, parse_target("host"), 1)
    inputs = inputs_of(program)
    for sketch in task.sketches[1:2]:
        config_space = sketch.config_space(task.body, task.target)
        config = {parameter.name: parameter.values[parameter.default] for parameter in config_space.parameters}
        found = run(build(task.program, sketch, config, task.target, 1), task, inputs, at_end=True)
        assert Checker(task.program, inputs).check(found) is None
    with np.errstate(divide="ignore", over="ignore"):
        by = {"z[i]": inputs[1][:, None], "0": np.zeros(1, inputs[0].dtype), "x[i, j]": inputs[0]}.get(divisor)
        if by is not None:
            assert (found[0] == inputs[0] // by).all() and (found[1] == inputs[0] % by).all()


@pytest.mark.parametrize("divisor", ["z[i]", "select(2 * j - 2 >= 0, z[i], 0)", "0"])
def test_on_gpus_too(divisor: str) -> None:
    program, device = canonical(program_of("i32", divisor, 1)), emulator()
    inputs = inputs_of(program)
    loaded = device.load(build(body_of(program), UNSCHEDULED, {}, EMULATOR, 1))
    outputs = [device.empty(program.tensors[o].shape, program.tensors[o].dtype.numpy) for o in program.outputs]
    loaded.run([*(device.upload(x) for x in inputs), *outputs])
    assert Checker(program, inputs).check([o.numpy() for o in outputs]) is None


@pytest.mark.parametrize("name", ["floordiv", "mod"])
def test_index_arithmetic_knows(name: str) -> None:
    zero = Op(name, (Var("i"), Const(0, i64)), i64)
    assert affine(zero).is_constant and affine(zero).constant == 0
    assert interval(zero, {"i": (-3, 8)}) == (0, 0)
    assert simplify(Op("add", (zero, Var("i")), i64), {"i": (0, 8)}) == Var("i")
