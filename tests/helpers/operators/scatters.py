"""Sums at computed places: counts, and rows added where an index says."""

from __future__ import annotations

import numpy as np

from helpers.operators.case import Array, Case, with_specials

SHAPE = (6, 5)


def counted(x: Array, bins: int) -> Array:
    x = x.reshape(-1)
    return np.bincount(x[(x >= 0) & (x < bins)], minlength=bins)


def rows_added(x: Array, index: Array, updates: Array, axis: int) -> Array:
    """NumPy's own, after what lies outside is left out."""
    inside = (index >= 0) & (index < x.shape[axis])
    out = np.moveaxis(x.copy(), axis, 0)
    np.add.at(out, index[inside], np.moveaxis(updates, axis, 0)[inside])
    return np.moveaxis(out, 0, axis)


def elements_added(x: Array, index: Array, updates: Array, axis: int) -> Array:
    inside = (index >= 0) & (index < x.shape[axis])
    places = list(np.indices(index.shape))
    places[axis] = index
    out = x.copy()
    np.add.at(out, tuple(place[inside] for place in places), updates[inside])
    return out


def segments(x: Array, segment: Array, count: int) -> Array:
    out = np.zeros((count, *x.shape[1:]), x.dtype)
    return rows_added(out, segment, x, 0)


def shifted(x: Array) -> Array:
    """Of integers some lie outside of every range."""
    return x - 2 if x.dtype.kind == "i" else x


CASES: list[Case] = [
    Case("bincount", {"shape": (37,), "bins": 256}, lambda x: counted(x, 256)),
    Case("bincount", {"shape": (9, 13), "bins": 100}, lambda x: counted(x, 100)),
    Case("bincount", {"shape": (70,), "bins": 7, "dtype": "i32"}, lambda x: counted(x, 7), shifted),
    Case("histogram", {"shape": (9, 23), "bins": 8, "low": -0.5, "high": 0.75},
         lambda x: np.histogram(x, 8, (-0.5, 0.75))[0]),
    Case("histogram", {"shape": (300,), "bins": 5, "dtype": "f64"}, lambda x: np.histogram(x, 5, (0, 1))[0], with_specials),
    *(Case("scatter_add", {"shape": SHAPE, "count": 9, "axis": axis}, lambda x, i, u, a=axis: elements_added(x, i, u, a),
           change) for axis, change in ((0, None), (1, shifted))),
    Case("scatter_add", {"shape": (7,), "count": 20, "dtype": "i32"}, lambda x, i, u: elements_added(x, i, u, 0)),
    Case("index_add", {"shape": (6, 19), "count": 11}, lambda x, i, u: rows_added(x, i, u, 0)),
    Case("index_add", {"shape": (3, 4, 5), "count": 7, "axis": -2, "dtype": "f64"},
         lambda x, i, u: rows_added(x, i, u, 1), shifted),
    Case("segment_sum", {"shape": (21, 18), "segments": 4}, lambda x, s: segments(x, s, 4), shifted),
    Case("segment_sum", {"shape": (21,), "segments": 6, "dtype": "i64"}, lambda x, s: segments(x, s, 6)),
]  # fmt: skip
