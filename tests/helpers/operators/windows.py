"""Convolutions and pooling, by definition, in loops over the window."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np

from helpers.operators.case import Array, Case


def several(value: object, rank: int) -> tuple[int, ...]:
    return (value,) * rank if isinstance(value, int) else tuple(value)  # type: ignore[call-overload, no-any-return]


def first_of(x: Array, layout: str) -> Array:
    """Channels to the second place."""
    return x if layout.index("c") == 1 else np.moveaxis(x, -1, 1)


def back(y: Array, layout: str) -> Array:
    return y if layout.index("c") == 1 else np.moveaxis(y, 1, -1)


def parts(x: Array, kernel: object, stride: object, padding: object, dilation: object, fill: float) -> list[Array]:
    """For each element of the window, in order, the elements of x [n, c, ...] that it sees."""
    rank = x.ndim - 2
    k, s, p, d = (several(v, rank) for v in (kernel, stride, padding, dilation))
    padded = np.pad(x, ((0, 0), (0, 0), *((q, q) for q in p)), constant_values=fill)
    counts = [(padded.shape[2 + a] - d[a] * (k[a] - 1) - 1) // s[a] + 1 for a in range(rank)]
    found = []
    for offset in itertools.product(*(range(e) for e in k)):
        places = [slice(o * d[a], o * d[a] + (counts[a] - 1) * s[a] + 1, s[a]) for a, o in enumerate(offset)]
        found.append(padded[(slice(None), slice(None), *places)])
    return found


def convolution(
    x: Array, w: Array, stride: object = 1, padding: object = 0, dilation: object = 1, groups: int = 1
) -> Array:
    """x [n, c, ...] and w [o, c / groups, ...]"""
    o, inner, *kernel = w.shape
    flat = w.reshape(o, inner, -1)
    windows = parts(x, tuple(kernel), stride, padding, dilation, 0)
    y = np.zeros((x.shape[0], o, *windows[0].shape[2:]))
    for f in range(o):
        first = f // (o // groups) * inner
        for number, window in enumerate(windows):
            y[:, f] += np.einsum("nc...,c->n...", window[:, first : first + inner], flat[f, :, number])
    return y


def transposed(
    x: Array, w: Array, stride: object = 1, padding: object = 0, dilation: object = 1, groups: int = 1,
    output_padding: object = 0,
) -> Array:  # fmt: skip
    """Each element of x [n, c, ...] adds its window of w [c, o / groups, ...]."""
    n, c, *sizes = x.shape
    _, outer, *kernel = w.shape
    rank = len(sizes)
    s, p, d, e = (several(v, rank) for v in (stride, padding, dilation, output_padding))
    full = [(sizes[a] - 1) * s[a] + d[a] * (kernel[a] - 1) + 1 + e[a] for a in range(rank)]
    y = np.zeros((n, outer * groups, *full))
    for place in itertools.product(*(range(size) for size in sizes)):
        for offset in itertools.product(*(range(k) for k in kernel)):
            at = tuple(place[a] * s[a] + offset[a] * d[a] for a in range(rank))
            for g in range(groups):
                channels = slice(g * (c // groups), (g + 1) * (c // groups))
                added = x[(slice(None), channels, *place)] @ w[(channels, slice(None), *offset)]
                y[(slice(None), slice(g * outer, (g + 1) * outer), *at)] += added
    return y[(slice(None), slice(None), *(slice(p[a], full[a] - p[a]) for a in range(rank)))]


def conv_case(name: str, channels_first: str, **arguments: object) -> list[Case]:
    """Both layouts."""
    options = {k: v for k, v in arguments.items() if k in ("stride", "padding", "dilation", "groups", "output_padding")}
    compute: Callable[..., Array] = transposed if "transpose" in name else convolution

    def truth(layout: str) -> Callable[..., Array]:
        def of(x: Array, w: Array) -> Array:
            if layout != channels_first:
                w = np.moveaxis(w, (-2, -1), (0, 1) if compute is transposed else (1, 0))
            return back(compute(first_of(x, layout), w, **options), layout)

        return of

    last = channels_first.replace("c", "") + "c"
    return [Case(name, {**arguments, "layout": layout}, truth(layout)) for layout in (channels_first, last)]


def depthwise(layout: str, multiplier: int = 1, **options: object) -> Callable[..., Array]:
    def of(x: Array, w: Array) -> Array:
        x = first_of(x, layout)
        w = w if layout == "nchw" else np.moveaxis(w, -1, 0)
        return back(convolution(x, w[:, None], groups=x.shape[1], **options), layout)  # type: ignore[arg-type]

    return of


def bias_relu(layout: str, **options: object) -> Callable[..., Array]:
    def of(x: Array, w: Array, bias: Array, *residual: Array) -> Array:
        w = w if layout == "nchw" else np.moveaxis(w, (-2, -1), (1, 0))
        y = convolution(first_of(x, layout), w, **options) + bias[:, None, None]  # type: ignore[arg-type]
        return np.maximum(back(y, layout) + sum(residual), 0)

    return of


def pool(layout: str, combine: str, kernel: object, stride: object = None, padding: object = 0, dilation: object = 1,
         count_padding: bool = True) -> Callable[..., Array]:  # fmt: skip
    stride = kernel if stride is None else stride

    def of(x: Array) -> Array:
        x = first_of(x, layout)
        if combine == "max":
            low = {"f": -np.inf, "i": np.iinfo(np.int64).min, "b": False}[x.dtype.kind]
            return back(np.max(parts(x, kernel, stride, padding, dilation, low), 0), layout)
        windows = parts(x, kernel, stride, padding, 1, 0)
        ones = parts(np.ones_like(x), kernel, stride, padding, 1, 1 if count_padding else 0)
        return back(np.sum(windows, 0) / np.sum(ones, 0), layout)

    return of


def pools(name: str, layouts: Sequence[str], sizes: dict[str, object], **options: object) -> list[Case]:
    combine = name.partition("_")[0]
    return [
        Case(name, {**sizes, **options, "layout": layout}, pool(layout, combine, **options))  # type: ignore[arg-type]
        for layout in layouts
    ]


def adaptive(layout: str, to: tuple[int, int], combine: Callable[..., Array]) -> Callable[..., Array]:
    def of(x: Array) -> Array:
        x = first_of(x, layout)
        n, c, h, w = x.shape
        y = np.zeros((n, c, *to))
        for p, q in itertools.product(*map(range, to)):
            rows = slice(p * h // to[0], -(-(p + 1) * h // to[0]))
            columns = slice(q * w // to[1], -(-(q + 1) * w // to[1]))
            y[:, :, p, q] = combine(x[:, :, rows, columns], axis=(2, 3))
        return back(y, layout)

    return of


LINE = {"n": 2, "c": 4, "w": 11, "o": 6}
IMAGE = {"n": 2, "c": 4, "h": 9, "w": 8, "o": 6}
BODY = {"n": 1, "c": 2, "d": 5, "h": 4, "w": 6, "o": 4}
CHANNELS = {"n": 2, "c": 5, "h": 9, "w": 8}

CASES: list[Case] = [
    *conv_case("conv1d", "ncw", **LINE),
    *conv_case("conv1d", "ncw", **LINE, kernel=5, stride=2, padding=2, dilation=2),
    *conv_case("conv1d", "ncw", **LINE, kernel=4, padding=1, groups=2),
    *conv_case("conv2d", "nchw", **IMAGE),
    *conv_case("conv2d", "nchw", **IMAGE, padding=1),
    *conv_case("conv2d", "nchw", **IMAGE, stride=2, padding=1),
    *conv_case("conv2d", "nchw", **IMAGE, dilation=2, padding=2),
    *conv_case("conv2d", "nchw", **IMAGE, kernel=1),
    *conv_case("conv2d", "nchw", **IMAGE, kernel=1, stride=2),
    *conv_case("conv2d", "nchw", **IMAGE, kernel=(5, 2), stride=(3, 1), padding=(0, 1), dilation=(1, 2)),
    *conv_case("conv2d", "nchw", **IMAGE, kernel=2, stride=2),
    *conv_case("conv2d", "nchw", **IMAGE, groups=2, padding=1),
    *conv_case("conv2d", "nchw", **(IMAGE | {"o": 4}), groups=4, padding=1),
    *conv_case("conv3d", "ncdhw", **BODY, kernel=2),
    *conv_case("conv3d", "ncdhw", **BODY, kernel=(3, 2, 3), stride=(1, 2, 2), padding=(1, 0, 1), groups=2),
    *conv_case("conv_transpose1d", "ncw", **LINE),
    *conv_case("conv_transpose1d", "ncw", **LINE, kernel=4, stride=3, padding=1, output_padding=2, groups=2),
    *conv_case("conv_transpose2d", "nchw", **IMAGE, padding=1),
    *conv_case("conv_transpose2d", "nchw", **IMAGE, kernel=(2, 4), stride=2, padding=(0, 1)),
    *conv_case("conv_transpose2d", "nchw", **IMAGE, stride=2, padding=1, output_padding=1, dilation=2, groups=2),
    *conv_case("conv_transpose3d", "ncdhw", **BODY, kernel=2, stride=(1, 2, 2), padding=(1, 0, 1)),
    *(
        Case("depthwise_conv2d", {**CHANNELS, "layout": layout, **options}, depthwise(layout, **options))  # type: ignore[arg-type]
        for layout in ("nchw", "nhwc")
        for options in ({}, {"padding": 1}, {"stride": 2, "padding": 1, "multiplier": 2}, {"dilation": 2, "padding": 2})
    ),
    Case("conv2d_bias_relu", {**IMAGE, "padding": 1}, bias_relu("nchw", padding=1)),
    Case("conv2d_bias_relu", {**IMAGE, "padding": 1, "residual": True, "layout": "nhwc"}, bias_relu("nhwc", padding=1)),
    *pools("max_pool1d", ("ncw", "nwc"), {"n": 2, "c": 3, "w": 11}, kernel=3, stride=2, padding=1),
    *pools("max_pool2d", ("nchw", "nhwc"), CHANNELS, kernel=2),  # type: ignore[arg-type]
    *pools("max_pool2d", ("nchw", "nhwc"), CHANNELS, kernel=3, stride=2, padding=1),  # type: ignore[arg-type]
    *pools("max_pool2d", ("nchw",), CHANNELS, kernel=(3, 2), stride=1, padding=1, dilation=2),  # type: ignore[arg-type]
    *pools("max_pool3d", ("ncdhw", "ndhwc"), {"n": 1, "c": 2, "d": 5, "h": 4, "w": 6}, kernel=2, padding=1),
    *pools("avg_pool1d", ("ncw", "nwc"), {"n": 2, "c": 3, "w": 11}, kernel=3, stride=2, padding=1),
    *pools("avg_pool2d", ("nchw", "nhwc"), CHANNELS, kernel=2),  # type: ignore[arg-type]
    *pools("avg_pool2d", ("nchw", "nhwc"), CHANNELS, kernel=3, stride=2, padding=1, count_padding=False),  # type: ignore[arg-type]
    *pools("avg_pool3d", ("ncdhw", "ndhwc"), {"n": 1, "c": 2, "d": 5, "h": 4, "w": 6}, kernel=2, padding=1),
    Case("global_max_pool2d", CHANNELS, lambda x: x.max((2, 3))),
    Case("global_max_pool2d", {**CHANNELS, "layout": "nhwc"}, lambda x: x.max((1, 2))),
    Case("global_avg_pool2d", CHANNELS, lambda x: x.mean((2, 3))),
    Case("global_avg_pool2d", {**CHANNELS, "layout": "nhwc"}, lambda x: x.mean((1, 2))),
    *(
        Case(name, {**CHANNELS, "to": to, "layout": layout}, adaptive(layout, to, combine))
        for name, combine in (("adaptive_max_pool2d", np.max), ("adaptive_avg_pool2d", np.mean))
        for layout in ("nchw", "nhwc")
        for to in ((3, 4), (4, 3), (1, 8))
    ),
]  # fmt: skip
