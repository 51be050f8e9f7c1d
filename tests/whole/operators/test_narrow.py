"""Operators of f16 and bf16 compute in float32 and round once, and sums of integers do not wrap: the whole catalogue."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.operators.arithmetic import Array, computed, from_memory, rounded, to_memory
from helpers.operators.case import Case
from helpers.operators.cases import CASES
from helpers.pipeline.candidates import random_config, run
from tilesmith.codegen.pipeline import build
from tilesmith.common.errors import UserError
from tilesmith.schedules.sketch import UNSCHEDULED
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor import ops
from tilesmith.tensor.dtype import DTYPES
from tilesmith.tensor.oracle.random_inputs import random_inputs
from tilesmith.tensor.oracle.reference import evaluate
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.parse import parse

NARROW = ("f16", "bf16")
ANGLES = ("asin", "acos", "atan", "atan2")  # long expressions: test_special_values.py has them
DATA = {"plain": (1.0, 0.0), "large": (300.0, 0.0), "small": (0.01, 0.0), "offset": (3.0, 100.0)}  # scale, shift
WIDE_ROUNDINGS = 4  # how many of float32's error bounds, beside one rounding to the storage type, a result may be off


WHOLE = ("bincount", "floordiv")  # operators of whole numbers

FIRST = {
    case.operator: case
    for case in reversed(CASES)
    if case.operator not in WHOLE and case.arguments.get("dtype", "f32") == "f32"
}


@pytest.mark.parametrize("name", WHOLE)
def test_operators_of_whole_numbers_refuse_narrow_floats(name: str) -> None:
    for case in CASES:
        if case.operator == name:
            with pytest.raises(UserError):
                case.program(dtype="bf16")


def drawn(program: Program, scale: float, shift: float, seed: int = 3) -> tuple[Array, ...]:
    """Inputs of which narrow floats are scaled and shifted; everything else is as it is always drawn."""
    return tuple(
        to_memory(from_memory(x, i.tensor.dtype) * scale + shift, i.tensor.dtype) if i.tensor.dtype.bits == 16 else x
        for i, x in zip(program.inputs, random_inputs(program, seed), strict=True)
    )


def complaints(case: Case, dtype: str, inputs: tuple[Array, ...], found: tuple[Array, ...]) -> list[str]:
    """Where results are further from those of float64 than one rounding and the errors of float32 allow."""
    program = case.program(dtype=dtype)
    carried = [from_memory(x, i.tensor.dtype) for x, i in zip(inputs, program.inputs, strict=True)]
    exact, single = (
        [x.astype(i.tensor.dtype.numpy) for x, i in zip(carried, case.program(dtype=wide).inputs, strict=True)]
        for wide in ("f64", "f32")
    )
    truths = evaluate(case.program(dtype="f64"), exact)
    bounds = evaluate(case.program(dtype="f32"), single, absolute=True)
    said = []
    for name, one, truth, bound in zip(program.outputs, found, truths, bounds, strict=True):
        kind = program.tensors[name].dtype
        if not kind.is_float:
            said += [] if np.array_equal(one, truth) else [f"{name}: {one} instead of {truth}"]
            continue
        wanted = rounded(np.asarray(truth), kind).astype(np.float64)
        smallest = 2.0**-24 if kind.name == "f16" else 2.0**-133
        unit = np.maximum(np.abs(truth) * kind.eps, smallest)
        with np.errstate(invalid="ignore"):
            away = np.abs(one.astype(np.float64) - truth) - WIDE_ROUNDINGS * DTYPES["f32"].eps * bound
        bad = (away > 0.51 * unit) & (one != wanted) & ~(np.isnan(one) & np.isnan(wanted))
        bad |= np.isnan(one) != np.isnan(wanted)
        if bad.any():
            place = tuple(np.argwhere(np.atleast_1d(bad))[0])
            said.append(f"{name}{place}: {np.atleast_1d(one)[place]} instead of {np.atleast_1d(truth)[place]}")
    return said


@pytest.mark.parametrize(("dtype", "data"), [("f16", "large"), ("bf16", "offset")])
@pytest.mark.parametrize("name", [name for name in FIRST if name not in ANGLES])
def test_programs_ask_for_one_rounding(name: str, dtype: str, data: str) -> None:
    """With the data that are hardest for a dtype: squares overflow in f16, differences of large numbers vanish in bf16."""
    case = FIRST[name]
    program = case.program(dtype=dtype)
    inputs = drawn(program, *DATA[data])
    assert not complaints(case, dtype, inputs, computed(program, inputs))


def kernel_results(program: Program, inputs: tuple[Array, ...], also_unscheduled: bool = True) -> list[list[Array]]:
    """What the unscheduled nest and a candidate of the last sketch give, floats of 16 bits as float32."""
    task = Task.of(program, parse_target("host"), 1)
    found = []
    for sketch in (UNSCHEDULED, task.sketches[-1])[not also_unscheduled :]:
        values = {} if sketch is UNSCHEDULED else random_config(task, sketch, np.random.default_rng(1))
        assert values is not None
        outputs = run(build(task.program, sketch, values, task.target, 1), task, inputs, at_end=True)
        kinds = [task.program.tensors[name].dtype for name in task.program.outputs]
        found.append([from_memory(o, k) if k.bits == 16 else o for o, k in zip(outputs, kinds, strict=True)])
    return found


def of_kernels(name: str, dtype: str, kinds: tuple[str, ...]) -> list[str]:
    case = FIRST[name]
    program = case.program(dtype=dtype)
    said = []
    for data in kinds:
        inputs = drawn(program, *DATA[data])
        for found in kernel_results(program, inputs):
            said += [f"{data}: {one}" for one in complaints(case, dtype, inputs, tuple(found))]
    return said


ACCUMULATING = (
    "row_sum", "row_mean", "variance", "norm2", "log_sum_exp", "cumsum", "softmax", "log_softmax", "layer_norm", "rms_norm",
    "batch_norm", "group_norm", "attention", "avg_pool2d", "mse_loss", "cross_entropy", "cosine_similarity", "swiglu",
)  # fmt: skip


@pytest.mark.parametrize("name", ACCUMULATING)
def test_kernels_of_bf16_round_once(name: str) -> None:
    assert not of_kernels(name, "bf16", ("offset",))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("name", FIRST)
def test_all_kernels_round_once(name: str, dtype: str) -> None:
    assert not of_kernels(name, dtype, tuple(DATA))


NORMAL = np.random.default_rng(0).normal(0, 300, (4, 1024)).astype(np.float16).astype(np.float64)
NORM = {"rows": 4, "columns": 1024}


def normalised(x: Array) -> Array:
    return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)


HARD: list[tuple[str, dict[str, object], str, tuple[Array, ...], Array]] = [
    ("layer_norm", NORM, "f16", (NORMAL, np.ones(1024), np.zeros(1024)), normalised(NORMAL)),
    ("layer_norm", NORM, "f16", (rounded(NORMAL + 100, DTYPES["f16"]), np.ones(1024), np.zeros(1024)),
     normalised(rounded(NORMAL + 100, DTYPES["f16"]).astype(np.float64))),
    ("row_mean", {"rows": 2, "columns": 512}, "f16", (np.full((2, 512), 300.0),), np.full(2, 300.0)),
    ("softmax", {"rows": 1, "columns": 70_000}, "f16", (np.zeros((1, 70_000)),), np.full((1, 70_000), 1 / 70_000)),
    ("cumsum", {"shape": (5000,)}, "bf16", (np.ones(5000),), np.arange(1.0, 5001)),
    ("cumprod", {"shape": (300,)}, "bf16", (np.full(300, 1.0078125),), 1.0078125 ** np.arange(1, 301)),
    ("row_sum", {"rows": 2, "columns": 5000}, "bf16", (np.ones((2, 5000)),), np.full(2, 5000.0)),
    ("column_sum", {"rows": 5000, "columns": 3}, "f16", (np.ones((5000, 3)),), np.full(3, 5000.0)),
    ("total", {"size": 5000}, "bf16", (np.ones(5000),), np.array(5000.0)),
    ("prod", {"shape": (300,)}, "bf16", (np.full(300, 1.0078125),), np.array(1.0078125**300)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "sizes", "dtype", "inputs", "truth"), HARD, ids=[f"{h[0]}-{h[2]}" for h in HARD])
def test_what_a_narrow_accumulator_loses(
    name: str, sizes: dict[str, object], dtype: str, inputs: tuple[Array, ...], truth: Array
) -> None:
    kind = DTYPES[dtype]
    program = ops.find_operator(name)(**sizes, dtype=dtype)
    for (found,) in kernel_results(program, tuple(to_memory(x, kind) for x in inputs)):
        np.testing.assert_allclose(found.astype(np.float64), truth, rtol=0.51 * kind.eps, atol=2.0**-24)


@pytest.mark.parametrize("combiner", ["sum", "prod"])
@pytest.mark.parametrize("dtype", NARROW)
def test_any_program_accumulates_in_float32(dtype: str, combiner: str) -> None:
    text = f"input x: {dtype}[3, 700]\ns[i: 3] = {combiner}[k: 700](x[i, k])\ny[i: 3] = s[i] * {dtype}(2)\nreturn y, s"
    x = np.ones((3, 700)) if combiner == "sum" else np.full((3, 700), 1 + 2.0**-7)
    wanted = 700.0 if combiner == "sum" else (1 + 2.0**-7) ** 700
    for y, s in kernel_results(parse(text), (to_memory(x, DTYPES[dtype]),)):
        np.testing.assert_allclose(s, wanted, rtol=0.51 * DTYPES[dtype].eps)
        np.testing.assert_array_equal(y, 2 * s)


WHOLE = {
    "sum": ({"shape": (300,)}, np.sum), "prod": ({"shape": (300,)}, np.prod), "total": ({"size": 300}, np.sum),
    "norm1": ({"shape": (300,)}, lambda x: np.abs(x).sum()), "cumsum": ({"shape": (300,)}, np.cumsum),
    "cumprod": ({"shape": (300,)}, np.cumprod), "row_sum": ({"rows": 2, "columns": 300}, lambda x: x.sum(1)),
    "column_sum": ({"rows": 300, "columns": 2}, lambda x: x.sum(0)),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["i8", "u8", "i16", "i32"])
@pytest.mark.parametrize("name", WHOLE)
def test_sums_of_integers_are_as_wide_as_those_of_numpy(name: str, dtype: str) -> None:
    sizes, truth = WHOLE[name]
    program = ops.find_operator(name)(**sizes, dtype=dtype)
    kind = DTYPES[dtype].numpy
    limits = np.iinfo(kind)
    (item,) = program.inputs
    x = np.resize([limits.min, limits.max, limits.max, limits.min // 2], item.tensor.shape).astype(kind)
    if "prod" in name:
        x = np.resize([1, 2, 1, 1, 1, 1], item.tensor.shape).astype(kind)
    (found,) = evaluate(program, (x,))
    assert program.tensors[program.outputs[0]].dtype.name == "i64"
    np.testing.assert_array_equal(found, truth(x.astype(np.int64)))
    if dtype == "i8":
        for (one,) in kernel_results(program, (x,)):
            np.testing.assert_array_equal(one, found)
