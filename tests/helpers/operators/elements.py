"""Elementwise operators."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import special

from helpers.operators.case import Array, Case, eightfold, rounded, with_specials

Meaning = Callable[..., Array]


def elu(x: Array, alpha: float) -> Array:
    return np.where(x > 0, x, alpha * np.expm1(x))


def gated(gate: Meaning) -> Meaning:
    return lambda x: x[:, :11] * gate(x[:, 11:])


def gelu(x: Array) -> Array:
    return x * special.ndtr(x)


def silu(x: Array) -> Array:
    return x * special.expit(x)


FLOATS: dict[str, Meaning] = {
    "copy": lambda x: x, "neg": np.negative, "abs": np.abs, "sign": np.sign, "square": np.square,
    "reciprocal": np.reciprocal, "sqrt": np.sqrt, "rsqrt": lambda x: x**-0.5, "exp": np.exp, "exp2": np.exp2,
    "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p, "sin": np.sin, "cos": np.cos,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": lambda y, x: np.arctan2(y + 0.0, x + 0.0),
    "hypot": np.hypot,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "logaddexp": np.logaddexp,
    "tan": np.tan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "erf": special.erf, "erfc": special.erfc,
    "floor": np.floor, "ceil": np.ceil, "round": np.round, "trunc": np.trunc, "clip": lambda x: np.clip(x, -1, 1),
    "relu": lambda x: np.maximum(x, 0), "relu6": lambda x: np.clip(x, 0, 6),
    "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x), "elu": lambda x: elu(x, 1.0), "celu": lambda x: elu(x, 1.0),
    "selu": lambda x: 1.0507009873554805 * elu(x, 1.6732632423543772), "gelu": gelu,
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))), "sigmoid": special.expit,
    "log_sigmoid": special.log_expit, "silu": silu, "mish": lambda x: x * np.tanh(np.logaddexp(0, x)),
    "softplus": lambda x: np.logaddexp(0, x), "softsign": lambda x: x / (1 + np.abs(x)),
    "hard_sigmoid": lambda x: np.clip(x / 6 + 0.5, 0, 1), "hard_swish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "hard_tanh": lambda x: np.clip(x, -1, 1), "tanh_shrink": lambda x: x - np.tanh(x),
    "hard_shrink": lambda x: np.where(np.abs(x) > 0.5, x, 0),
    "soft_shrink": lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.5, 0),
    "is_nan": np.isnan, "is_inf": np.isinf, "is_finite": np.isfinite,
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "pow": np.power, "maximum": np.maximum,
    "minimum": np.minimum, "squared_difference": lambda x, y: (x - y) ** 2, "silu_add": lambda x, y: silu(x) + y,
    "multiply_add": lambda x, y, z: x * y + z, "lerp": lambda x, y, t: (1 - t) * x + t * y,
    "where": np.where, "equal": np.equal, "not_equal": np.not_equal, "less": np.less, "less_equal": np.less_equal,
    "greater": np.greater, "greater_equal": np.greater_equal,
}  # fmt: skip


def divided(divide: Meaning) -> Meaning:
    return lambda x, y: np.where(y == 0, 0, divide(x, np.where(y == 0, 1, y)))


GRID = {"rows": 6, "columns": 11}
CASES: list[Case] = [
    *(Case(name, {"size": 37}, truth) for name, truth in FLOATS.items()),
    *(Case(name, {"size": 37, "dtype": dtype}, FLOATS[name], with_specials)
      for name in ("is_nan", "is_inf", "is_finite") for dtype in ("f32", "f64", "f16")),
    *(Case(name, {"size": 37}, FLOATS[name], with_specials) for name in (
        "relu", "clip", "maximum", "minimum", "abs", "neg", "floor", "trunc", "equal", "not_equal", "less", "greater_equal",
        "expm1", "log1p", "softplus", "hypot", "logaddexp", "atan", "atan2", "asinh", "acosh")),
    *(Case(name, {"size": 37}, FLOATS[name], eightfold)
      for name in ("clip", "relu6", "hard_tanh", "hard_sigmoid", "hard_swish", "round", "gelu_tanh", "expm1",
                   "log1p", "softplus", "mish", "sinh", "atan", "atan2", "hypot", "logaddexp", "asinh", "acosh")),
    *(Case(name, {"size": 37, "dtype": "f16"}, FLOATS[name])
      for name in ("expm1", "log1p", "mish", "hypot", "atan2", "asinh")),
    *(Case(name, {"size": 37}, FLOATS[name], rounded)
      for name in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "sign")),
    Case("relu", {"shape": (3, 4)}, FLOATS["relu"]),
    Case("copy", {"shape": (2, 3, 4), "dtype": "bool"}, FLOATS["copy"]),
    Case("clip", {"size": 9, "low": -0.25, "high": 0.5}, lambda x: np.clip(x, -0.25, 0.5)),
    Case("clip", {"size": 9, "low": -2, "high": 3, "dtype": "i32"}, lambda x: np.clip(x, -2, 3)),
    Case("leaky_relu", {"size": 9, "alpha": 0.5, "dtype": "f64"}, lambda x: np.where(x > 0, x, 0.5 * x)),
    Case("elu", {"size": 9, "alpha": 2.0}, lambda x: elu(x, 2.0)),
    Case("celu", {"size": 9, "alpha": 2.0}, lambda x: np.maximum(x, 0) + np.minimum(0, 2 * np.expm1(x / 2))),
    *(Case(name, {"size": 37, "dtype": "i32"}, FLOATS[name]) for name in (
        "neg", "abs", "sign", "square", "add", "sub", "mul", "maximum", "multiply_add", "where", "equal", "less", "relu")),
    Case("add", {"size": 9, "dtype": "i64"}, np.add),
    Case("equal", {"size": 9, "dtype": "bool"}, np.equal),
    Case("where", {"size": 9, "dtype": "u8"}, np.where),
    Case("floordiv", {"size": 37}, divided(np.floor_divide)),
    Case("mod", {"size": 37, "dtype": "i8"}, divided(np.mod)),
    Case("logical_and", {"size": 37}, np.logical_and),
    Case("logical_or", {"size": 37}, np.logical_or),
    Case("logical_xor", {"size": 37}, np.logical_xor),
    Case("logical_not", {"shape": (5, 7)}, np.logical_not),
    *(Case(name, {"size": 37, "dtype": dtype}, meaning, change)
      for name, meaning in (("logical_and", np.logical_and), ("logical_or", np.logical_or),
                            ("logical_xor", np.logical_xor), ("logical_not", np.logical_not))
      for dtype, change in (("i32", None), ("f32", rounded), ("f32", with_specials))),
    Case("cast", {"size": 9}, lambda x: x),
    Case("cast", {"size": 9, "dtype": "f64", "to": "i32"}, np.trunc),
    Case("cast", {"shape": (3, 5), "dtype": "i32", "to": "f32"}, lambda x: x),
    Case("cast", {"size": 9, "dtype": "i8", "to": "bool"}, lambda x: x != 0),
    Case("fill", {"shape": (3, 5), "value": 2.5}, lambda: np.full((3, 5), 2.5)),
    Case("fill", {"size": 4, "value": -3, "dtype": "i64"}, lambda: np.full(4, -3)),
    Case("prelu", GRID, lambda x, a: np.where(x > 0, x, a * x)),
    Case("glu", GRID, gated(special.expit)),
    Case("swiglu", GRID, gated(silu)),
    Case("geglu", GRID, gated(gelu)),
    Case("bias_add", GRID, np.add),
    Case("bias_relu", GRID, lambda x, b: np.maximum(x + b, 0)),
    Case("bias_gelu", GRID, lambda x, b: gelu(x + b)),
    Case("scale_rows", GRID, lambda x, s: x * s[:, None]),
    Case("outer", GRID, np.outer),
]  # fmt: skip
