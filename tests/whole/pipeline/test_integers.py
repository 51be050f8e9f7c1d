"""Integers of all widths, signed or not, over their whole range: kernels wrap, divide, compare and convert as NumPy does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from helpers.gpu.candidates import EMULATOR, body_of
from helpers.pipeline.candidates import complaint, random_config, run
from helpers.random_programs import MORE_KINDS, programs
from tilesmith.codegen.pipeline import build
from tilesmith.measure.checking.verify import Checker
from tilesmith.runtime.devices.emulator import emulator
from tilesmith.schedules.sketch import UNSCHEDULED
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor.dtype import DTYPES
from tilesmith.tensor.oracle.reference import evaluate
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.canonical import canonical
from tilesmith.tensor.text.parse import parse

INTEGERS = tuple(name for name, dtype in DTYPES.items() if dtype.is_integer)
UNSIGNED = ("u8", "u16", "u32", "u64")
TARGETS = ("host", "x86:avx2", "x86:sse2")


def whole_range(program: Program, seed: int) -> list[np.ndarray]:
    """Inputs of which a third are the ends of their range and what is next to them."""
    rng = np.random.default_rng(seed)
    made = []
    for item in program.inputs:
        kind, shape = item.tensor.dtype.numpy, item.tensor.shape
        if not item.tensor.dtype.is_integer:
            made.append(rng.integers(0, 2, shape).astype(kind))
            continue
        ends = np.iinfo(kind)
        values = rng.integers(ends.min, ends.max, shape, dtype=kind, endpoint=True)
        some = np.array([ends.min, ends.max, ends.max // 2, ends.max // 2 + 1, 0, 1], kind)
        made.append(np.where(rng.random(shape) < 1 / 3, rng.choice(some, shape), values).astype(kind))
    return made


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(programs(dtypes=INTEGERS, kinds=MORE_KINDS, sizes=(1, 3, 5, 8, 16, 17)), st.integers(0, 99))
def test_random_programs_of_integers(program: Program, seed: int) -> None:
    for name in TARGETS[: 1 + seed % 3]:
        task = Task.of(program, parse_target(name), 1 + seed % 2)
        inputs = whole_range(task.program, seed)
        assert complaint(task, UNSCHEDULED, {}, seed, inputs=inputs) is None
        sketch = task.sketches[seed % len(task.sketches)]
        values = random_config(task, sketch, np.random.default_rng(seed))
        if values is not None:
            assert complaint(task, sketch, values, seed, inputs=inputs) is None


@settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(programs(dtypes=INTEGERS, max_stages=2, sizes=(1, 3, 5, 8)), st.integers(0, 99))
def test_random_programs_of_integers_on_gpus(program: Program, seed: int) -> None:
    plain = canonical(program)
    assert on_gpu(plain, whole_range(plain, seed)) is None


def on_gpu(program: Program, inputs: list[np.ndarray]) -> str | None:
    """What is wrong with what the unscheduled nest gives on a GPU."""
    device = emulator()
    loaded = device.load(build(body_of(program), UNSCHEDULED, {}, EMULATOR, 1))
    pairs = list(zip(program.inputs, inputs, strict=True))
    outputs = [device.empty(program.tensors[o].shape, program.tensors[o].dtype.numpy) for o in program.outputs]
    loaded.prepare([array for item, array in pairs if item.constant])
    loaded.run([*(device.upload(array) for item, array in pairs if not item.constant), *outputs])
    return Checker(program, inputs).check([one.numpy() for one in outputs])


EVERYTHING = """
    input x: {0}[67]
    input y: {0}[67]
    a[i: 67] = x[i] + y[i] * 3
    b[i: 67] = x[i] // y[i]
    c[i: 67] = x[i] % y[i]
    d[i: 67] = max(x[i], y[i]) - min(x[i], y[i])
    e[i: 67] = -x[i]
    f[i: 67] = f64(x[i])
    g[i: 67] = f32(x[i])
    h[i: 67] = x[i] < y[i]
    p[] = prod[i: 67](x[i])
    q[] = max[i: 67](x[i])
    r[] = min[i: 67](x[i])
    s[] = sum[i: 67](x[i])
    return a, b, c, d, e, f, g, h, p, q, r, s
