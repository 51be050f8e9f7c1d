"""The oracle gives code of a function the room that the table of the language tells, no less and no more."""

from __future__ import annotations

import math

import numpy as np
import pytest

from helpers.vector_math import fit
from helpers.vector_math.harness import all_binades, compile_function
from tilesmith.codegen.math.intrinsics import INTRINSICS
from tilesmith.tensor.dtype import DType, f32, f64
from tilesmith.tensor.language import MATHEMATICS
from tilesmith.tensor.oracle.reference import bounded
from tilesmith.tensor.oracle.roundings import FACTOR, NUMPY_ULP
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.parse import parse

NAMES = [name for name, entry in MATHEMATICS.items() if entry.rounding is not None and name not in INTRINSICS]


def program_of(name: str, dtype: DType, size: int) -> Program:
    arity = MATHEMATICS[name].arity
    declared = "".join(f"input {x}: {dtype}[{size}]\n" for x in "xy"[:arity])
    return parse(f"{declared}z[i: {size}] = {name}({', '.join(f'{x}[i]' for x in 'xy'[:arity])})\nreturn z\n")


def arguments(name: str, dtype: DType) -> list[np.ndarray]:
    near = np.random.default_rng(0).uniform(-9, 9, 4000).astype(dtype.numpy)
    one = np.concatenate([near, all_binades(dtype.numpy, 40 if dtype == f32 else 6)])
    return [one, np.random.default_rng(1).permutation(one)][: MATHEMATICS[name].arity]


@pytest.mark.parametrize("processor", ["avx512", "avx2", "sse2"])
@pytest.mark.parametrize("dtype", [f32, f64], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_code_is_within_the_bounds_of_the_oracle(name: str, dtype: DType, processor: str) -> None:
    given = arguments(name, dtype)
    found = compile_function(name, dtype, processor)(*given).astype(np.float64)
    ((truth, room),) = bounded(program_of(name, dtype, given[0].size), given)
    assert np.array_equal(np.isnan(found), np.isnan(truth))
    known = np.isfinite(truth) & (np.abs(truth) < float(np.finfo(dtype.numpy).max))
    excess = np.abs(found[known] - truth[known]) / np.maximum(room[known], 5e-324)
    worst = excess.argmax()
    assert excess[worst] <= 1, (
        f"{name}{[x[known][worst] for x in given]} = {found[known][worst]}, not {truth[known][worst]}"
    )


@pytest.mark.parametrize("dtype", [f32, f64], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_code_that_is_farther_off_than_the_table_says_is_found(name: str, dtype: DType) -> None:
    """Where a result is normal, twice the room is refused; one rounding with its room is the least there is."""
    given = arguments(name, dtype)
    ((truth, room),) = bounded(program_of(name, dtype, given[0].size), given)
    rounding = MATHEMATICS[name].rounding
    assert rounding is not None
    told = rounding.ulp[0] if dtype == f32 else rounding.ulp[1] + NUMPY_ULP
    small = float(np.finfo(dtype.numpy).tiny) / dtype.eps * 2**8  # from here on what is lost below it does not count
    normal = (np.abs(truth) > small) & (np.abs(truth) < float(np.finfo(dtype.numpy).max) / 16)
    assert normal.sum() > 1000
    assert (room[normal] <= 1.01 * max(told, FACTOR) * dtype.eps * np.abs(truth[normal])).all()


def test_erfc_of_the_oracle_has_all_digits_of_small_results() -> None:
    """SciPy's is off by hundreds of units there, by which right kernels of f64 would be called wrong."""
    x = np.linspace(-3, 26, 400)
    truth = [
        float(1 - fit.erf(fit.D(v)) if v < 1 else (-(fit.D(v) ** 2)).exp() * fit.erfcx(fit.D(v))) for v in x.tolist()
    ]
    found = MATHEMATICS["erfc"].value(x)
    units = np.abs(found - truth) / np.spacing(np.abs(truth))
    assert units.max() <= NUMPY_ULP, (x[units.argmax()], units.max())
    ends = np.array([-np.inf, -30.0, 30.0, np.inf])
    assert MATHEMATICS["erfc"].value(ends).tolist() == [2.0, 2.0, 0.0, 0.0]
    assert math.isnan(MATHEMATICS["erfc"].value(np.array([np.nan]))[0])


def test_sigmoid_of_the_oracle_goes_through_the_subnormal_numbers() -> None:
    x = np.array([-709.5, -720.0, -744.0])
    assert MATHEMATICS["sigmoid"].value(x) == pytest.approx(np.exp(x), rel=1e-15, abs=0)
