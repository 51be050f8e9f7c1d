"""Calls of ATen's operators with what NumPy says of them: what torch exports, without torch.

A case is (operator, arguments, what comes out). Arrays among the arguments become tensors.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from helpers.graph_functions import numbers
from tilesmith.tensor.dtype import f64, i32

X, Y = numbers(3, 5, 7), numbers(3, 5, 7, seed=1)
P = np.abs(X) + 0.1  # positive
UNIT = np.tanh(X)  # between -1 and 1
WORD, OTHER = numbers(3, 5, 7, dtype="int64"), numbers(3, 5, 7, seed=1, dtype="int64")
FLAG, MASK = numbers(3, 5, 7, dtype="bool"), numbers(3, 5, 7, seed=1, dtype="bool")
ROW = numbers(7)
ODD = np.array([np.nan, np.inf, -np.inf, 1.5, -0.0])
Case = tuple[str, tuple[Any, ...], Any]


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def softplus(x: Any) -> Any:
    return np.log1p(np.exp(x))


SAME_NAME = ("exp", "exp2", "expm1", "sin", "cos", "tan", "sinh", "cosh", "tanh")
OF_POSITIVE = ("log", "log2", "log10", "log1p", "sqrt", "reciprocal")
ROOTS = np.array([1.0, 4.0, 0.25])
REAL: list[Case] = [
    *((f"{name}.default", (X,), getattr(np, name)(X)) for name in SAME_NAME),
    *((f"{name}.default", (P,), getattr(np, name)(P)) for name in OF_POSITIVE),
    ("asin.default", (UNIT,), np.arcsin(UNIT)),
    ("acos.default", (UNIT,), np.arccos(UNIT)),
    ("atan.default", (X,), np.arctan(X)),
    ("asinh.default", (X,), np.arcsinh(X)),
    ("acosh.default", (P + 1,), np.arccosh(P + 1)),
    ("atanh.default", (UNIT / 2,), np.arctanh(UNIT / 2)),
    ("rsqrt.default", (ROOTS,), np.array([1.0, 0.5, 2.0])),
    ("sigmoid.default", (X,), sigmoid(X)),
    ("log_sigmoid.default", (X,), np.log(sigmoid(X))),
    ("relu.default", (X,), np.maximum(X, 0)),
    ("relu6.default", (X * 9,), np.clip(X * 9, 0, 6)),
    ("silu.default", (X,), X * sigmoid(X)),
    ("mish.default", (X,), X * np.tanh(softplus(X))),
    ("hardsigmoid.default", (X * 4,), np.clip(X * 4 / 6 + 0.5, 0, 1)),
    ("hardswish.default", (X * 4,), X * 4 * np.clip(X * 4 / 6 + 0.5, 0, 1)),
    ("elu.default", (X, 0.7, 1.5, 0.5), 1.5 * np.where(X > 0, X, 0.7 * np.expm1(0.5 * X))),
    ("celu.default", (X, 0.7), np.where(X > 0, X, 0.7 * np.expm1(X / 0.7))),
    ("leaky_relu.default", (X, 0.2), np.where(X > 0, X, 0.2 * X)),
    ("hardshrink.default", (X, 0.4), np.where(np.abs(X) > 0.4, X, 0)),
    ("softshrink.default", (X, 0.4), np.sign(X) * np.maximum(np.abs(X) - 0.4, 0)),
    ("softplus.default", (X * 20, 2.0, 10.0), np.where(X * 40 > 10, X * 20, softplus(np.minimum(X * 40, 10)) / 2)),
    ("threshold.default", (X, 0.1, 2.0), np.where(X > 0.1, X, 2.0)),
    ("prelu.default", (X, np.array([0.1, 0.2, 0.3, 0.4, 0.5])),
     np.where(X > 0, X, X * np.array([0.1, 0.2, 0.3, 0.4, 0.5])[:, None])),
    ("glu.default", (X[:, :, 1:], -1), X[:, :, 1:4] * sigmoid(X[:, :, 4:])),
    ("gelu.default", (X, "tanh"), 0.5 * X * (1 + np.tanh(np.sqrt(2 / np.pi) * (X + 0.044715 * X**3)))),
    ("hardtanh.default", (X, -0.5, 0.25), np.clip(X, -0.5, 0.25)),
    ("fill.Scalar", (X, 2.5), np.full_like(X, 2.5)),
    ("xlogy.Tensor", (X, P), X * np.log(P)),
]  # fmt: skip
PAIRS: list[Case] = [
    ("add.Tensor", (X, ROW, 2), X + 2 * ROW),
    ("add.Scalar", (WORD, 3), WORD + 3),
    ("sub.Tensor", (X, Y, 0.5), X - 0.5 * Y),
    ("rsub.Scalar", (X, 1.0), 1 - X),
    ("mul.Tensor", (WORD, OTHER), WORD * OTHER),
    ("div.Tensor", (X, P), X / P),
    ("div.Tensor_mode", (X, P, "floor"), np.floor(X / P)),
    ("div.Tensor_mode", (WORD, np.abs(OTHER) + 1, "trunc"), np.trunc(WORD / (np.abs(OTHER) + 1)).astype(np.int64)),
    ("floor_divide.default", (WORD, 3), WORD // 3),
    ("remainder.Tensor", (X, P), np.mod(X, P)),
    ("remainder.Scalar", (WORD, 3), WORD % 3),
    ("fmod.Tensor", (X, P), np.fmod(X, P)),
    ("pow.Tensor_Tensor", (P, Y), P**Y),
    ("pow.Tensor_Scalar", (X, 3), X**3),
    ("pow.Scalar", (2.0, X), 2.0**X),
    ("maximum.default", (X, Y), np.maximum(X, Y)),
    ("min.other", (WORD, OTHER), np.minimum(WORD, OTHER)),
    ("fmax.default", (ODD, 0.5 * np.ones(5)), np.fmax(ODD, 0.5)),
    ("fmin.default", (ODD, 0.5 * np.ones(5)), np.fmin(ODD, 0.5)),
    ("abs.default", (WORD,), np.abs(WORD)),
    ("neg.default", (X,), -X),
    ("clone.default", (X,), X),
    ("dropout.default", (X, 0.5, False), X),
    ("sign.default", (WORD,), np.sign(WORD)),
    ("square.default", (X,), X * X),
    ("round.default", (X * 5,), np.round(X * 5)),
    ("round.decimals", (X, 2), np.round(X, 2)),
    ("frac.default", (X,), X - np.trunc(X)),
    ("floor.default", (X * 3,), np.floor(X * 3)),
    ("ceil.default", (X * 3,), np.ceil(X * 3)),
    ("trunc.default", (X * 3,), np.trunc(X * 3)),
    ("logical_not.default", (WORD,), WORD == 0),
    ("bitwise_not.default", (WORD,), ~WORD),
    ("bitwise_not.default", (FLAG,), ~FLAG),
    *((f"logical_{name}.default", (FLAG, MASK), getattr(np, f"logical_{name}")(FLAG, MASK)) for name in ("and", "or", "xor")),
    *((f"bitwise_{name}.Tensor", (FLAG, MASK), getattr(np, f"bitwise_{name}")(FLAG, MASK)) for name in ("and", "or", "xor")),
    *((f"{short}.Tensor", (WORD, OTHER), getattr(np, long)(WORD, OTHER)) for short, long in
      (("eq", "equal"), ("ne", "not_equal"), ("lt", "less"), ("le", "less_equal"), ("gt", "greater"), ("ge", "greater_equal"))),
    ("isnan.default", (ODD,), np.isnan(ODD)),
    ("isinf.default", (ODD,), np.isinf(ODD)),
    ("isfinite.default", (ODD,), np.isfinite(ODD)),
    ("isfinite.default", (WORD,), np.ones_like(FLAG)),
    ("copysign.Tensor", (P, X), np.copysign(P, X)),
    ("atan2.default", (X, Y), np.arctan2(X, Y)),
    ("hypot.default", (X, Y), np.hypot(X, Y)),
    ("logaddexp.default", (X, Y), np.logaddexp(X, Y)),
    ("where.self", (FLAG, X, Y), np.where(FLAG, X, Y)),
    ("where.ScalarOther", (FLAG, X, 0.5), np.where(FLAG, X, 0.5)),
    ("masked_fill.Scalar", (X, FLAG, -1.0), np.where(FLAG, -1.0, X)),
    ("clamp.default", (X, -0.5, None), np.maximum(X, -0.5)),
    ("clamp_min.default", (X, 0.1), np.maximum(X, 0.1)),
    ("clamp_max.default", (X, 0.1), np.minimum(X, 0.1)),
    ("addcmul.default", (X, Y, P, 0.5), X + 0.5 * Y * P),
    ("addcdiv.default", (X, Y, P, 0.5), X + 0.5 * Y / P),
    ("lerp.Scalar", (X, Y, 0.25), X + 0.25 * (Y - X)),
    ("nan_to_num.default", (ODD, 7.0, 8.0, -9.0), np.nan_to_num(ODD, nan=7.0, posinf=8.0, neginf=-9.0)),
    ("_to_copy.default", (X * 5, i32), np.trunc(X * 5).astype(np.int32)),
    ("type_as.default", (WORD, X), WORD.astype(np.float64)),
]  # fmt: skip
MADE: list[Case] = [
    ("full.default", ((2, 3), 4), np.full((2, 3), 4)),
    ("scalar_tensor.default", (1.5, f64), np.array(1.5)),
    ("new_full.default", (X, (2, 2), 3.0), np.full((2, 2), 3.0)),
    ("zeros.default", ((2, 3), f64), np.zeros((2, 3))),
    ("empty_strided.default", ((2, 3), (3, 1), f64), np.zeros((2, 3))),
    ("new_empty_strided.default", (X, (2, 3), (3, 1)), np.zeros((2, 3))),
    ("ones.default", ((4,), i32), np.ones(4, np.int32)),
    ("zeros_like.default", (WORD,), np.zeros_like(WORD)),
    ("ones_like.default", (X,), np.ones_like(X)),
    ("new_zeros.default", (X, (2,)), np.zeros(2)),
    ("new_ones.default", (X, (2,)), np.ones(2)),
    ("arange.start_step", (1, 12, 3), np.arange(1, 12, 3)),
    ("arange.default", (5,), np.arange(5)),
    ("arange.start", (2, 6), np.arange(2, 6)),
    ("linspace.default", (0.0, 1.0, 5, f64), np.linspace(0, 1, 5)),
    ("eye.m", (3, 5, f64), np.eye(3, 5)),
    ("eye.default", (4, f64), np.eye(4)),
    ("tril.default", (X, 1), np.tril(X, 1)),
    ("triu.default", (X, -1), np.triu(X, -1)),
    ("tril_indices.default", (3, 4, 1), np.array(np.tril_indices(3, 1, 4))),
    ("tril_indices.default", (4, 3, -2), np.array(np.tril_indices(4, -2, 3))),
    ("triu_indices.default", (3, 5, 2), np.array(np.triu_indices(3, 2, 5))),
    ("triu_indices.default", (5, 3, -1), np.array(np.triu_indices(5, -1, 3))),
    ("triu_indices.default", (4, 2, 0, i32), np.array(np.triu_indices(4, 0, 2), np.int32)),
    ("one_hot.default", (np.abs(WORD), 5), np.eye(5, dtype=np.int64)[np.abs(WORD)]),
    ("copy.default", (X, ROW), np.broadcast_to(ROW, X.shape)),
]
COLUMNS = np.lib.stride_tricks.sliding_window_view(X, 3, axis=2)
IMAGE = numbers(2, 4, 6, 5)
MOVED: list[Case] = [
    ("view.default", (X, (15, -1)), X.reshape(15, 7)),
    ("flatten.using_ints", (X, 1), X.reshape(3, 35)),
    ("unflatten.int", (X.reshape(15, 7), 0, (3, -1)), X),
    ("squeeze.dim", (X[:, None], 1), X),
    ("unsqueeze.default", (X, -1), X[..., None]),
    ("permute.default", (X, (2, 0, 1)), X.transpose(2, 0, 1)),
    ("transpose.int", (X, 0, -1), X.swapaxes(0, 2)),
    ("t.default", (X[0],), X[0].T),
    ("t.default", (ROW,), ROW),
    ("movedim.int", (X, 0, 2), np.moveaxis(X, 0, 2)),
    ("movedim.intlist", (X, (0, 1), (2, 0)), np.moveaxis(X, (0, 1), (2, 0))),
    ("expand.default", (X[:1], (4, -1, 7)), np.broadcast_to(X[:1], (4, 5, 7))),
    ("expand_as.default", (ROW, X), np.broadcast_to(ROW, X.shape)),
    ("view_as.default", (X.reshape(-1), Y), X),
    ("slice.Tensor", (X, 2, 1, 6, 2), X[:, :, 1:6:2]),
    ("narrow.default", (X, 1, -3, 2), X[:, 2:4]),
    ("select.int", (X, 1, -1), X[:, -1]),
    ("unbind.int", (X, 0), list(X)),
    ("split.Tensor", (X, 2, 1), [X[:, :2], X[:, 2:4], X[:, 4:]]),
    ("split_with_sizes.default", (X, (1, 4), 1), [X[:, :1], X[:, 1:]]),
    ("chunk.default", (X, 2, 1), [X[:, :3], X[:, 3:]]),
    ("cat.default", ([X, Y], 1), np.concatenate([X, Y], 1)),
    ("stack.default", ([X, Y], 1), np.stack([X, Y], 1)),
    ("repeat.default", (X, (2, 1, 3)), np.tile(X, (2, 1, 3))),
    ("repeat_interleave.self_int", (X, 2, 1), np.repeat(X, 2, 1)),
    ("flip.default", (X, (0, 2)), np.flip(X, (0, 2))),
    ("roll.default", (X, (1, 2), (0, 2)), np.roll(X, (1, 2), (0, 2))),
    ("roll.default", (X, 3), np.roll(X, 3)),
    ("diagonal.default", (X, 1, 0, 2), np.diagonal(X, 1, 0, 2)),
    ("constant_pad_nd.default", (X, (1, 2), 0.5), np.pad(X, ((0, 0), (0, 0), (1, 2)), constant_values=0.5)),
    ("reflection_pad1d.default", (X, (1, 2)), np.pad(X, ((0, 0), (0, 0), (1, 2)), "reflect")),
    ("replication_pad2d.default", (IMAGE, (1, 0, 2, 1)), np.pad(IMAGE, ((0, 0), (0, 0), (2, 1), (1, 0)), "edge")),
    ("pad.default", (X, (1, 1), "circular"), np.pad(X, ((0, 0), (0, 0), (1, 1)), "wrap")),
    ("pixel_shuffle.default", (IMAGE, 2),
     IMAGE.reshape(2, 1, 2, 2, 6, 5).transpose(0, 1, 4, 2, 5, 3).reshape(2, 1, 12, 10)),
    ("pixel_unshuffle.default", (IMAGE[:, :, :, :4], 2),
     IMAGE[:, :, :, :4].reshape(2, 4, 3, 2, 2, 2).transpose(0, 1, 3, 5, 2, 4).reshape(2, 16, 3, 2)),
    ("channel_shuffle.default", (IMAGE, 2), IMAGE[:, [0, 2, 1, 3]]),
    ("as_strided.default", (X, (3, 4), (2, 5), 1), X.reshape(-1)[1 + 2 * np.arange(3)[:, None] + 5 * np.arange(4)]),
    ("meshgrid.indexing", ([ROW, X[0, :, 0]], "xy"), list(np.meshgrid(ROW, X[0, :, 0], indexing="xy"))),
    ("unfold.default", (X, 2, 3, 2), COLUMNS[:, :, ::2]),
]  # fmt: skip
I = np.array([[2, 0, 1], [1, 1, 2]])  # noqa: E741
ALONG = np.broadcast_to(I[:, :, None], (2, 3, 7)).copy()
PUT = X.copy()
PUT[:, 2:4] = Y[:, 1:3]
CHOSEN = X.copy()
CHOSEN[1] = Y[0]
PLACED = X.copy()
PLACED[I[0], I[1]] = Y[0, :3]
ADDED = X.copy()
np.add.at(ADDED, (I[0], I[1]), Y[0, :3])
SCATTERED = X.copy()
APART = np.broadcast_to(np.array([[2, 0, 4], [1, 3, 2]])[:, :, None], (2, 3, 7)).copy()
np.put_along_axis(SCATTERED[:2], APART, Y[:2, :3], 1)
VALUES = X.copy()
np.put_along_axis(VALUES[:2], ALONG, 2.5, 1)
SUMS = X.copy()
for a in range(2):
    for b in range(3):
        for c in range(7):
            SUMS[a, ALONG[a, b, c], c] += Y[a, b, c]
FILLED = X.copy()
FILLED[FLAG] = Y.reshape(-1)[: FLAG.sum()]
CHOICES: list[Case] = [
    ("embedding.default", (X[0], I), X[0][I]),
    ("index_select.default", (X, 1, I[0]), X[:, I[0]]),
    ("gather.default", (X, 1, ALONG), np.take_along_axis(X[:2], ALONG, 1)),
    ("take.default", (X, I * 9), X.reshape(-1)[I * 9]),
    ("index.Tensor", (X, [None, I]), X[:, I]),
    ("index.Tensor", (X, [I[0], None, I[1]]), X[I[0], :, I[1]]),
    ("slice_scatter.default", (X, Y[:, 1:3], 1, 2, 4), PUT),
    ("select_scatter.default", (X, Y[0], 0, 1), CHOSEN),
    ("index_put.default", (X, [I[0], I[1]], Y[0, :3]), PLACED),
    ("index_put.default", (X, [I[0], I[1]], Y[0, :3], True), ADDED),
    ("scatter.src", (X, 1, APART, Y), SCATTERED),
    ("scatter.value", (X, 1, ALONG, 2.5), VALUES),
    ("scatter_add.default", (X, 1, ALONG, Y), SUMS),
    ("scatter_reduce.two", (X, 1, ALONG, Y, "sum"), SUMS),
    ("masked_scatter.default", (X, FLAG, Y), FILLED),
    ("kthvalue.default", (X, 2, 1), [np.sort(X, 1)[:, 1], np.argsort(X, 1)[:, 1]]),
    ("topk.default", (X, 3, 1), [-np.sort(-X, 1)[:, :3], np.argsort(-X, 1)[:, :3]]),
    ("sort.default", (X, 1, True), [-np.sort(-X, 1), np.argsort(-X, 1)]),
    ("argsort.default", (X, 0), np.argsort(X, 0)),
]
REDUCED: list[Case] = [
    ("sum.dim_IntList", (X, (0, 2), True), X.sum((0, 2), keepdims=True)),
    ("sum.default", (FLAG,), np.asarray(FLAG.sum())),
    ("mean.dim", (X, (1,)), X.mean(1)),
    ("prod.dim_int", (X, 1), X.prod(1)),
    ("amax.default", (X, (0, 1)), X.max((0, 1))),
    ("amin.default", (WORD, (1,), True), WORD.min(1, keepdims=True)),
    ("any.dim", (FLAG, 1), FLAG.any(1)),
    ("all.default", (WORD,), np.asarray(WORD.all())),
    ("max.default", (X,), np.asarray(X.max())),
    ("max.dim", (X, 1), [X.max(1), X.argmax(1)]),
    ("min.dim", (X, 2, True), [X.min(2, keepdims=True), X.argmin(2)[:, :, None]]),
    ("argmax.default", (X,), np.asarray(X.argmax())),
    ("argmin.default", (X, 1), X.argmin(1)),
    ("var.correction", (X, (1,), 0), X.var(1)),
    ("var.dim", (X, (0, 2)), X.var((0, 2), ddof=1)),
    ("var_mean.correction", (X, (1,)), [X.var(1, ddof=1), X.mean(1)]),
    ("std.default", (X,), np.asarray(X.std(ddof=1))),
    ("std_mean.correction", (X, (1,)), [X.std(1, ddof=1), X.mean(1)]),
    ("logsumexp.default", (X, (2,)), np.log(np.exp(X).sum(2))),
    ("linalg_vector_norm.default", (X, 1, (2,)), np.abs(X).sum(2)),
    ("linalg_vector_norm.default", (X, np.inf, (1,)), np.abs(X).max(1)),
    ("norm.Scalar", (X,), np.asarray(np.sqrt((X * X).sum()))),
    ("cumsum.default", (X, 1), X.cumsum(1)),
    ("cumprod.default", (X, 2), X.cumprod(2)),
    ("cummax.default", (X, 1), np.maximum.accumulate(X, 1)),
    ("_softmax.default", (X, 1, False), np.exp(X) / np.exp(X).sum(1, keepdims=True)),
    ("_log_softmax.default", (X, 2, False), X - np.log(np.exp(X).sum(2, keepdims=True))),
]
ELEMENTS = [*REAL, *PAIRS, *MADE, *MOVED, *CHOICES, *REDUCED]
