"""Operators against NumPy, and bad arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import erf, expit

from tilesmith.common.errors import ArgumentError
from tilesmith.tensor import ops
from tilesmith.tensor.random import random_inputs
from tilesmith.tensor.reference import evaluate
from tilesmith.tensor.text import parse

Array = NDArray[np.float64]


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def gelu(x: Array) -> Array:
    return x * (1 + erf(x / np.sqrt(2))) / 2


def layer_norm(x: Array, gamma: Array, beta: Array) -> Array:
    return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * gamma + beta


def conv2d(x: Array, w: Array, stride: int = 1, padding: int = 0, dilation: int = 1, groups: int = 1) -> Array:
    """By definition, in plain loops over the window."""
    n, _, h, width = x.shape
    o, inner, kh, kw = w.shape
    padded = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    rows = (h + 2 * padding - dilation * (kh - 1) - 1) // stride + 1
    columns = (width + 2 * padding - dilation * (kw - 1) - 1) // stride + 1
    y = np.zeros((n, o, rows, columns))
    for f in range(o):
        first = f // (o // groups) * inner
        for r in range(kh):
            for s in range(kw):
                top, left = r * dilation, s * dilation
                part = padded[:, first : first + inner, top:, left:][:, :, ::stride, ::stride][:, :, :rows, :columns]
                y[:, f] += np.einsum("nchw,c->nhw", part, w[f, :, r, s])
    return y


MATMUL = {"m": 7, "n": 5, "k": 9}
GRID = {"rows": 6, "columns": 11}
TRUTH: list[tuple[str, Mapping[str, object], Callable[..., Array]]] = [
    ("matmul", MATMUL, lambda a, b: a @ b),
    ("matmul", MATMUL | {"transpose_a": True}, lambda a, b: a.T @ b),
    ("matmul", MATMUL | {"transpose_b": True}, lambda a, b: a @ b.T),
    ("matmul", MATMUL | {"transpose_a": True, "transpose_b": True, "dtype": "f64"}, lambda a, b: a.T @ b.T),
    ("matmul", MATMUL | {"dtype": "f16"}, lambda a, b: a @ b),
    ("matmul", MATMUL | {"dtype": "i8"}, lambda a, b: a @ b),
    ("batch_matmul", MATMUL | {"b": 3}, lambda a, b: a @ b),
    ("batch_matmul", MATMUL | {"b": 3, "transpose_b": True}, lambda a, b: a @ b.transpose(0, 2, 1)),
    ("matvec", {"m": 7, "k": 9}, lambda a, x: a @ x),
    ("dot", {"size": 33}, lambda x, y: x @ y),
    ("matmul_bias_relu", MATMUL, lambda a, b, c: np.maximum(a @ b + c, 0)),
    ("matmul_bias_gelu", MATMUL, lambda a, b, c: gelu(a @ b + c)),
    ("matmul_residual_layer_norm", MATMUL, lambda a, b, r, g, c: layer_norm(a @ b + r, g, c)),
    ("relu", {"size": 9}, lambda x: np.maximum(x, 0)),
    ("relu", {"shape": (3, 4)}, lambda x: np.maximum(x, 0)),
    ("gelu", {"size": 9}, gelu),
    ("silu", {"size": 9}, lambda x: x * expit(x)),
    ("silu_add", {"size": 9}, lambda x, y: x * expit(x) + y),
    ("clip", {"size": 9}, lambda x: np.clip(x, -1, 1)),
    ("copy", {"shape": (2, 3, 4)}, lambda x: x),
    ("abs", {"size": 9}, np.abs),
    ("exp", {"size": 9}, np.exp),
    ("tanh", {"size": 9}, np.tanh),
    ("sigmoid", {"size": 9}, expit),
    ("erf", {"size": 9}, erf),
    ("sqrt", {"size": 9}, np.sqrt),
    ("add", {"size": 9}, np.add),
    ("sub", {"size": 9}, np.subtract),
    ("mul", {"size": 9}, np.multiply),
    ("div", {"size": 9}, np.divide),
    ("multiply_add", {"size": 9}, lambda x, y, z: x * y + z),
    ("bias_add", GRID, np.add),
    ("bias_relu", GRID, lambda x, b: np.maximum(x + b, 0)),
    ("scale_rows", GRID, lambda x, s: x * s[:, None]),
    ("outer", GRID, np.outer),
    ("transpose", GRID, np.transpose),
    ("row_sum", GRID, lambda x: x.sum(1)),
    ("column_sum", GRID, lambda x: x.sum(0)),
    ("row_max", GRID, lambda x: x.max(1)),
    ("column_max", GRID, lambda x: x.max(0)),
    ("row_mean", GRID, lambda x: x.mean(1)),
    ("total", {"size": 33}, np.sum),
    ("softmax", GRID, softmax),
    ("matmul_softmax", MATMUL, lambda a, b: softmax(a @ b)),
    ("attention", {"heads": 2, "queries": 5, "keys": 7, "width": 4},
     lambda q, k, v: softmax(q @ k.transpose(0, 2, 1) / 2) @ v),
    ("layer_norm", GRID, layer_norm),
    ("rms_norm", GRID, lambda x, g: x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-5) * g),
]  # fmt: skip


@pytest.mark.parametrize(("name", "arguments", "truth"), TRUTH, ids=[f"{t[0]}-{n}" for n, t in enumerate(TRUTH)])
def test_operators_compute_what_they_say(
    name: str, arguments: Mapping[str, object], truth: Callable[..., Array]
) -> None:
    program = ops.find_operator(name)(**arguments)
    inputs = random_inputs(program, 5)
    (found,) = evaluate(program, inputs)
    with np.errstate(invalid="ignore"):
        wide = [x.astype(np.float64) for x in inputs]
        np.testing.assert_allclose(found, truth(*wide), rtol=1e-11, atol=1e-11)
    assert parse(str(program)) == program
    assert {stage.origin.operator for stage in program.stages} == {name}
    assert all(stage.origin.file == __file__ for stage in program.stages)


def test_every_operator_is_tested() -> None:
    assert {name for name, _, _ in TRUTH} | {"conv2d"} == set(ops.OPERATORS)


IMAGE = {"n": 2, "c": 4, "h": 9, "w": 8, "o": 6}
CONVOLUTIONS = [
    {}, {"padding": 1}, {"stride": 2, "padding": 1}, {"dilation": 2, "padding": 2}, {"kh": 1, "kw": 1},
    {"kh": 5, "kw": 2, "stride": 3}, {"groups": 2, "padding": 1}, {"groups": 4, "c": 4, "o": 4, "padding": 1},
    {"kh": 2, "kw": 2, "stride": 2},
]  # fmt: skip


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("changes", CONVOLUTIONS, ids=str)
def test_convolutions(changes: dict[str, int], layout: str) -> None:
    program = ops.conv2d(**(IMAGE | changes), layout=layout)  # type: ignore[arg-type]
    x, w = random_inputs(program, 0)
    (found,) = evaluate(program, (x, w))
    first = layout == "nchw"
    options = {k: v for k, v in changes.items() if k in ("stride", "padding", "dilation", "groups")}
    x64, w64 = x.astype(np.float64), w.astype(np.float64)
    truth = conv2d(x64 if first else x64.transpose(0, 3, 1, 2), w64 if first else w64.transpose(3, 2, 0, 1), **options)
    np.testing.assert_allclose(found, truth if first else truth.transpose(0, 2, 3, 1), rtol=1e-11, atol=1e-11)


def test_a_convolution_without_padding_has_no_guard() -> None:
    assert "select" not in str(ops.conv2d(**IMAGE))
    assert ">=" not in str(ops.conv2d(**IMAGE, stride=2, kh=2, kw=2))
    assert "select" in str(ops.conv2d(**IMAGE, padding=1))


def test_constants_are_declared() -> None:
    program = ops.matmul(2, 3, 4, constants=["B"])
    assert [i.constant for i in program.inputs] == [False, True]
    assert ops.build_operator("conv2d", IMAGE, constants=("w",)).constant_inputs[0].name == "w"  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="no operand is called 'W'"):
        ops.matmul(2, 3, 4, constants=["W"])


def test_texts_are_read_as_arguments() -> None:
    made = ops.build_operator("matmul", {"m": "7", "n": "5", "k": "9", "transpose_a": "true", "dtype": "f64"})
    assert made == ops.matmul(7, 5, 9, transpose_a=True, dtype="f64")
    assert ops.build_operator("relu", {"shape": "3x4"}) == ops.relu(shape=(3, 4))
    assert ops.build_operator("layer_norm", {"rows": 2, "columns": "3", "epsilon": "1e-3"}) == ops.layer_norm(
        2, 3, 1e-3
    )


WRONG = [
    ("matmull", {}, "unknown operator 'matmull'"),
    ("matmul", {"m": "4"}, "matmul needs n, k"),
    ("matmul", {"m": "0", "n": 1, "k": 1}, "m of matmul must be a positive integer"),
    ("matmul", {"m": -3, "n": 1, "k": 1}, "m of matmul must be a positive integer"),
    ("matmul", {"m": "4.5", "n": 1, "k": 1}, "m of matmul is not an integer"),
    ("matmul", {"m": "many", "n": 1, "k": 1}, "m of matmul is not an integer"),
    ("matmul", {"m": True, "n": 1, "k": 1}, "m of matmul must be a positive integer"),
    ("matmul", {"mm": 1}, "matmul has no argument 'mm'"),
    ("matmul", {"m": 1, "n": 1, "k": 1, "transpose_a": "maybe"}, "is not true or false"),
    ("matmul", {"m": 1, "n": 1, "k": 1, "dtype": "f31"}, "unknown dtype 'f31'"),
    ("relu", {}, "needs either size or shape"),
    ("relu", {"size": 3, "shape": "3"}, "needs either size or shape"),
    ("relu", {"shape": "3x0"}, "shape of relu must be a positive integer"),
    ("relu", {"shape": "3y4"}, "is not sizes as in 64x32"),
    ("conv2d", IMAGE | {"padding": -1}, "padding of conv2d must be an integer >= 0"),
    ("conv2d", IMAGE | {"groups": 3}, "groups of conv2d must divide c and o"),
    ("conv2d", IMAGE | {"kh": 10}, "larger than the image"),
    ("conv2d", IMAGE | {"layout": "chwn"}, "unknown layout"),
]


@pytest.mark.parametrize(("name", "arguments", "problem"), WRONG, ids=[w[2][:40] for w in WRONG])
def test_wrong_arguments_are_refused(name: str, arguments: Mapping[str, str | int], problem: str) -> None:
    with pytest.raises(ArgumentError, match=problem):
        ops.build_operator(name, arguments)


def test_a_close_name_is_offered() -> None:
    with pytest.raises(ArgumentError) as caught:
        ops.find_operator("matmull")
    assert "matmul" in caught.value.advice


def test_a_wrong_argument_in_python_is_answered_with_the_right_ones() -> None:
    with pytest.raises(ArgumentError, match=r"(?s)matmul: .*'rows'.*expected: matmul m=\.\.\. n=\.\.\. k=\.\.\."):
        ops.matmul(m=4, n=4, k=4, rows=4)  # type: ignore[call-arg]
    with pytest.raises(ArgumentError, match="missing a required argument: 'k'"):
        ops.matmul(m=4, n=4)  # type: ignore[call-arg]
