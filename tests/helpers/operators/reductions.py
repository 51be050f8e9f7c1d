"""Reductions, argmax and scans, over any axes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import logsumexp

from helpers.operators.case import Array, Case, mostly_zero, rounded, with_specials

Meaning = Callable[..., Array]

GRID = {"rows": 6, "columns": 11}
SHAPE = (5, 3, 4)
AXES: list[tuple[dict[str, object], dict[str, object]]] = [
    ({}, {"axis": None}),
    ({"axes": (1,)}, {"axis": 1}),
    ({"axes": (-1, 0)}, {"axis": (0, 2)}),
    ({"axes": (2,), "keep": True}, {"axis": 2, "keepdims": True}),
]

REDUCTIONS: dict[str, Meaning] = {
    "sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min, "mean": np.mean, "variance": np.var,
    "deviation": np.std, "norm1": lambda x, **o: np.sum(np.abs(x), **o),
    "norm2": lambda x, **o: np.sqrt(np.sum(x * x, **o)), "norm_inf": lambda x, **o: np.max(np.abs(x), **o),
    "log_sum_exp": logsumexp, "count_nonzero": np.count_nonzero,
}  # fmt: skip
SCANS: dict[str, Meaning] = {
    "cumsum": np.cumsum, "cumprod": np.cumprod, "cummax": np.maximum.accumulate, "cummin": np.minimum.accumulate,
}  # fmt: skip


def with_options(meaning: Meaning, options: dict[str, object]) -> Meaning:
    return lambda x: np.asarray(meaning(x, **options))


def reversed_along(meaning: Meaning, axis: int) -> Meaning:
    return lambda x: np.flip(meaning(np.flip(x, axis), axis), axis)


CASES: list[Case] = [
    Case("row_sum", GRID, lambda x: x.sum(1)),
    Case("column_sum", GRID, lambda x: x.sum(0)),
    Case("row_max", GRID, lambda x: x.max(1)),
    Case("column_max", GRID, lambda x: x.max(0)),
    Case("row_mean", GRID, lambda x: x.mean(1)),
    Case("total", {"size": 33}, np.sum),
    *(
        Case(name, {"shape": SHAPE, **ours}, with_options(meaning, theirs))
        for name, meaning in REDUCTIONS.items()
        for ours, theirs in AXES
    ),
    *(Case(name, {"shape": SHAPE, "axes": (0,), "dtype": "i32"}, with_options(REDUCTIONS[name], {"axis": 0}))
      for name in ("sum", "prod", "max", "min", "norm1", "count_nonzero")),
    *(Case(name, {"shape": (7, 9), **ours}, with_options(meaning, theirs))
      for name, meaning in (("any", np.any), ("all", np.all)) for ours, theirs in AXES[:2]),
    *(Case(name, {"shape": (7, 9), "axes": (1,), "dtype": dtype}, with_options(meaning, {"axis": 1}), change)
      for name, meaning in (("any", np.any), ("all", np.all))
      for dtype, change in (("f32", rounded), ("f64", with_specials), ("i32", None), ("i32", mostly_zero))),
    *(
        Case(name, {"shape": SHAPE, "axis": axis, "dtype": dtype}, with_options(meaning, {"axis": axis}))
        for name, meaning in (("argmax", np.argmax), ("argmin", np.argmin))
        for axis, dtype in ((0, "f32"), (1, "i8"), (-1, "f64"), (-1, "bool"))
    ),
    *(Case(name, {"shape": SHAPE, "axis": axis}, with_options(meaning, {"axis": axis}))
      for name, meaning in SCANS.items() for axis in (0, -1)),
    *(Case(name, {"shape": (9,), "reverse": True, "dtype": "i64"}, reversed_along(meaning, 0))
      for name, meaning in SCANS.items() if name != "cumprod"),
    Case("cumsum", {"shape": (4, 7), "axis": 1, "reverse": True, "dtype": "f64"}, reversed_along(np.cumsum, 1)),
]  # fmt: skip
