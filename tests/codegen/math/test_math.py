"""Vector math holds its stated bounds on every processor, and special values are those of NumPy."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from decimal import Decimal, localcontext
from functools import cache

import numpy as np
import pytest
from scipy import special

from helpers.vector_math import fit
from helpers.vector_math.harness import PROCESSORS, all_binades, compile_function, error_in_ulp, special_values
from tilesmith.codegen.math import exponential as math_exponential
from tilesmith.codegen.math import functions as inline_math
from tilesmith.codegen.math import normal as math_normal
from tilesmith.codegen.math import power as math_power
from tilesmith.codegen.math import rational as math_rational
from tilesmith.codegen.math import trigonometric as math_trigonometric
from tilesmith.codegen.math.intrinsics import INTRINSICS
from tilesmith.tensor.dtype import DType, bf16, f16, f32, f64, i32
from tilesmith.tensor.language import MATHEMATICS

BOUNDS = {name: entry.rounding.ulp for name, entry in MATHEMATICS.items() if entry.rounding}  # f32 and f64
CASES = [name for name in BOUNDS if MATHEMATICS[name].arity == 1 and name not in INTRINSICS]
TRUTH = {name: MATHEMATICS[name].value for name in CASES}
TRUTH["sigmoid"] = lambda x: 1 / (1 + np.exp(-x))  # in any precision
DIGITS = ("erf", "erfc")  # have no truth in long double: in f64 they are compared with decimal numbers below

VANISHES = {("exp", f32), ("erfc", f32)}  # 0 where the truth is subnormal, on processors that pay for such numbers

# where a function does most of its work, in f32 and f64
SPANS = {
    "exp": ((-104, 89), (-750, 712)),
    "exp2": ((-152, 130), (-1080, 1030)),
    "log": ((0, 4), (0, 4)),
    "log2": ((0, 4), (0, 4)),
    "tanh": ((-10, 10), (-20, 20)),
    "erf": ((-4.5, 4.5), (-6.5, 6.5)),
    "erfc": ((-4, 10.5), (-6, 27.5)),
    "sigmoid": ((-104, 20), (-745, 40)),
    "rsqrt": ((0, 4), (0, 4)),
    "sin": ((-100, 100), (-100, 100)),
    "cos": ((-100, 100), (-100, 100)),
}


def test_code_and_the_table_of_the_language_know_the_same_functions() -> None:
    """Both ways: the language asks for what there is code for, and nothing is written that it cannot ask for."""
    assert not set(inline_math.FUNCTIONS) & set(INTRINSICS)
    asked_for = {*MATHEMATICS, "gelu"}  # which stands for an expression: tensor/wholes.py
    missing = asked_for - {*inline_math.FUNCTIONS, *INTRINSICS}
    assert not missing, f"codegen/math has no code for {missing}"
    unknown = {*inline_math.FUNCTIONS, *INTRINSICS} - asked_for
    assert not unknown, f"tensor/mathematics.py has no entry for {unknown}"
    assert set(INTRINSICS) == {n for n, e in MATHEMATICS.items() if e.rounding is None or max(e.rounding.ulp) <= 0.5}
    assert set(CASES) == set(SPANS), "say where the function does most of its work"


def check(
    name: str, dtype: DType, processor: str, arguments: tuple[np.ndarray, ...], truth: np.ndarray, bound: float
) -> None:
    """Finite values within the bound; infinities, NaN and the signs of zeros exactly as in the truth."""
    found = compile_function(name, dtype, processor)(*arguments)
    with np.errstate(over="ignore"):
        expected = truth.astype(found.dtype)
    assert np.array_equal(np.isnan(found), np.isnan(expected))
    finite = np.isfinite(expected) & np.isfinite(found)
    if (name, dtype) in VANISHES and "avx512" in processor:
        finite &= (np.abs(truth) >= np.finfo(found.dtype).tiny) | (found != 0)
    errors = error_in_ulp(found[finite], truth[finite])
    worst = errors.argmax()
    place = [a[finite][worst] for a in arguments]
    assert errors[worst] <= bound, f"{name}{place} = {found[finite][worst]!r}: {errors[worst]} ulp"
    infinite = np.isinf(expected) | np.isinf(found)
    assert np.array_equal(found[infinite], expected[infinite])
    zero = (expected == 0) & (found == 0)
    assert np.array_equal(np.signbit(found[zero]), np.signbit(expected[zero]))


def samples(kind: np.dtype, span: tuple[float, float], dense: int, per_binade: int) -> np.ndarray:
    """Many numbers of the span, some of each binade, and the special ones."""
    return np.concatenate([np.linspace(*span, dense).astype(kind), all_binades(kind, per_binade), special_values(kind)])


@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize("name", CASES)
def test_f32_is_within_its_bound(name: str, processor: str) -> None:
    bound, span = BOUNDS[name][0], SPANS[name][0]
    arguments = samples(np.dtype(np.float32), span, 200_001, 300)
    with np.errstate(all="ignore"):
        truth = TRUTH[name](arguments.astype(np.float64))
    check(name, f32, processor, (arguments,), truth, bound)


@pytest.mark.parametrize("processor", [name for name in PROCESSORS if "avx512" in name])
def test_no_power_of_e_is_subnormal_where_that_is_slow(processor: str) -> None:
    """The least normal one is there, and nothing below it."""
    arguments = np.linspace(-104, -87, 100_001).astype(np.float32)
    found = compile_function("exp", f32, processor)(arguments)
    with np.errstate(under="ignore"):
        truth = np.exp(arguments.astype(np.float64))
    tiny = np.finfo(np.float32).tiny
    assert not ((found > 0) & (found < tiny)).any()
    assert np.array_equal(found > 0, truth >= tiny)


@pytest.mark.parametrize("processor", [name for name in PROCESSORS if "avx512" in name])
@pytest.mark.parametrize(("name", "span"), [("erfc", (9.1, 10.3)), ("gelu", (-14.6, -13.1))])
def test_no_tail_of_the_normal_distribution_is_subnormal_where_that_is_slow(
    name: str, span: tuple[float, float], processor: str
) -> None:
    """Whatever the number of lanes: half a vector is there, too."""
    arguments = np.linspace(*span, 100_001).astype(np.float32)
    truth = true_gelu(arguments) if name == "gelu" else special.erfc(arguments.astype(np.float64))
    for size in (100_001, 5, 1):
        found = compile_function(name, f32, processor)(arguments[:size])
        tiny = np.finfo(np.float32).tiny
        assert not ((found != 0) & (np.abs(found) < tiny)).any()
        assert (found[np.abs(truth[:size]) > 1.001 * tiny] != 0).all()


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="the truth needs a type wider than double")
@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize("name", [name for name in CASES if name not in DIGITS])
def test_f64_is_within_its_bound(name: str, processor: str) -> None:
    bound, span = BOUNDS[name][1], SPANS[name][1]
    arguments = samples(np.dtype(np.float64), span, 50_001, 20)
    with np.errstate(all="ignore"):
        truth = TRUTH[name](arguments.astype(np.longdouble))
    check(name, f64, processor, (arguments,), truth, bound)


def true_gelu(x: np.ndarray) -> np.ndarray:
    """To all digits of its left tail, in long double but for the factor that changes slowly."""
    z = np.minimum(np.abs(x.astype(np.longdouble)), 1000)
    tail = z * np.exp(-z * z / 2) * special.erfcx((z / np.sqrt(np.longdouble(2))).astype(np.float64)) / 2
    return np.maximum(x, 0) - tail


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="the truth needs a type wider than double")
@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize(("dtype", "left"), [(f32, -14.6), (f64, -37.0)], ids=str)
def test_gelu_is_within_its_bound(dtype: DType, left: float, processor: str) -> None:
    """10 + x^2 units of the result where x is negative, 10 elsewhere; -0 where it vanishes."""
    x = samples(dtype.numpy, (left, 8.0), 100_001, 100)
    x = x[~np.isnan(x)]
    truth, found = true_gelu(x), compile_function("gelu", dtype, processor)(x)
    assert np.array_equal(np.signbit(found), np.signbit(x))
    infinite = np.isinf(x)
    assert found[infinite].tolist() == [np.inf if each > 0 else 0 for each in x[infinite]]
    bound = 10 + np.where(x < 0, np.minimum(np.abs(x), 40).astype(np.float64), 0) ** 2
    errors = error_in_ulp(found[~infinite], truth[~infinite]) / bound[~infinite]
    if dtype is f32 and "avx512" in processor:
        errors[(np.abs(truth[~infinite]) < np.finfo(np.float32).tiny) & (found[~infinite] == 0)] = 0
    worst = errors.argmax()
    assert errors[worst] <= 1, f"gelu({x[~infinite][worst]}) = {found[~infinite][worst]}: {errors[worst]} of the bound"
    assert np.isnan(compile_function("gelu", dtype, processor)(np.array([np.nan], dtype.numpy))).all()


def test_gelu_takes_at_most_24_vector_instructions() -> None:
    loop = hot_code(compile_function("gelu", f32, "avx512").assembly).split(".LBB0_1:")[1].split("jl\t")[0]
    assert len(re.findall(r"\tv(?!mov)\w+", loop)) <= 24


@cache
def true_erf() -> tuple[tuple[float, Decimal], ...]:
    """(x, erf(x)): many numbers near 0, and the first and a late one of every binade of f64, both signs."""
    binades = np.ldexp(1.0, np.arange(-1074, 3))
    ends = np.concatenate([binades, 1.9 * binades])
    arguments = np.concatenate([np.linspace(-6.2, 6.2, 1501), 10.0 ** np.arange(-20, 0), ends, -ends])
    # the next term of the series, x^3/3, is below the last of 48 digits
    straight = 2 / fit.PI.sqrt()
    return tuple((x, straight * Decimal(x) if abs(x) < 2.0**-80 else fit.erf(Decimal(x))) for x in arguments.tolist())


@pytest.mark.parametrize("processor", PROCESSORS)
def test_erf_f64_is_within_its_bound(processor: str) -> None:
    arguments = np.array([x for x, _ in true_erf()])
    found = compile_function("erf", f64, processor)(arguments)
    for (x, truth), y in zip(true_erf(), found.tolist(), strict=True):
        unit = Decimal(float(np.spacing(abs(float(truth)))))
        assert abs(Decimal(y) - truth) <= Decimal(BOUNDS["erf"][1]) * unit, x
    ends = special_values(np.dtype(np.float64))
    check("erf", f64, processor, (ends,), special.erf(ends), BOUNDS["erf"][1])


@pytest.mark.parametrize("processor", PROCESSORS)
def test_erfc_f64_is_within_its_bound(processor: str) -> None:
    """In units of the result, which gets very small."""
    arguments = np.concatenate(
        [np.linspace(-6.2, 26.5, 901), 2.0 ** np.arange(-70, 0, 3), -(2.0 ** np.arange(-70, 0, 3))]
    )
    found = compile_function("erfc", f64, processor)(arguments)
    for x, y in zip(arguments.tolist(), found.tolist(), strict=True):
        exact = Decimal(x)
        truth = 1 - fit.erf(exact) if x < 1 else (-exact * exact).exp() * fit.erfcx(exact)
        unit = Decimal(float(np.spacing(float(truth))))
        assert abs(Decimal(y) - truth) <= Decimal(BOUNDS["erfc"][1]) * unit, x
    ends = np.array([-np.inf, -30, -0.0, 0.0, 5e-324, 28, 1e300, np.inf, np.nan])
    check("erfc", f64, processor, (ends,), special.erfc(ends), BOUNDS["erfc"][1])


def power_arguments(kind: np.dtype, largest: float) -> tuple[np.ndarray, np.ndarray]:
    """Pairs for pow: all pairs of special values, and random ones whose results lie all over the range."""
    odd = [
        -1,
        2,
        -2,
        3,
        -3,
        0.5,
        -0.5,
        2.5,
        -2.5,
        1e10,
        2.0**23 - 1,
        2.0**23 - 0.5,
        2.0**24 + 2,
        2.0**53 - 1,
        1 - 2.0**-24,
    ]
    ends = np.concatenate([special_values(kind), np.array(odd, kind)])
    pairs = np.array(list(itertools.product(ends, ends)), kind)
    random = np.random.default_rng(0)
    exponents = np.log(largest) * random.uniform(-1.02, 1.02, 40_000)
    wide = np.abs(all_binades(kind, 200 if kind.itemsize == 4 else 20))
    wide = random.choice(wide[wide > 0], 20_000).astype(np.float64)
    near_one = 1 + random.uniform(-1, 1, 20_000) * 2.0 ** -random.integers(1, 20, 20_000)
    bases = np.concatenate([wide, near_one])
    x = np.concatenate([pairs[:, 0], bases, -random.integers(1, 30, 5_000)]).astype(kind)
    y = np.concatenate([pairs[:, 1], exponents / np.log(bases), random.integers(-20, 20, 5_000)]).astype(kind)
    return x, y


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="the truth needs a type wider than double")
@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize("dtype", [f32, f64], ids=str)
def test_pow_is_within_its_bound_and_has_the_special_cases_of_numpy(dtype: DType, processor: str) -> None:
    kind, bound = dtype.numpy, BOUNDS["pow"][dtype == f64]
    x, y = power_arguments(kind, float(np.finfo(kind).max))
    with np.errstate(all="ignore"):
        truth = np.power(x.astype(np.longdouble), y.astype(np.longdouble))
        truth[np.isnan(np.power(x, y))] = np.nan  # a signaling NaN to the power 0, for one
    check("pow", dtype, processor, (x, y), truth, bound)


@pytest.mark.parametrize("name", ["tanh", "erf", "sigmoid"])
@pytest.mark.parametrize("processor", ["avx512", "sse2"])
def test_saturating_functions_reach_their_limit_and_never_pass_it(name: str, processor: str) -> None:
    function = compile_function(name, f32, processor)
    near_the_limit = np.arange(np.float32(2.5).view(np.int32), np.float32(20).view(np.int32), 7, np.int32)
    assert function(near_the_limit.view(np.float32)).max() <= 1.0
    assert function(np.array([np.inf, 1e30, 20], np.float32)).tolist() == [1.0] * 3
    if name != "sigmoid":
        assert function(np.array([-np.inf, -1e30, -20], np.float32)).tolist() == [-1.0] * 3


def hot_code(assembly: str) -> str:
    """The function `loop` alone, without the out-of-line code for huge arguments of sin and cos."""
    return assembly.split("\nloop:")[1].split(".Lfunc_end", maxsplit=1)[0]


@pytest.mark.parametrize("name", [*CASES, "gelu", "pow"])
def test_code_for_wide_vectors_has_no_scalar_arithmetic(name: str) -> None:
    code = hot_code(compile_function(name, f32, "avx512").assembly)
    scalar = r"\tv(?:add|sub|mul|div|fn?m(?:add|sub)\d+|min|max|cvt\w*2|sqrt)s[sd]\b"
    assert not re.findall(scalar, code)
    calls = re.findall(r"\tcallq?\t.*|\tcallq?\*.*", code)
    assert len(calls) == (1 if name in ("sin", "cos") else 0), calls
    divisions = {"exp": 0, "exp2": 0, "log": 0, "log2": 0, "sin": 0, "cos": 0, "pow": 2}.get(name, 1)
    assert len(re.findall(r"\tvdivp[sd]\b", code)) == divisions


@pytest.mark.parametrize("dtype", [f32, f64], ids=str)
@pytest.mark.parametrize("processor", ["avx2", "sse2", "scalar"])
@pytest.mark.parametrize("name", [*CASES, "gelu", "pow"])
def test_nothing_outside_of_the_module_is_called(name: str, processor: str, dtype: DType) -> None:
    code = compile_function(name, dtype, processor).assembly
    called = set(re.findall(r"\tcallq?\t(\S+)|movabsq\t\$([a-zA-Z_][\w.]*)", code))
    outside = {
        c for pair in called for c in pair if c and not c.startswith(("tilesmith.", ".L", "%", "*", '"tilesmith.'))
    }
    assert not outside


@pytest.mark.parametrize("name", CASES)
def test_f16_is_computed_in_f32(name: str) -> None:
    every_half = np.arange(2**16, dtype=np.uint16).view(np.float16)
    with np.errstate(all="ignore"):
        truth = TRUTH[name](every_half.astype(np.float64))
    check(name, f16, "avx2", (every_half,), truth, 0.51)


@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize(("dtype", "least"), [(f32, -150 * np.log(2)), (f64, -1075 * np.log(2))])
def test_exp_of_what_is_too_small_is_zero(dtype: DType, least: float, processor: str) -> None:
    """Also where powers of two that are its factors are not zero yet, and where they would not be numbers any more."""
    near = np.linspace(2 * least, least, 100_001)[:-1]
    far = -np.logspace(np.log10(-2 * least), 37, 10_001)
    x = np.concatenate([near, far, [-np.inf]]).astype(dtype.numpy)
    found = compile_function("exp", dtype, processor)(x)
    assert (found == 0).all() and not np.signbit(found).any()


def test_exp_takes_at_most_16_vector_operations_without_masks() -> None:
    loop = hot_code(compile_function("exp", f32, "avx2").assembly).split(".LBB0_1:")[1].split("jl\t")[0]
    names = [line.split()[0] for line in loop.splitlines() if line.strip().startswith("v")]
    assert len([name for name in names if not name.startswith(("vmov", "vbroadcast"))]) <= 16


def test_exp_takes_at_most_15_vector_instructions() -> None:
    loop = hot_code(compile_function("exp", f32, "avx512").assembly).split(".LBB0_1:")[1].split("jl\t")[0]
    assert len(re.findall(r"\tv(?!mov)\w+", loop)) <= 15


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


Fits = dict[str, tuple[list[Decimal], Decimal]]


def table(name: str) -> tuple[float, ...]:
    """The coefficients that the code uses."""
    modules = (math_exponential, math_normal, math_power, math_rational, math_trigonometric)
    return next(getattr(module, name) for module in modules if hasattr(module, name))


@pytest.mark.parametrize(
    ("fits", "wanted"),
    [
        (fit.polynomials, "SIN_F"),
        (fit.polynomials, "EXP_F32"),
        (fit.rationals, "TANH_{}_F64"),
        pytest.param(fit.polynomials, "", marks=pytest.mark.slow),  # all
        pytest.param(fit.rationals, "", marks=pytest.mark.slow),
    ],
)
def test_the_tables_are_what_the_fits_give(fits: Callable[[str], Fits], wanted: str) -> None:
    found = fits(wanted)
    assert found
    for name, (coefficients, error) in found.items():
        assert table(name) == tuple(map(float, coefficients)), name
        assert error < (2**-24 if name.endswith("F32") else 2**-53), name


@pytest.mark.slow
def test_the_tables_of_gelu_are_what_the_fits_give() -> None:
    for name, (coefficients, error) in fit.normal().items():
        assert table(name) == tuple(map(float, coefficients)), name
        assert error < 2.0 ** (-23 if name.startswith("EXP2") else -22), name


def test_the_bits_of_two_over_pi() -> None:
    with localcontext() as context:
        context.prec = 400
        assert int(2 / fit.machin_pi(400) * 2**1158) == math_trigonometric.TWO_OVER_PI_BITS
