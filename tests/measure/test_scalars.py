"""Tensors of rank 0, in every dtype and every role, through trials and through calls, on processors and on GPUs."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import tilesmith as ts
from tilesmith.codegen.pipeline import build
from tilesmith.common.errors import ArgumentError
from tilesmith.measure.checking.poison import first_unwritten, poison
from tilesmith.measure.requests import TimeRequest
from tilesmith.measure.result import Measurement, Status
from tilesmith.measure.timing.timer import Timer
from tilesmith.schedules.sketch import UNSCHEDULED
from tilesmith.targets.target import parse_target
from tilesmith.tensor.dtype import DTYPES
from tilesmith.tensor.oracle.random_inputs import random_inputs
from tilesmith.tensor.text.parse import parse

NUMBERS = [name for name in DTYPES if name != "bool"]


class Quiet:
    """A link to nobody."""

    def stage(self, name: str, item: int = 0) -> None:
        pass

    def quiet(self) -> None:
        pass


def scalars(dtype: str) -> str:
    """A scalar as an input, a constant, an intermediate, an output of a reduction, and one that nothing is summed for."""
    if dtype == "bool":
        return (
            "input x0: bool\nconstant x1: bool\ninput x2: f32[7]\nt0[] = max[a0: 7](x2[a0])\n"
            "t1[] = select(x0[], x1[], t0[] > 0.5)\nreturn t1\n"
        )
    return (
        f"input x0: {dtype}\nconstant x1: {dtype}\ninput x2: {dtype}[7]\nt0[] = max[a0: 7](x2[a0] + x1[])\n"
        "t1[] = max(t0[], x0[])\nt2[] = x0[]\nreturn t0, t1, t2\n"
    )


@pytest.mark.parametrize("target", ["host", "cuda:emulator"])
@pytest.mark.parametrize("dtype", [*NUMBERS, "bool"])
def test_trial_of_scalars_is_right(dtype: str, target: str) -> None:
    text = scalars(dtype)
    artifact = build(parse(text), UNSCHEDULED, {}, parse_target(target), 1)
    timer = Timer(device="cpu" if target == "host" else target)
    end = timer.handle(TimeRequest(text, pickle.dumps(artifact), 1), Quiet())  # type: ignore[arg-type]
    right = (Status.OK, Status.UNSTABLE)  # a few nanoseconds, which a busy machine spreads
    assert isinstance(end, Measurement) and end.status in right, end.failure


@pytest.mark.parametrize("dtype", [*NUMBERS, "bool"])
def test_an_unwritten_scalar_shows(dtype: str) -> None:
    array = np.zeros((), DTYPES[dtype].numpy)
    poison(array, DTYPES[dtype])
    assert array.tobytes() != bytes(array.nbytes)
    if DTYPES[dtype].is_float or dtype == "bool":
        assert first_unwritten(array, DTYPES[dtype]) == 0


@pytest.mark.parametrize("dtype", [*NUMBERS, "bool"])
def test_drawn_scalars_are_arrays(dtype: str) -> None:
    for array in random_inputs(parse(scalars(dtype))):
        assert isinstance(array, np.ndarray)


@pytest.mark.parametrize("target", ["host", "cuda:emulator"])
@pytest.mark.parametrize("dtype", ["f32", "i16", "i64", "bool"])
def test_calls_take_and_give_scalars(dtype: str, target: str) -> None:
    program = parse(scalars(dtype))
    s, c, x = random_inputs(program, 3)
    kernel = ts.compile(program, target=target, threads=1, constants=[c])
    found = kernel(s, x)
    made = [out if isinstance(out, np.ndarray) else out.numpy() for out in (found if dtype != "bool" else [found])]
    assert all(isinstance(out, np.ndarray) and out.shape == () for out in made)
    assert made[-1] == (s if dtype != "bool" else (c if s else x.max() > 0.5))


def test_results_go_into_an_array_and_never_into_a_numpy_scalar() -> None:
    program = parse("input x: i32[5]\ny[] = max[k: 5](x[k])\nreturn y")
    kernel = ts.compile(program, threads=1)
    x, out = np.arange(5, dtype=np.int32), np.zeros((), np.int32)
    kernel(x, out=out)
    assert out == 4
    with pytest.raises(ArgumentError, match="read-only"):
        kernel(x, out=np.int32(0))
