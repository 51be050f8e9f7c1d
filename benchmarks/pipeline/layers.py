"""Programs of neural networks that are raced (pipelines.py): a block of MobileNet, and dense layers one after another.

    depthwise    3x3 of each channel, rectified up to 6       pointwise    1x1 over all channels, the same
    squeeze      the mean of each channel leads, by two small layers, to what the channel is multiplied with

All weights are inputs. The picture has its border already.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
CHANNELS, SIZE = 128, 56
ROWS, WIDTH = 64, 256
LESS = 4  # how many times fewer values the squeezed layer has


def separable(squeeze: bool, channels: int = CHANNELS, size: int = SIZE) -> str:
    """Depthwise, then pointwise. `squeeze`: with a factor of each channel between them."""
    few = channels // LESS
    lines = [
        f"input x: f32[{channels}, {size + 2}, {size + 2}]",
        f"input dw: f32[{channels}, 3, 3]",
        f"input db: f32[{channels}]",
        f"input pw: f32[{channels}, {channels}]",
        f"input pb: f32[{channels}]",
        f"d[c: {channels}, i: {size}, j: {size}] = sum[r: 3, s: 3](x[c, i + r, j + s] * dw[c, r, s])",
        f"e[c: {channels}, i: {size}, j: {size}] = max(min(d[c, i, j] + db[c], 6), 0)",
    ]
    last = "e[c, i, j]"
    if squeeze:
        lines[5:5] = [f"input sw: f32[{few}, {channels}]", f"input tw: f32[{channels}, {few}]"]
        lines += [
            f"m[c: {channels}] = sum[i: {size}, j: {size}](e[c, i, j])",
            f"h[k: {few}] = sum[c: {channels}](sw[k, c] * m[c])",
            f"u[k: {few}] = max(h[k] * {1 / size**2}, 0)",
            f"g[c: {channels}] = sum[k: {few}](tw[c, k] * u[k])",
            f"f[c: {channels}] = max(min(g[c] + 3, 6), 0) * {1 / 6}",
            f"w[c: {channels}, i: {size}, j: {size}] = e[c, i, j] * f[c]",
        ]
        last = "w[c, i, j]"
    lines += [
        f"q[o: {channels}, i: {size}, j: {size}] = sum[c: {channels}](pw[o, c] * {last})",
        f"y[o: {channels}, i: {size}, j: {size}] = max(min(q[o, i, j] + pb[o], 6), 0)",
        "return y",
    ]
    return "\n".join(lines)


def dense(layers: int, rows: int = ROWS, width: int = WIDTH) -> str:
    """Layers of `rows` x `width`, each a product and what is positive of it."""
    lines = [f"input x: f32[{rows}, {width}]", *(f"input w{n}: f32[{width}, {width}]" for n in range(layers))]
    last = "x"
    for n in range(layers):
        lines += [
            f"p{n}[i: {rows}, j: {width}] = sum[k: {width}]({last}[i, k] * w{n}[k, j])",
            f"y{n}[i: {rows}, j: {width}] = max(p{n}[i, j], 0) * {1 / 8}",
        ]
        last = f"y{n}"
    return "\n".join([*lines, f"return {last}"])


def separable_in_numpy(x: Array, dw: Array, db: Array, pw: Array, pb: Array, *squeezed: Array) -> Array:
    """The block over whole arrays in doubles."""
    x, dw, pw = (np.asarray(one, np.float64) for one in (x, dw, pw))
    size = x.shape[1] - 2
    d = sum(x[:, r : r + size, s : s + size] * dw[:, r, s][:, None, None] for r in range(3) for s in range(3))
    e = np.clip(d + db[:, None, None], 0, 6)
    if squeezed:
        sw, tw = squeezed
        factor = np.clip(tw @ np.maximum(sw @ e.mean((1, 2)), 0) + 3, 0, 6) / 6
        e = e * factor[:, None, None]
    return np.asarray(np.clip(np.tensordot(pw, e, 1) + pb[:, None, None], 0, 6))


def dense_in_numpy(x: Array, *weights: Array) -> Array:
    """The layers in doubles."""
    last = np.asarray(x, np.float64)
    for weight in weights:
        last = np.maximum(last @ weight, 0) / 8
    return last


LAYERS: dict[str, Callable[[], str]] = {
    "depthwise, pointwise": lambda: separable(squeeze=False),
    "depthwise, squeeze, pointwise": lambda: separable(squeeze=True),
    "dense 4": lambda: dense(4),
    "dense 10": lambda: dense(10),
    "dense 40": lambda: dense(40),
}
