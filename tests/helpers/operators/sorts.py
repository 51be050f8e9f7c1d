"""Elements in order, NaN and equal ones among them."""

from __future__ import annotations

import numpy as np

from helpers.operators.case import Array, Case, rounded, with_specials


def order(x: Array, axis: int, descending: bool) -> Array:
    """Where the elements in order are: NumPy's stable order, NaN last; descending the same from the end, equal ones in their
    order."""
    if not descending:
        return np.argsort(x, axis, kind="stable")
    turned = np.argsort(np.flip(x, axis), axis, kind="stable")
    return x.shape[axis] - 1 - np.flip(turned, axis)


def first(x: Array, k: int, axis: int, largest: bool) -> tuple[Array, Array]:
    places = np.take(order(x, axis, largest), range(k), axis)
    return np.take_along_axis(x, places, axis), places


def in_order(x: Array, axis: int, descending: bool) -> Array:
    return np.take_along_axis(x, order(x, axis, descending), axis)


CASES: list[Case] = [
    Case("sort", {"shape": (5, 13)}, lambda x: in_order(x, 1, False), with_specials),
    Case("sort", {"shape": (9, 4), "axis": 0, "descending": True, "dtype": "i8"}, lambda x: in_order(x, 0, True), None),
    Case("argsort", {"shape": (3, 17)}, lambda x: order(x, 1, False), rounded),
    Case("argsort", {"shape": (17,), "descending": True, "dtype": "f64"}, lambda x: order(x, 0, True), with_specials),
    Case("topk", {"shape": (4, 21), "k": 5}, lambda x: first(x, 5, 1, True), with_specials),
    Case("topk", {"shape": (3, 40), "k": 4}, lambda x: first(x, 4, 1, True), with_specials),
    Case("topk", {"shape": (35, 6), "k": 3, "axis": 0, "largest": False}, lambda x: first(x, 3, 0, False), rounded),
    Case("topk", {"shape": (11, 40), "k": 9}, lambda x: first(x, 9, 1, True), with_specials),
    Case("topk", {"shape": (2, 33, 5), "k": 12, "axis": 1, "largest": False}, lambda x: first(x, 12, 1, False), rounded),
    Case("topk", {"shape": (40,), "k": 1, "dtype": "i32"}, lambda x: first(x, 1, 0, True)),
]  # fmt: skip