"""


@pytest.mark.parametrize("target", [*TARGETS, "gpu"])
@pytest.mark.parametrize("name", INTEGERS)
def test_arithmetic_of_the_whole_range_is_numpys(name: str, target: str) -> None:
    program = parse(EVERYTHING.format(name))
    x, y = inputs = whole_range(program, 3)
    with np.errstate(all="ignore"):
        wanted = [
            x + y * x.dtype.type(3), x // y, x % y, np.maximum(x, y) - np.minimum(x, y), -x, x.astype(np.float64),
            x.astype(np.float32), x < y, x.prod(dtype=x.dtype), x.max(), x.min(), x.sum(dtype=x.dtype),
        ]  # fmt: skip
    for ours, numpys in zip(evaluate(program, inputs), wanted, strict=True):
        np.testing.assert_array_equal(ours.astype(np.asarray(numpys).dtype), numpys)
    if target == "gpu":
        assert on_gpu(program, inputs) is None
        return
    task = Task.of(program, parse_target(target), 1)
    found = run(build(task.program, UNSCHEDULED, {}, task.target, 1), task, inputs, at_end=True)
    for ours, numpys in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(ours, numpys)


@pytest.mark.parametrize("target", [*TARGETS, "gpu"])
@pytest.mark.parametrize("source", ["f64", "f32"])
@pytest.mark.parametrize("name", UNSIGNED)
def test_floats_above_the_signed_range_become_unsigned_integers(name: str, source: str, target: str) -> None:
    bits = DTYPES[name].bits
    program = parse(f"input x: {source}[35]\ny[i: 35] = {name}(x[i])\nreturn y")
    rng = np.random.default_rng(1)
    kind = DTYPES[source].numpy.type
    inputs = [(np.floor(rng.random(35) * 2**20) * 2.0 ** (bits - 20)).astype(kind)]
    inputs[0][:3] = [2.0 ** (bits - 1), 0.75, np.nextafter(kind(2.0**bits), kind(0))]
    wanted = inputs[0].astype(DTYPES[name].numpy)
    assert (wanted > 2 ** (bits - 1)).sum() > 8
    if target == "gpu":
        assert on_gpu(program, inputs) is None
        return
    task = Task.of(program, parse_target(target), 1)
    (found,) = run(build(task.program, UNSCHEDULED, {}, task.target, 1), task, inputs, at_end=True)
    np.testing.assert_array_equal(found, wanted)


FAR = """
    input x: i64[13]
    a[i: 13, j: 64] = x[i] * 2 // 2 + j
    b[i: 13, j: 64] = select(x[i] * 2 < x[i], j, 7)
    c[i: 13, j: 64] = max(-x[i], 0) + j
    d[i: 13, j: 64] = j < x[i]
    e[i: 13, j: 64] = x[i] * 3 >= j - 5
    f[i: 13, j: 64] = j * 4611686018427387904 // 4 + x[i]
    g[i: 13, j: 64] = j * 4611686018427387904 < 5
    h[i: 3] = i * 4611686018427387904 // 4
    return a, b, c, d, e, f, g, h
"""


@pytest.mark.parametrize("target", [*TARGETS, "gpu"])
def test_scalars_and_axes_of_64_bits_wrap_too(target: str) -> None:
    program = parse(FAR)
    ends = np.iinfo(np.int64)
    x = np.array([ends.min + n for n in (0, 1, 2, 9)] + [-5, -1, 0, 1, 7] + [ends.max - n for n in (9, 2, 1, 0)])
    rows, j, k = x[:, None], np.arange(64), np.arange(3)
    with np.errstate(all="ignore"):
        wanted = [
            rows * 2 // 2 + j, np.where(rows * 2 < rows, j, 7), np.maximum(-rows, 0) + j, j < rows, rows * 3 >= j - 5,
            j * 2**62 // 4 + rows, np.broadcast_to(j * 2**62 < 5, (13, 64)), k * 2**62 // 4,
        ]  # fmt: skip
    for ours, numpys in zip(evaluate(program, [x]), wanted, strict=True):
        np.testing.assert_array_equal(ours, numpys)
    if target == "gpu":
        assert on_gpu(program, [x]) is None
        return
    task = Task.of(program, parse_target(target), 1)
    for sketch in (UNSCHEDULED, *task.sketches[:2]):
        values = {} if sketch is UNSCHEDULED else random_config(task, sketch, np.random.default_rng(2))
        found = run(build(task.program, sketch, values, task.target, 1), task, [x], at_end=True)
        for ours, numpys in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(ours, numpys)


def test_whole_numbers_that_float64_cannot_tell_apart_are_told_apart() -> None:
    for name in ("i64", "u64"):
        program = parse(f"input x: {name}[4]\ny[i: 4] = x[i] + 1\nreturn y")
        x = np.full(4, np.iinfo(DTYPES[name].numpy).max - 9, DTYPES[name].numpy)
        checker = Checker(program, [x])
        assert checker.check([x + x.dtype.type(1)]) is None
        assert "4 of 4 checked points differ" in str(checker.check([x + x.dtype.type(2)]))
