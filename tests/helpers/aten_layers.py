"""Calls of ATen's products, windows, normalisation and recurrent layers, with what NumPy says of them; see aten_cases.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from helpers.aten_cases import IMAGE, ROW, Case, P, X, Y, sigmoid
from helpers.graph_functions import numbers
from tilesmith.tensor.dtype import i32

SIDE = numbers(3, 7, 5, seed=4)
BYTES = (np.arange(35) * 37 % 256 - 128).astype(np.int8).reshape(5, 7)
WEIGHTS = numbers(4, 2, 3, 2, seed=5)
SOFT = np.exp(X @ Y.swapaxes(1, 2) / np.sqrt(7))
BEFORE = np.tril(SOFT)


def convolved(x: Any, w: Any, stride: int) -> Any:
    """Of images, two groups of channels, without a border."""
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(2, 3))[:, :, ::stride, ::stride]
    halves = [np.einsum("bchwrs,ocrs->bohw", windows[:, g : g + 2], w[g : g + 2]) for g in (0, 2)]
    return np.concatenate(halves, 1)


def turned_back(x: Any, w: Any) -> Any:
    """A transposed convolution of stride 2: every element adds its window."""
    out = np.zeros((x.shape[0], w.shape[1], 2 * x.shape[2] + w.shape[2] - 2, 2 * x.shape[3] + w.shape[3] - 2))
    for p in range(x.shape[2]):
        for q in range(x.shape[3]):
            out[:, :, 2 * p : 2 * p + w.shape[2], 2 * q : 2 * q + w.shape[3]] += np.einsum(
                "bc,cors->bors", x[:, :, p, q], w
            )
    return out


def folded(columns: Any) -> Any:
    """Windows of 2 x 3 each second place of an image of 4 x 5, with a line above and below it, added up."""
    image = np.zeros((2, 3, 6, 5))
    for n, (p, q) in enumerate(np.ndindex(3, 2)):
        image[:, :, 2 * p : 2 * p + 2, 2 * q : 2 * q + 3] += columns[:, :, n].reshape(2, 3, 2, 3)
    return image[:, :, 1:-1]


CHOSEN, BEGINS = np.array([3, 1, 1, 0, 4, 2, 2, 3]), np.array([0, 3, 3, 4])  # one bag is empty
ROWS = numbers(5, 6, seed=7)
FACTORS = numbers(8, seed=7)


def bags(combine: Any, rows: Any, ends: Any = (3, 3, 4, 8), left_out: int = -1) -> Any:
    """Rows of each bag combined, 0 where it has none."""
    parts = [rows[b:e][CHOSEN[b:e] != left_out] for b, e in zip(BEGINS, ends, strict=True)]
    return np.stack([combine(part, axis=0) if len(part) else np.zeros(6) for part in parts])


BAGS: list[Case] = [
    *(("_embedding_bag.default", (ROWS, CHOSEN, BEGINS, False, n), bags(combine, ROWS[CHOSEN]))
      for n, combine in enumerate((np.sum, np.mean, np.max))),
    ("_embedding_bag.default", (ROWS, CHOSEN, BEGINS, False, 0, False, FACTORS),
     bags(np.sum, ROWS[CHOSEN] * FACTORS[:, None])),
    ("_embedding_bag.default", (ROWS, CHOSEN, np.append(BEGINS, 6), False, 1, False, None, True),
     bags(np.mean, ROWS[CHOSEN], (3, 3, 4, 6))),
    *(("_embedding_bag.default", (ROWS, CHOSEN, BEGINS, False, n, False, None, False, 1),
       bags(combine, ROWS[CHOSEN], left_out=1)) for n, combine in enumerate((np.sum, np.mean, np.max))),
]  # fmt: skip
PRODUCTS: list[Case] = [
    ("mm.default", (X[0], SIDE[1]), X[0] @ SIDE[1]),
    ("bmm.default", (X, SIDE), X @ SIDE),
    ("_int_mm.default", (BYTES, BYTES.T), BYTES.astype(np.int32) @ BYTES.T.astype(np.int32)),
    ("_int_mm.default", (BYTES.view(np.uint8), BYTES.T), BYTES.view(np.uint8).astype(np.int32) @ BYTES.T.astype(np.int32)),
    ("inner.default", (X, Y[0]), np.inner(X, Y[0])),
    ("linear.default", (X, SIDE[0].T, SIDE[1, 0]), X @ SIDE[0] + SIDE[1, 0]),
    ("addmm.default", (SIDE[2, :5], X[0], SIDE[1], 2, 0.5), 2 * SIDE[2, :5] + 0.5 * X[0] @ SIDE[1]),
    ("addbmm.default", (SIDE[2, :5], X, SIDE, 2, 1), 2 * SIDE[2, :5] + (X @ SIDE).sum(0)),
    ("outer.default", (ROW, X[0, :, 0]), np.outer(ROW, X[0, :, 0])),
    ("einsum.default", ("bij,bkj->bik", [X, Y]), np.einsum("bij,bkj->bik", X, Y)),
    ("convolution.default", (IMAGE, WEIGHTS, None, (1, 1), (0, 0), (1, 1), False, (0, 0), 2), convolved(IMAGE, WEIGHTS, 1)),
    ("conv2d.default", (IMAGE, WEIGHTS, None, 2, 0, 1, 2), convolved(IMAGE, WEIGHTS, 2)),
    ("conv_transpose2d.input", (IMAGE, WEIGHTS, None, 2), turned_back(IMAGE, WEIGHTS)),
    ("cdist.default", (X, Y), np.sqrt(((X[:, :, None] - Y[:, None]) ** 2).sum(-1))),
    ("_pdist_forward.default", (X[0],), np.sqrt(((X[0][:, None] - X[0]) ** 2).sum(-1))[np.triu_indices(5, 1)]),
    ("scaled_dot_product_attention.default", (X, Y, P), SOFT / SOFT.sum(-1, keepdims=True) @ P),
    ("scaled_dot_product_attention.default", (X, Y, P, None, 0.0, True), BEFORE / BEFORE.sum(-1, keepdims=True) @ P),
    ("scaled_dot_product_attention.default", (X, Y, P, np.tril(np.ones((5, 5), bool))),
     BEFORE / BEFORE.sum(-1, keepdims=True) @ P),
]  # fmt: skip
PANES = np.lib.stride_tricks.sliding_window_view(IMAGE, (2, 2), axis=(2, 3))[:, :, ::2, ::2]
BORDER = np.pad(IMAGE, ((0, 0), (0, 0), (1, 1), (1, 1)))
NINES = np.lib.stride_tricks.sliding_window_view(BORDER, (3, 3), axis=(2, 3))[:, :, ::2, ::2]
CENTRED = X - X.mean(2, keepdims=True)
STEADY = CENTRED / np.sqrt(X.var(2, keepdims=True) + 1e-5)
PER = np.array([0.5, 1.0, 2.0, 4.0, 8.0])
GROUPS = IMAGE.reshape(2, 2, -1)
GROUPED = ((GROUPS - GROUPS.mean(2, keepdims=True)) / np.sqrt(GROUPS.var(2, keepdims=True) + 1e-5)).reshape(IMAGE.shape)
GREATEST = PANES.reshape(2, 4, 3, 2, 4).argmax(-1)
PLACES = (2 * np.arange(3)[:, None] + GREATEST // 2) * 5 + 2 * np.arange(2) + GREATEST % 2  # row by row
GRADIENT = numbers(2, 4, 3, 2, seed=6)
BACK = np.zeros((2, 4, 30))
np.put_along_axis(BACK, PLACES.reshape(2, 4, 6), GRADIENT.reshape(2, 4, 6), 2)
SPREAD = np.pad(GRADIENT.repeat(2, 2).repeat(2, 3) / 4, ((0, 0), (0, 0), (0, 0), (0, 1)))
TWO, NONE = (2, 2), (0, 0)
WINDOWS: list[Case] = [
    ("max_pool2d_with_indices.default", (IMAGE, TWO), [PANES.max((4, 5)), PLACES]),
    ("max_pool2d_with_indices_backward.default", (GRADIENT, IMAGE, TWO, TWO, NONE, (1, 1), False, PLACES),
     BACK.reshape(IMAGE.shape)),
    ("avg_pool2d_backward.default", (GRADIENT, IMAGE, TWO, TWO, NONE, False, True, None), SPREAD),
    ("_adaptive_avg_pool2d_backward.default", (numbers(2, 4, 3, 5), IMAGE), numbers(2, 4, 3, 5).repeat(2, 2) / 2),
    ("max_pool1d.default", (X, 3, 2, 1), np.stack(
        [X[:, :, max(0, 2 * n - 1) : 2 * n + 2].max(2) for n in range(4)], 2)),
    ("max_pool2d.default", (IMAGE, (2, 2)), PANES.max((4, 5))),
    ("avg_pool2d.default", (IMAGE, (3, 3), (2, 2), (1, 1)), NINES.mean((4, 5))),
    ("adaptive_avg_pool2d.default", (IMAGE, (1, 1)), IMAGE.mean((2, 3), keepdims=True)),
    ("adaptive_avg_pool2d.default", (IMAGE, (3, 5)), IMAGE.reshape(2, 4, 3, 2, 5).mean(3)),
    ("upsample_nearest2d.vec", (IMAGE, None, (2.0, 3.0)), IMAGE.repeat(2, 2).repeat(3, 3)),
    ("upsample_nearest2d.default", (IMAGE, (12, 5)), IMAGE.repeat(2, 2)),
    ("upsample_linear1d.default", (X, (13,), True), np.stack(
        [(X[..., n // 2] + X[..., (n + 1) // 2]) / 2 for n in range(13)], -1)),
    ("upsample_bilinear2d.default", (IMAGE, (6, 5), False), IMAGE),
    ("upsample_bicubic2d.default", (IMAGE, (6, 5), True), IMAGE),
    ("grid_sampler_2d.default", (IMAGE, np.stack(np.broadcast_arrays(
        np.linspace(-1, 1, 5), np.linspace(-1, 1, 6)[:, None]), -1)[None].repeat(2, 0), 0, 0, True), IMAGE),
    ("col2im.default", (numbers(2, 18, 6), (4, 5), (2, 3), (1, 1), (1, 0), (2, 2)), folded(numbers(2, 18, 6))),
    ("batch_norm.default", (X, PER, PER, PER, PER, False, 0.1, 1e-5),
     (X - PER[:, None]) / np.sqrt(PER + 1e-5)[:, None] * PER[:, None] + PER[:, None]),
    ("instance_norm.default", (X, None, None, None, None, True, 0.1, 1e-5), STEADY),
    ("layer_norm.default", (X, (7,), ROW, ROW), STEADY * ROW + ROW),
    ("group_norm.default", (IMAGE, 2), GROUPED),
    ("rms_norm.default", (X, (7,), ROW, 1e-6), X / np.sqrt((X * X).mean(2, keepdims=True) + 1e-6) * ROW),
]  # fmt: skip


def recurrence(weights: Any, steps: Any, state: Any) -> Any:
    """A simple layer, one step after the other."""
    inner, outer, first, second = weights
    rows = []
    for step in steps:
        state = np.tanh(step @ inner.T + first + state @ outer.T + second)
        rows.append(state)
    return [np.stack(rows), state[None]]


SIMPLE = [numbers(4, 7, seed=8), numbers(4, 4, seed=8), numbers(4, seed=8), numbers(4, seed=9)]
LSTM = [numbers(16, 7, seed=8), numbers(16, 4, seed=8), numbers(16, seed=8), numbers(16, seed=9)]


def remembered(weights: Any, steps: Any, state: Any, cell: Any) -> Any:
    """An LSTM: its gates are of the input, of forgetting, of the cell and of the output."""
    inner, outer, first, second = weights
    rows = []
    for step in steps:
        i, f, g, o = np.split(step @ inner.T + first + state @ outer.T + second, 4, 1)
        cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
        state = sigmoid(o) * np.tanh(cell)
        rows.append(state)
    return [np.stack(rows), state[None], cell[None]]


def gated(weights: Any, steps: Any, state: Any) -> Any:
    """A GRU: its gates are of forgetting, of keeping and of what is new."""
    inner, outer, first, second = weights
    rows = []
    for step in steps:
        given, kept = np.split(step @ inner.T + first, 3, 1), np.split(state @ outer.T + second, 3, 1)
        r, z = sigmoid(given[0] + kept[0]), sigmoid(given[1] + kept[1])
        state = (1 - z) * np.tanh(given[2] + r * kept[2]) + z * state
        rows.append(state)
    return [np.stack(rows), state[None]]


def both_ways(forth: Any, back: Any, steps: Any, states: Any) -> Any:
    """A simple layer, and another one that begins at the end."""
    one, other = recurrence(forth, steps, states[0]), recurrence(back, steps[::-1], states[1])
    return [np.concatenate([one[0], other[0][::-1]], 2), np.concatenate([one[1], other[1]])]


GRU = [numbers(12, 7, seed=8), numbers(12, 4, seed=8), numbers(12, seed=8), numbers(12, seed=9)]
OPPOSITE = [-array for array in SIMPLE]
TWICE = numbers(2, 5, 4, seed=8)
START, CELL = numbers(1, 5, 4, seed=8), numbers(1, 5, 4, seed=9)
RECURRENT: list[Case] = [
    ("gru.input", (X, START, GRU, True, 1, 0.0, False, False, False), gated(GRU, X, START[0])),
    (
        "rnn_tanh.input",
        (X, TWICE, [*SIMPLE, *OPPOSITE], True, 1, 0.0, False, True, False),
        both_ways(SIMPLE, OPPOSITE, X, TWICE),
    ),
    ("rnn_tanh.input", (X, START, SIMPLE, True, 1, 0.0, False, False, False), recurrence(SIMPLE, X, START[0])),
    ("lstm.input", (X, [START, CELL], LSTM, True, 1, 0.0, False, False, False), remembered(LSTM, X, START[0], CELL[0])),
]
REFUSED: list[tuple[str, tuple[Any, ...], str]] = [
    ("dropout.default", (X, 0.5, True), "random numbers"),
    ("native_dropout.default", (X, 0.5, True), "random numbers"),
    ("rnn_tanh.input", (X, START, SIMPLE, True, 1, 0.5, True, False, False), "random numbers"),
    ("lstm.input", (X, [START, CELL[:, :, :2]], LSTM, True, 1, 0.0, False, False, False), "projections"),
    ("full.default", ((2,), np.inf, i32), "as an integer"),
]
LAYERS = [*PRODUCTS, *WINDOWS, *BAGS, *RECURRENT]
