"""Operators that move elements, interpolate, or compare with what is wanted."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import expit, log_softmax

from helpers.operators.case import Array, Case

SHAPE = (5, 3, 4)
PIXELS = {"n": 2, "c": 3, "h": 4, "w": 5}


def resized(x: Array, to: tuple[int, int], layout: str, weights: Callable[[int, int], Array]) -> Array:
    """Rows and columns multiplied by a matrix each."""
    first = x if layout == "nchw" else np.moveaxis(x, -1, 1)
    down, across = weights(first.shape[2], to[0]), weights(first.shape[3], to[1])
    y = np.einsum("ph,nchw,qw->ncpq", down, first, across)
    return y if layout == "nchw" else np.moveaxis(y, 1, -1)


def nearest(size: int, count: int) -> Array:
    return np.eye(size)[np.arange(count) * size // count]


def linear(align: bool) -> Callable[[int, int], Array]:
    def weights(size: int, count: int) -> Array:
        matrix = np.zeros((count, size))
        for p in range(count):
            place = p * (size - 1) / max(count - 1, 1) if align else max((p + 0.5) * size / count - 0.5, 0)
            before = min(int(np.floor(place + 1e-12)), size - 1)
            far = place - before
            matrix[p, before] += 1 - far
            matrix[p, min(before + 1, size - 1)] += far
        return matrix

    return weights


def to_depth(x: Array, block: int) -> Array:
    n, c, h, w = x.shape
    parts = x.reshape(n, c, h // block, block, w // block, block)
    return parts.transpose(0, 1, 3, 5, 2, 4).reshape(n, c * block * block, h // block, w // block)


def to_space(x: Array, block: int) -> Array:
    n, c, h, w = x.shape
    parts = x.reshape(n, c // block**2, block, block, h, w)
    return parts.transpose(0, 1, 4, 2, 5, 3).reshape(n, c // block**2, h * block, w * block)


def huber(x: Array, y: Array, delta: float) -> Array:
    away = np.abs(x - y)
    return np.where(away <= delta, away * away / 2, delta * (away - delta / 2))


def picked(x: Array, label: Array) -> Array:
    return x[np.arange(len(x)), np.clip(label, 0, x.shape[1] - 1)]


def over_all(over: str) -> Callable[[Array], Array]:
    return {"mean": np.mean, "sum": np.sum, "none": lambda x: x}[over]  # type: ignore[no-any-return]


def divergence(x: Array, y: Array) -> Array:
    return np.where(y > 0, y * (np.log(y) - x), 0).sum(1).mean()


CASES: list[Case] = [
    Case("transpose", {"rows": 6, "columns": 11}, np.transpose),
    Case("permute", {"shape": SHAPE, "order": (2, 0, 1)}, lambda x: x.transpose(2, 0, 1)),
    Case("permute", {"shape": SHAPE, "order": (0, 2, 1), "dtype": "i8"}, lambda x: x.transpose(0, 2, 1)),
    Case("reshape", {"shape": SHAPE, "to": (6, 10)}, lambda x: x.reshape(6, 10)),
    Case("reshape", {"shape": SHAPE, "to": (60,), "dtype": "f64"}, lambda x: x.reshape(60)),
    Case("reshape", {"shape": (60,), "to": (3, 5, 2, 2)}, lambda x: x.reshape(3, 5, 2, 2)),
    Case("broadcast_to", {"shape": (3, 1), "to": (5, 3, 4)}, lambda x: np.broadcast_to(x, (5, 3, 4))),
    Case("concat", {"shapes": ((2, 3), (4, 3), (1, 3))}, lambda *x: np.concatenate(x)),
    Case("concat", {"shapes": ((5, 3, 2), (5, 3, 7)), "axis": -1, "dtype": "i32"}, lambda *x: np.concatenate(x, -1)),
    Case("stack", {"shape": (5, 3), "count": 3, "axis": 1}, lambda *x: np.stack(x, 1)),
    Case("split", {"shape": (6, 5), "parts": 3}, lambda x: tuple(np.split(x, 3))),
    Case("split", {"shape": (5, 8), "parts": 2, "axis": 1}, lambda x: tuple(np.split(x, 2, 1))),
    Case("slice", {"shape": SHAPE, "start": (1, 0, 1), "stop": (5, 3, 4), "step": (2, 1, 3)}, lambda x: x[1:5:2, :, 1:4:3]),
    Case("pad", {"shape": (5, 7), "before": (2, 0), "after": (1, 3)}, lambda x: np.pad(x, ((2, 1), (0, 3)))),
    Case("pad", {"shape": (5, 7), "before": 1, "after": 2, "value": 2.5},
         lambda x: np.pad(x, ((1, 2), (1, 2)), constant_values=2.5)),
    Case("pad", {"shape": (5, 7), "before": 2, "after": 3, "mode": "edge"}, lambda x: np.pad(x, ((2, 3), (2, 3)), "edge")),
    Case("pad", {"shape": (5, 7), "before": 4, "after": 3, "mode": "reflect"},
         lambda x: np.pad(x, ((4, 3), (4, 3)), "reflect")),
    Case("tile", {"shape": (5, 3), "times": (2, 3)}, lambda x: np.tile(x, (2, 3))),
    Case("repeat", {"shape": (5, 3), "times": 3, "axis": 1}, lambda x: np.repeat(x, 3, 1)),
    Case("flip", {"shape": SHAPE, "axes": (0, -1)}, lambda x: np.flip(x, (0, 2))),
    Case("roll", {"shape": (5, 7), "by": 3, "axis": 1}, lambda x: np.roll(x, 3, 1)),
    Case("roll", {"shape": (5, 7), "by": -9}, lambda x: np.roll(x, -9, 0)),
    Case("triangle", {"rows": 5, "columns": 7, "diagonal": 1}, lambda x: np.tril(x, 1)),
    Case("triangle", {"rows": 5, "columns": 7, "upper": True, "diagonal": -1}, lambda x: np.triu(x, -1)),
    Case("depth_to_space", PIXELS | {"block": 2}, lambda x: to_space(x, 2)),
    Case("space_to_depth", PIXELS | {"block": 2}, lambda x: to_depth(x, 2)),
    Case("gather", {"shape": SHAPE, "count": 7, "axis": 1}, lambda x, i: np.take(x, i, 1, mode="clip")),
    Case("gather", {"shape": (5, 3), "count": 4, "dtype": "bool"}, lambda x, i: np.take(x, i, 0, mode="clip")),
    Case("take_along_axis", {"shape": SHAPE, "count": 7, "axis": 1},
         lambda x, i: np.take_along_axis(x, np.clip(i, 0, 2), 1)),
    Case("embedding", {"tokens": 9, "vocabulary": 6, "width": 5}, lambda i, w: w[np.clip(i, 0, 5)]),
    Case("one_hot", {"count": 9, "classes": 5}, lambda i: (i[:, None] == np.arange(5)).astype(float)),
    Case("one_hot", {"count": 9, "classes": 5, "dtype": "bool"}, lambda i: i[:, None] == np.arange(5)),
    *(
        Case("resize_nearest", {**PIXELS, "to": to, "layout": layout}, lambda x, t=to, o=layout: resized(x, t, o, nearest))
        for to, layout in (((8, 10), "nchw"), ((3, 7), "nhwc"))
    ),
    *(
        Case("resize_bilinear", {**PIXELS, "to": to, "layout": layout, "align_corners": align},
             lambda x, t=to, o=layout, a=align: resized(x, t, o, linear(a)))
        for to, layout in (((8, 10), "nchw"), ((3, 7), "nhwc"), ((1, 5), "nchw"))
        for align in (False, True)
    ),
    *(Case("mse_loss", {"shape": (5, 7), "over": over}, lambda x, y, o=over: over_all(o)((x - y) ** 2))
      for over in ("mean", "sum", "none")),
    Case("l1_loss", {"size": 33}, lambda x, y: np.mean(np.abs(x - y))),
    Case("huber_loss", {"size": 33, "delta": 0.5}, lambda x, y: np.mean(huber(x, y, 0.5))),
    Case("binary_cross_entropy", {"size": 33},
         lambda x, y: np.mean(-(y * np.log(expit(x)) + (1 - y) * np.log(1 - expit(x))))),
    Case("kl_divergence", {"rows": 6, "columns": 11}, divergence),
    *(Case("cross_entropy", {"rows": 6, "classes": 11, "over": over},
           lambda x, i, o=over: over_all(o)(-picked(log_softmax(x, axis=1), i))) for over in ("mean", "none")),
    Case("nll_loss", {"rows": 6, "classes": 11, "over": "sum"}, lambda x, i: -picked(x, i).sum()),
    Case("cosine_similarity", {"rows": 6, "columns": 11},
         lambda x, y: (x * y).sum(1) / np.linalg.norm(x, axis=1) / np.linalg.norm(y, axis=1)),
]  # fmt: skip
