"""Matrix products, softmax, attention and norms."""

from __future__ import annotations

import numpy as np
from scipy.special import erf, log_softmax, softmax

from helpers.operators.case import Array, Case


def over_last(x: Array) -> Array:
    return np.asarray(softmax(x, axis=-1))


def gelu(x: Array) -> Array:
    return x * (1 + erf(x / np.sqrt(2))) / 2


def layer_norm(x: Array, gamma: Array, beta: Array) -> Array:
    return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * gamma + beta


def attend(q: Array, k: Array, v: Array, *mask: Array, causal: bool = False, scale: float = 0.5) -> Array:
    scores = q @ k.transpose(0, 2, 1) * scale + sum(mask)
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape[1:], bool)), scores, -np.inf)
    return over_last(scores) @ v


def normalised(x: Array, axes: tuple[int, ...]) -> Array:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-5)


def along_channels(values: Array) -> Array:
    return values[:, None, None]


def group_norm(groups: int, x: Array, gamma: Array, beta: Array) -> Array:
    grouped = normalised(x.reshape(x.shape[0], groups, -1), (2,)).reshape(x.shape)
    return grouped * along_channels(gamma) + along_channels(beta)


MATMUL = {"m": 7, "n": 5, "k": 9}
HEADS = {"heads": 2, "queries": 5, "keys": 7, "width": 4}
VOLUME = {"n": 2, "c": 6, "h": 5, "w": 3}
GRID = {"rows": 6, "columns": 11}
CASES: list[Case] = [
    Case("matmul", MATMUL, lambda a, b: a @ b),
    Case("matmul", MATMUL | {"transpose_a": True}, lambda a, b: a.T @ b),
    Case("matmul", MATMUL | {"transpose_b": True}, lambda a, b: a @ b.T),
    Case("matmul", MATMUL | {"transpose_a": True, "transpose_b": True, "dtype": "f64"}, lambda a, b: a.T @ b.T),
    Case("matmul", MATMUL | {"dtype": "f16"}, lambda a, b: a @ b),
    Case("matmul", MATMUL | {"dtype": "i8"}, lambda a, b: a @ b),
    Case("batch_matmul", MATMUL | {"b": 3}, lambda a, b: a @ b),
    Case("batch_matmul", MATMUL | {"b": 3, "transpose_b": True}, lambda a, b: a @ b.transpose(0, 2, 1)),
    Case("matvec", {"m": 7, "k": 9}, lambda a, x: a @ x),
    Case("dot", {"size": 33}, lambda x, y: x @ y),
    Case("matmul_bias_relu", MATMUL, lambda a, b, c: np.maximum(a @ b + c, 0)),
    Case("matmul_bias_gelu", MATMUL, lambda a, b, c: gelu(a @ b + c)),
    Case("matmul_residual_layer_norm", MATMUL, lambda a, b, r, g, c: layer_norm(a @ b + r, g, c)),
    Case("softmax", GRID, over_last),
    Case("matmul_softmax", MATMUL, lambda a, b: over_last(a @ b)),
    Case("softmax", {"shape": (3, 5, 4), "axis": 1}, lambda x: softmax(x, axis=1)),
    Case("log_softmax", GRID, lambda x: log_softmax(x, axis=1)),
    Case("log_softmax", {"shape": (3, 5, 4), "axis": 0}, lambda x: log_softmax(x, axis=0)),
    Case("attention", HEADS, attend),
    Case("attention", HEADS | {"mask": True, "scale": 0.25}, lambda *x: attend(*x, scale=0.25)),
    Case("attention", HEADS | {"causal": True}, lambda *x: attend(*x, causal=True)),
    Case("attention", HEADS | {"causal": True, "mask": True}, lambda *x: attend(*x, causal=True)),
    Case("layer_norm", GRID, layer_norm),
    Case("rms_norm", GRID, lambda x, g: x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-5) * g),
    Case("l2_normalize", GRID, lambda x: x / np.sqrt((x * x).sum(1, keepdims=True))),
    Case("einsum", {"equation": "bij,bjk->bik", "shapes": ((2, 3, 4), (2, 4, 5))}, lambda a, b: a @ b),
    Case("einsum", {"equation": "ij,kj,il", "shapes": ((3, 4), (5, 4), (3, 2))},
         lambda a, b, c: np.einsum("ij,kj,il->kl", a, b, c)),
    Case("einsum", {"equation": "iij->ji", "shapes": ((3, 3, 4),), "dtype": "f64"}, lambda a: np.einsum("iij->ji", a)),
    Case("einsum", {"equation": "i,i->", "shapes": ((9,), (9,)), "dtype": "i32"}, lambda a, b: a @ b),
    Case("batch_norm", VOLUME, lambda x, m, v, g, b: (
        (x - along_channels(m)) / np.sqrt(along_channels(v) + 1e-5) * along_channels(g) + along_channels(b))),
    Case("batch_norm", VOLUME | {"layout": "nhwc"}, lambda x, m, v, g, b: (x - m) / np.sqrt(v + 1e-5) * g + b),
    Case("batch_norm", VOLUME | {"training": True}, lambda x, g, b: (
        normalised(x, (0, 2, 3)) * along_channels(g) + along_channels(b), x.mean((0, 2, 3)), x.var((0, 2, 3)))),
    Case("batch_norm", VOLUME | {"training": True, "layout": "nhwc"}, lambda x, g, b: (
        normalised(x, (0, 1, 2)) * g + b, x.mean((0, 1, 2)), x.var((0, 1, 2)))),
    Case("group_norm", VOLUME | {"groups": 3}, lambda *x: group_norm(3, *x)),
    Case("group_norm", VOLUME | {"groups": 1}, lambda *x: group_norm(1, *x)),
    Case("instance_norm", VOLUME, lambda *x: group_norm(6, *x)),
]  # fmt: skip
