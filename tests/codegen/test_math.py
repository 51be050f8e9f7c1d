"""Vector math holds its stated bounds on every processor, and special values are those of NumPy."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy import special
from tilesmith.codegen import math as inline_math
from tilesmith.codegen import math_exponential, math_rational
from tilesmith.tensor.dtype import DType, bf16, f16, f32, i32
from vector_math import fit
from vector_math.harness import PROCESSORS, all_binades, compile_function, error_in_ulp, special_values

TRUTH = {
    "exp": np.exp,
    "log": np.log,
    "tanh": np.tanh,
    "erf": special.erf,
    "sigmoid": special.expit,
    "rsqrt": lambda x: 1 / np.sqrt(x),
}

# the bounds of the docstrings, in ulp, and the arguments where the function does most of its work
F32_CASES = {
    "exp": (2.0, (-104, 89)),
    "log": (1.0, (0, 4)),
    "tanh": (6.5, (-10, 10)),
    "erf": (6.5, (-4.5, 4.5)),
    "sigmoid": (3.5, (-104, 20)),
    "rsqrt": (1.5, (0, 4)),
}


def check(name: str, dtype: DType, processor: str, arguments: np.ndarray, truth: np.ndarray, bound: float) -> None:
    """Finite values within the bound; zeros with their sign, infinities and NaN exactly where the truth has them."""
    found = compile_function(name, dtype, processor)(arguments)
    with np.errstate(over="ignore"):
        expected = truth.astype(found.dtype)
    assert np.array_equal(np.isnan(found), np.isnan(expected))
    finite = np.isfinite(expected) & np.isfinite(found)
    errors = error_in_ulp(found[finite], truth[finite])
    worst = errors.argmax()
    assert errors[worst] <= bound, (
        f"{name}({arguments[finite][worst]!r}) = {found[finite][worst]!r}: {errors[worst]} ulp"
    )
    infinite = np.isinf(expected) | np.isinf(found)
    assert np.array_equal(found[infinite], expected[infinite])
    zero = (expected == 0) & (arguments == 0)
    assert np.array_equal(np.signbit(found[zero]), np.signbit(expected[zero]))


@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize("name", F32_CASES)
def test_f32_is_within_its_bound(name: str, processor: str) -> None:
    bound, span = F32_CASES[name]
    dense = np.linspace(*span, 200_001, dtype=np.float32)
    kind = np.dtype(np.float32)
    arguments = np.concatenate([dense, all_binades(kind, 300), special_values(kind)])
    with np.errstate(all="ignore"):
        truth = TRUTH[name](arguments.astype(np.float64))
    check(name, f32, processor, arguments, truth, bound)


@pytest.mark.parametrize("name", ["tanh", "erf", "sigmoid"])
@pytest.mark.parametrize("processor", ["avx512", "sse2"])
def test_saturating_functions_reach_their_limit_and_never_pass_it(name: str, processor: str) -> None:
    function = compile_function(name, f32, processor)
    near_the_limit = np.arange(np.float32(2.5).view(np.int32), np.float32(20).view(np.int32), 7, np.int32).view(
        np.float32
    )
    assert function(near_the_limit).max() <= 1.0
    assert function(np.array([np.inf, 1e30, 20], np.float32)).tolist() == [1.0] * 3
    if name != "sigmoid":
        assert function(np.array([-np.inf, -1e30, -20], np.float32)).tolist() == [-1.0] * 3


@pytest.mark.parametrize("name", F32_CASES)
def test_code_for_wide_vectors_has_no_calls_and_no_scalar_arithmetic(name: str) -> None:
    assembly = compile_function(name, f32, "avx512").assembly
    assert not re.search(r"\bcallq?\b", assembly)
    assert not re.findall(r"\bv\w+(?:ss|sd)\b(?<!broadcastss)(?<!broadcastsd)", assembly)
    assert len(re.findall(r"\bvdivps\b", assembly)) == (0 if name in ("exp", "log") else 1)


@pytest.mark.parametrize("processor", ["avx2", "sse2", "scalar"])
@pytest.mark.parametrize("name", F32_CASES)
def test_code_for_narrow_vectors_does_not_call_the_c_library(name: str, processor: str) -> None:
    assert not re.search(r"\bcallq?\b", compile_function(name, f32, processor).assembly)


@pytest.mark.parametrize("name", F32_CASES)
def test_f16_is_computed_in_f32(name: str) -> None:
    every_half = np.arange(2**16, dtype=np.uint16).view(np.float16)
    with np.errstate(all="ignore"):
        truth = TRUTH[name](every_half.astype(np.float64))
    check(name, f16, "avx2", every_half, truth, 0.51)


def test_exp_takes_at_most_17_vector_instructions() -> None:
    loop = compile_function("exp", f32, "avx512").assembly.split(".LBB0_1:")[1].split("jl\t")[0]
    assert len(re.findall(r"\tv(?!mov)\w+", loop)) <= 17


def test_the_text_is_for_the_shape_that_was_asked() -> None:
    assert inline_math.symbol("exp", f32, 16) == "tilesmith.exp.v16f32"
    assert inline_math.symbol("exp", f32, 1) == "tilesmith.exp.f32"
    head = inline_math.definition("exp", f32, 8).splitlines()[0]
    assert head == "define internal <8 x float> @tilesmith.exp.v8f32(<8 x float> %x) alwaysinline {"
    assert inline_math.declares("exp", f32, 8) == (
        "declare <8 x float> @llvm.fmuladd.v8f32(<8 x float>, <8 x float>, <8 x float>)",
    )


@pytest.mark.parametrize(("name", "dtype"), [("exp", i32), ("exp", bf16), ("gamma", f32)])
def test_what_does_not_exist_is_refused(name: str, dtype: DType) -> None:
    with pytest.raises(ValueError, match=f"no vector math for {name} of {dtype}"):
        inline_math.definition(name, dtype, 4)


def test_the_tables_are_what_the_fits_give() -> None:
    for name, (coefficients, error) in fit.fits().items():
        module = math_rational if hasattr(math_rational, name) else math_exponential
        assert getattr(module, name) == tuple(map(float, coefficients)), name
        assert error < (2**-24 if name.endswith("F32") else 2**-53), name
