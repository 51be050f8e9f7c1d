"""Every pointwise operator at zeros of both signs, infinities, NaN, the least and greatest numbers and the ends of its domain.

What is right is what NumPy, SciPy or torch say in float64 (C in NumPy's name), rounded once; infinities, NaN and zeros, of
their sign too, as they have them. Where torch gives NaN for a limit that exists (silu at -inf), it is the limit.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from scipy import special
from whole.operators.test_narrow import kernel_results

from helpers.operators.arithmetic import Array, computed, erfc, rounded, sigmoid, to_memory
from tilesmith.tensor import ops
from tilesmith.tensor.dtype import DTYPES, DType

FLOATS = ("f64", "f32", "f16", "bf16")
LARGEST = {"f64": np.finfo(np.float64).max, "f32": 2.0**128 - 2.0**104, "f16": 65504.0, "bf16": 2.0**128 - 2.0**120}
SMALLEST = {"f64": (5e-324, 2.0**-1022), "f32": (2.0**-149, 2.0**-126), "f16": (2.0**-24, 2.0**-14),
            "bf16": (2.0**-133, 2.0**-126)}  # fmt: skip
EDGES = (
    0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 5.0, 5.5, 6.0, 8.0, 9.0, 10.0, 12.5, 13.0, 14.0, 16.0, 20.0, 37.0, 85.0, 88.0, 88.5,
    88.75, 89.0, 89.25, 89.5, 90.0, 100.0, 103.0, 104.0, 120.0, 127.0, 128.0, 133.0, 140.0, 149.0, 150.0, 709.0, 710.0, 710.5,
    711.0, 745.0, 750.0, 1000.0, 1022.0, 1023.0, 1024.0, 1074.0, 1075.0, 4096.0, 1e4, 1e10, 1e19, 1e30, 1e38,
)  # fmt: skip


def gelu(x: Array) -> Array:
    return np.where(x == -np.inf, -0.0, np.where(x < 0, x * 0.5 * special.erfc(-x * np.sqrt(0.5)), x * special.ndtr(x)))


def gelu_tanh(x: Array) -> Array:
    return np.where(x == -np.inf, -0.0, x * sigmoid(2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x * x * x)))


def silu(x: Array) -> Array:
    return np.where(x == -np.inf, -0.0, x * sigmoid(x))


def mish(x: Array) -> Array:
    w = np.exp(np.minimum(x, 40))
    return np.where(x == -np.inf, -0.0, x * (w * (w + 2) / (w * (w + 2) + 2)))


def selu(x: Array, alpha: float = 1.6732632423543772, scale: float = 1.0507009873554805) -> Array:
    return scale * np.where(x > 0, x, alpha * np.expm1(x))


def hard_swish(x: Array) -> Array:
    return np.where(x < -3, -0.0, x * (np.clip(x + 3, 0, 6) / 6))


# Operator -> its truth, and the error in units of the last place of f64 and f32.
UNARY: dict[str, tuple[Callable[[Array], Array], float]] = {
    "copy": (lambda x: x, 0), "neg": (np.negative, 0), "abs": (np.abs, 0), "sign": (np.sign, 0), "square": (np.square, 0.5),
    "reciprocal": (np.reciprocal, 0.5), "sqrt": (np.sqrt, 0.5), "rsqrt": (lambda x: 1 / np.sqrt(x), 1.5), "exp": (np.exp, 2),
    "exp2": (np.exp2, 2.5), "expm1": (np.expm1, 5), "log": (np.log, 1), "log2": (np.log2, 2), "log10": (np.log10, 3),
    "log1p": (np.log1p, 3), "sin": (np.sin, 3), "cos": (np.cos, 3), "tan": (np.tan, 5), "asin": (np.arcsin, 4),
    "acos": (np.arccos, 4), "atan": (np.arctan, 3), "sinh": (np.sinh, 6), "cosh": (np.cosh, 5), "tanh": (np.tanh, 6.5),
    "asinh": (np.arcsinh, 4), "acosh": (np.arccosh, 4), "atanh": (np.arctanh, 4), "erf": (special.erf, 6.5),
    "erfc": (erfc, 10), "floor": (np.floor, 0), "ceil": (np.ceil, 0), "round": (np.rint, 0), "trunc": (np.trunc, 0),
    "clip": (lambda x: np.clip(x, -1, 1), 0), "is_nan": (np.isnan, 0), "is_inf": (np.isinf, 0), "is_finite": (np.isfinite, 0),
    "relu": (lambda x: np.maximum(x, 0), 0), "relu6": (lambda x: np.clip(x, 0, 6), 0),
    "leaky_relu": (lambda x: np.where(x > 0, x, x * 0.01), 1.5), "elu": (lambda x: np.where(x > 0, x, np.expm1(x)), 6),
    "celu": (lambda x: np.maximum(x, 0) + np.expm1(np.minimum(x, 0)), 6), "selu": (selu, 8), "gelu": (gelu, 10),
    "gelu_tanh": (gelu_tanh, 10), "sigmoid": (sigmoid, 3.5), "log_sigmoid": (special.log_expit, 4), "silu": (silu, 4.5),
    "mish": (mish, 5), "softplus": (lambda x: np.logaddexp(0, x), 4),
    "softsign": (lambda x: np.where(np.isinf(x), np.sign(x), x / (1 + np.abs(x))), 1.5),
    "hard_sigmoid": (lambda x: np.clip(x + 3, 0, 6) / 6, 1.5), "hard_swish": (hard_swish, 3),
    "hard_tanh": (lambda x: np.clip(x, -1, 1), 0), "tanh_shrink": (lambda x: x - np.tanh(x), np.inf),
    "hard_shrink": (lambda x: np.where(np.abs(x) <= 0.5, 0, x), 0), "soft_shrink": (lambda x: x - np.clip(x, -0.5, 0.5), 0.5),
}  # fmt: skip
BINARY: dict[str, tuple[Callable[[Array, Array], Array], float]] = {
    "add": (np.add, 0.5), "sub": (np.subtract, 0.5), "mul": (np.multiply, 0.5), "div": (np.divide, 0.5),
    "pow": (np.power, 3), "atan2": (np.arctan2, 4), "hypot": (np.hypot, 3), "logaddexp": (np.logaddexp, np.inf),
    "maximum": (np.maximum, 0), "minimum": (np.minimum, 0), "squared_difference": (lambda x, y: (x - y) * (x - y), 2),
    "silu_add": (lambda x, y: silu(x) + y, np.inf), "equal": (np.equal, 0), "not_equal": (np.not_equal, 0),
    "less": (np.less, 0), "less_equal": (np.less_equal, 0), "greater": (np.greater, 0), "greater_equal": (np.greater_equal, 0),
}  # fmt: skip
# of which any zero will do: maxima, differences
ANY_ZERO = frozenset((
    "sign", "relu", "relu6", "elu", "celu", "selu", "clip", "maximum", "minimum", "hard_shrink", "hard_swish", "soft_shrink",
    "tanh_shrink", "silu_add",
))  # fmt: skip
GROWING = {"gelu": 2, "gelu_tanh": 3}  # where x is far below 0 the relative error grows with a power of x
SMALL_FACTOR = frozenset(("silu", "mish", "gelu", "gelu_tanh"))  # x times what may be subnormal
# Powers of e, times this power of x, are 0 below the least normal one.
VANISHING = {"exp": 0, "softplus": 0, "log_sigmoid": 0, "mish": 1}


def arguments(dtype: str) -> Array:
    """All of them, of both signs, and what lies beside the edges."""
    kind = DTYPES[dtype]
    size = np.array([0.0, *SMALLEST[dtype], *EDGES, LARGEST[dtype], np.inf])
    exact = rounded(size[size <= LARGEST[dtype]], kind).astype(np.float64)
    with np.errstate(over="ignore"):
        beside = rounded(np.concatenate([exact[3:] * (1 + kind.eps), exact[3:] * (1 - kind.eps)]), kind).astype(
            np.float64
        )
    sizes = np.concatenate([exact, beside, [np.inf]])
    return np.concatenate([sizes, -sizes, [np.nan]])


def complaint(name: str, dtype: str, found: Array, inputs: tuple[Array, ...], truth: Array, bound: float) -> str | None:
    """Where a result is not as it should be."""
    kind = DTYPES[dtype]
    if truth.dtype == bool:
        bad = found != truth
    else:
        found = found.astype(np.float64)
        wanted = rounded(truth, kind).astype(np.float64)
        bad = ~_alike(name, found, wanted)
        close = np.isfinite(found) & (_in_units(found, truth, kind) <= _bound(name, kind, inputs, bound))
        bad &= ~(close & np.isfinite(wanted) & ((found != 0) | (wanted != 0)))
        if name in VANISHING and dtype == "f32":
            bad &= ~((found == 0) & (np.abs(truth) < SMALLEST[dtype][1] * np.abs(inputs[0]) ** VANISHING[name]))
        edge = np.abs(truth) > LARGEST[dtype] * (1 - bound * kind.eps) if np.isfinite(bound) else np.isinf(wanted)
        bad &= ~(edge & np.isfinite(truth) & (np.abs(found) >= LARGEST[dtype] * (1 - 8 * kind.eps)))
    if not bad.any():
        return None
    place = int(np.flatnonzero(bad)[0])
    return f"{name}({', '.join(str(x[place]) for x in inputs)}) = {found[place]} instead of {truth[place]}, {bad.sum()} in all"


def _alike(name: str, found: Array, wanted: Array) -> Array:
    same = (found == wanted) | (np.isnan(found) & np.isnan(wanted))
    signs = np.signbit(found) == np.signbit(wanted)
    return same & (signs | (wanted != 0) | (name in ANY_ZERO))


def _in_units(found: Array, truth: Array, kind: DType) -> Array:
    least = SMALLEST[kind.name][0]
    with np.errstate(all="ignore"):
        unit = np.maximum(2.0 ** np.floor(np.log2(np.abs(truth))) * kind.eps, least)
        return np.nan_to_num(np.abs(found - truth) / unit, nan=np.inf)


def _bound(name: str, kind: DType, inputs: tuple[Array, ...], bound: float) -> Array:
    if kind.bits == 16:
        bound = 1.0 if np.isfinite(bound) else bound
    size = np.minimum(np.where(inputs[0] < 0, -inputs[0], 0), 1000)
    more = size ** GROWING.get(name, 0) if name in GROWING else 0.0
    return bound + more * (2.0**-16 if kind.bits == 16 else 1) + (size if name in SMALL_FACTOR else 0.0) * (size > 80)


def operands(name: str, dtype: str) -> tuple[Array, ...]:
    one = arguments(dtype)
    if name in UNARY:
        return (one,)
    few = np.concatenate(
        [one[::5], [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, LARGEST[dtype], SMALLEST[dtype][0]]]
    )
    return tuple(np.array(list(itertools.product(few, few))).T)


def truth_of(name: str, inputs: tuple[Array, ...]) -> tuple[Array, float]:
    truth, bound = (UNARY | BINARY)[name]
    with np.errstate(all="ignore"):
        return np.asarray(truth(*inputs)), bound


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_programs_ask_for_the_right_thing(name: str, dtype: str) -> None:
    inputs = operands(name, dtype)
    program = ops.find_operator(name)(size=inputs[0].size, dtype=dtype)
    (found,) = computed(program, [to_memory(x, DTYPES[dtype]) for x in inputs])
    assert complaint(name, dtype, found, inputs, *truth_of(name, inputs)) is None


def of_kernels(name: str, dtype: str, also_unscheduled: bool = False) -> list[str]:
    inputs = operands(name, dtype)
    program = ops.find_operator(name)(size=inputs[0].size, dtype=dtype)
    results = kernel_results(program, tuple(to_memory(x, DTYPES[dtype]) for x in inputs), also_unscheduled)
    said = [complaint(name, dtype, found, inputs, *truth_of(name, inputs)) for (found,) in results]
    return [one for one in said if one is not None]


@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_kernels_give_the_right_thing(name: str) -> None:
    assert not of_kernels(name, "f32")


@pytest.mark.slow
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_kernels_of_all_dtypes_give_the_right_thing(name: str, dtype: str) -> None:
    assert not of_kernels(name, dtype, also_unscheduled=True)


INF, NAN = np.inf, np.nan
LOGITS = np.array([
    [1, 2, -INF, 3], [-INF, -INF, -INF, -INF], [INF, 1, 2, 3], [INF, INF, 0, 0], [-INF, INF, 0, 1], [NAN, 1, 2, 3],
    [NAN, INF, -INF, 0], [1000, 999, -1000, 0], [-1000, -1000, -1000, -1001], [0, 0, 0, 0], [-INF, -INF, 5, -INF],
])  # fmt: skip


def log_softmax(x: Array) -> Array:
    """As torch has it: NaN in all of a row that has inf or NaN, or -inf alone."""
    return x - x.max(1, keepdims=True) - np.log(np.exp(x - x.max(1, keepdims=True)).sum(1, keepdims=True))


ROWS: dict[str, tuple[dict[str, object], Callable[[Array], Array]]] = {
    "log_sum_exp": ({"shape": LOGITS.shape, "axes": (1,)}, lambda x: np.where(
        np.isnan(x).any(1), NAN, special.logsumexp(np.nan_to_num(x, nan=0, posinf=INF, neginf=-INF), axis=1))),
    "softmax": ({"shape": LOGITS.shape}, lambda x: np.exp(log_softmax(x))),
    "log_softmax": ({"shape": LOGITS.shape}, log_softmax),
    "row_max": ({"rows": 11, "columns": 4}, lambda x: x.max(1)), "row_sum": ({"rows": 11, "columns": 4}, lambda x: x.sum(1)),
    "row_mean": ({"rows": 11, "columns": 4}, lambda x: x.mean(1)),
    "norm1": ({"shape": LOGITS.shape, "axes": (1,)}, lambda x: np.abs(x).sum(1)),
    "norm2": ({"shape": LOGITS.shape, "axes": (1,)}, lambda x: np.sqrt((x * x).sum(1))),
    "cummax": ({"shape": LOGITS.shape}, lambda x: np.maximum.accumulate(x, 1)),
    "cumsum": ({"shape": LOGITS.shape}, lambda x: np.cumsum(x, 1)),
}  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ROWS)
def test_rows_with_infinities_and_nan(name: str, dtype: str) -> None:
    sizes, meaning = ROWS[name]
    program = ops.find_operator(name)(**sizes, dtype=dtype)
    kind = DTYPES[dtype]
    x = rounded(LOGITS, kind).astype(np.float64)
    with np.errstate(all="ignore"):
        wanted = rounded(meaning(x), kind).astype(np.float64)
    given = (to_memory(x, kind),)
    results = [computed(program, given), *(kernel_results(program, given) if dtype in ("f32", "bf16") else [])]
    for (found,) in results:
        np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=4 * kind.eps, atol=1e-6)


def test_losses_pass_nan_on() -> None:
    x = np.array([[0.5, NAN, -1.0, 2.0]])
    y = np.array([[NAN, 0.5, 0.0, -1.0]])
    (found,) = computed(ops.kl_divergence(rows=1, columns=4, dtype="f64"), (x * 0, y))
    assert np.isnan(found)
    for name in ("mse_loss", "l1_loss", "huber_loss", "binary_cross_entropy"):
        (found,) = computed(ops.find_operator(name)(shape=(1, 4), over="none", dtype="f64"), (x, y))
        assert np.isnan(found).tolist() == [[True, True, False, False]], name


def test_gates_pass_on_what_they_should() -> None:
    """x gate(g) over all pairs of special values: at g = -inf the gates of silu and gelu are 0."""
    x = np.array([[1.0, -2.0, 0.0, 3.0, -INF, 5.0, INF, NAN]])
    for name, gate in (("swiglu", silu), ("geglu", gelu), ("glu", sigmoid)):
        with np.errstate(all="ignore"):
            wanted = x[:, :4] * gate(x[:, 4:])
        (found,) = computed(ops.find_operator(name)(rows=1, columns=4, dtype="f64"), (x,))
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
