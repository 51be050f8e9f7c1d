"""Functions that are made of those of the language keep their digits: kernels against NumPy, by the error relative to the
result, over arguments of all sizes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from helpers.operators.case import Array
from helpers.pipeline.candidates import random_config, run
from tilesmith.codegen.pipeline import build
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor import ops

COUNT = 4000
TARGETS = {"f32": "host", "f64": "x86:sse2"}  # with and without a fused multiply-add
KINDS = {"f32": np.dtype("float32"), "f64": np.dtype("float64")}
Truth = Callable[..., Array]

# Operator -> what it is in NumPy, the decimal exponents between which the sizes of arguments lie (f32, f64), the least and
# greatest argument (f32, f64), and the error in units of the last place.
EXPONENTS = ((-30, 30), (-290, 290))
SMALL = ((-30, 0), (-290, 0))
POWERS = ((-30, 1.9), (-290, 2.8))
EVERYWHERE = ((-np.inf, np.inf), (-np.inf, np.inf))
FUNCTIONS: dict[str, tuple[Truth, tuple[tuple[float, float], ...], tuple[tuple[float, float], ...], float]] = {
    "expm1": (np.expm1, POWERS, EVERYWHERE, 5),
    "sinh": (np.sinh, POWERS, EVERYWHERE, 6),
    "log1p": (np.log1p, EXPONENTS, ((-0.99999, np.inf), (-0.9999999999, np.inf)), 3),
    "softplus": (lambda x: np.logaddexp(0, x), POWERS, EVERYWHERE, 4),
    "log_sigmoid": (lambda x: -np.logaddexp(0, -x), POWERS, EVERYWHERE, 4),
    "mish": (lambda x: x * np.tanh(np.log1p(np.exp(x))), POWERS, EVERYWHERE, 5),
    "elu": (lambda x: np.where(x > 0, x, np.expm1(x)), POWERS, EVERYWHERE, 6),
    "asinh": (np.arcsinh, EXPONENTS, EVERYWHERE, 4),
    "acosh": (np.arccosh, EXPONENTS, ((1, np.inf), (1, np.inf)), 4),
    "atanh": (np.arctanh, SMALL, ((-0.99999, 0.99999), (-0.9999999999, 0.9999999999)), 4),
    "atan": (np.arctan, EXPONENTS, EVERYWHERE, 3),
    "asin": (np.arcsin, SMALL, EVERYWHERE, 4),
    "acos": (np.arccos, SMALL, EVERYWHERE, 4),
    "atan2": (np.arctan2, EXPONENTS, EVERYWHERE, 4),
    "hypot": (np.hypot, EXPONENTS, EVERYWHERE, 3),
}


def kernel_results(name: str, dtype: str, inputs: tuple[Array, ...]) -> Array:
    program = ops.find_operator(name)(size=inputs[0].size, dtype=dtype)
    task = Task.of(program, parse_target(TARGETS[dtype]), 1)
    sketch = task.sketches[-1]
    values = random_config(task, sketch, np.random.default_rng(1))
    assert values is not None
    (found,) = run(build(task.program, sketch, values, task.target, 1), task, inputs, at_end=True)
    return found


def arguments(exponents: tuple[float, float], span: tuple[float, float], dtype: str, seed: int) -> Array:
    """Numbers of all sizes and both signs, and the neighbours of small fractions and powers of two, where cases meet."""
    rng = np.random.default_rng(seed)
    sizes = 10.0 ** rng.uniform(*exponents, COUNT // 2)
    near = 10.0 ** rng.uniform(max(exponents[0], -1), min(exponents[1], 1), COUNT // 2)
    x = np.concatenate([sizes, near]) * rng.choice([-1.0, 1.0], COUNT)
    edges = np.array([0.25, 0.5, 1.0, 2.0, np.tan(np.pi / 8), np.tan(3 * np.pi / 8), 2.0**28], KINDS[dtype])
    edges = edges[np.abs(np.log10(edges)) <= exponents[1]]
    around = np.concatenate([edges, np.nextafter(edges, 0), -edges, -np.nextafter(edges, 0)])
    x = np.concatenate([x, around]).astype(KINDS[dtype])
    x = np.where(x >= span[0], x, -x)
    return np.where((x >= span[0]) & (x <= span[1]), x, KINDS[dtype].type(1))


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_relative_error_is_a_few_units(name: str, dtype: str) -> None:
    truth, exponents, spans, bound = FUNCTIONS[name]
    number = list(KINDS).index(dtype)
    count = len(ops.find_operator(name)(size=1).inputs)
    inputs = tuple(arguments(exponents[number], spans[number], dtype, seed) for seed in range(count))
    found = kernel_results(name, dtype, inputs)
    with np.errstate(all="ignore"):
        wanted = truth(*(x.astype(np.longdouble) for x in inputs))
        limits = np.finfo(KINDS[dtype])
        ordinary = (np.abs(wanted) > limits.tiny) & (np.abs(wanted) < limits.max)
        error = np.abs((found - wanted) / wanted)[ordinary] / float(limits.eps)
    worst = int(np.argmax(error))
    assert ordinary.mean() > 0.4
    assert error[worst] <= bound, [float(x[ordinary][worst]) for x in inputs]


@pytest.mark.parametrize("dtype", KINDS)
def test_logaddexp_is_as_exact_as_the_greater_argument(dtype: str) -> None:
    number = list(KINDS).index(dtype)
    x, y = (arguments(EXPONENTS[number], EVERYWHERE[number], dtype, seed) for seed in (3, 4))
    y[::3] = x[::3] + y[::3] * (np.abs(y[::3]) < 30)  # near each other
    wanted = np.logaddexp(x.astype(np.longdouble), y.astype(np.longdouble))
    unit = float(np.finfo(KINDS[dtype]).eps) * np.maximum(np.maximum(np.abs(x), np.abs(y)), np.abs(wanted))
    assert np.all(np.abs(kernel_results("logaddexp", dtype, (x, y)) - wanted) <= 3 * unit)


def test_small_results_are_not_lost() -> None:
    x = np.array([1e-9, -1e-9], np.float32)
    for name in ("log1p", "expm1", "sinh", "asinh", "atanh", "atan", "asin", "elu"):
        np.testing.assert_allclose(kernel_results(name, "f32", (x,)), x, rtol=1e-6)
    np.testing.assert_allclose(
        kernel_results("softplus", "f32", (np.float32([-20, -60]),)), np.exp([-20, -60]), rtol=1e-5
    )
