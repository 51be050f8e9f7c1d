"""The programs of layers.py in Halide, for its autoschedulers; its apps have no schedule of these."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import halide as hl

from pipeline.halide import Pipeline, X, Y, Z
from pipeline.layers import CHANNELS, LESS, ROWS, SIZE, WIDTH

F32 = hl.Float(32)


def _rectified(value: Any) -> Any:
    return hl.clamp(value, hl.f32(0), hl.f32(6))


def separable(squeeze: bool) -> Pipeline:
    """A block of MobileNet."""
    x, dw, pw = (hl.ImageParam(F32, n) for n in (3, 3, 2))
    db, pb = (hl.ImageParam(F32, 1) for _ in range(2))
    sw, tw = (hl.ImageParam(F32, 2) for _ in range(2))
    few = CHANNELS // LESS
    d, e, q, y = (hl.Func(name) for name in ("d", "e", "q", "y"))
    window, channel = hl.RDom([(0, 3), (0, 3)]), hl.RDom([(0, CHANNELS)])
    d[X, Y, Z] = hl.f32(0)
    d[X, Y, Z] += x[X + window.x, Y + window.y, Z] * dw[window.x, window.y, Z]
    e[X, Y, Z] = _rectified(d[X, Y, Z] + db[Z])
    last = e
    if squeeze:
        m, h, u, g, w = (hl.Func(name) for name in "mhugw")
        whole, some = hl.RDom([(0, SIZE), (0, SIZE)]), hl.RDom([(0, few)])
        m[Z] = hl.f32(0)
        m[Z] += e[whole.x, whole.y, Z]
        h[X] = hl.f32(0)
        h[X] += sw[channel.x, X] * m[channel.x]
        u[X] = hl.max(h[X] * hl.f32(1 / SIZE**2), hl.f32(0))
        g[Z] = hl.f32(0)
        g[Z] += tw[some.x, Z] * u[some.x]
        w[X, Y, Z] = e[X, Y, Z] * _rectified(g[Z] + hl.f32(3)) * hl.f32(1 / 6)
        last = w
    q[X, Y, Z] = hl.f32(0)
    q[X, Y, Z] += pw[channel.x, Z] * last[X, Y, channel.x]
    y[X, Y, Z] = _rectified(q[X, Y, Z] + pb[Z])
    more = (sw, tw) if squeeze else ()
    return Pipeline(x, y, [], (CHANNELS, SIZE, SIZE), more=(dw, db, pw, pb, *more))


def dense(layers: int) -> Pipeline:
    """Layers one after another."""
    x, weights = hl.ImageParam(F32, 2), [hl.ImageParam(F32, 2) for _ in range(layers)]
    last = x
    for n, weight in enumerate(weights):
        depth = hl.RDom([(0, WIDTH)])
        p, y = hl.Func(f"p{n}"), hl.Func(f"y{n}")
        p[X, Y] = hl.f32(0)
        p[X, Y] += last[depth.x, Y] * weight[X, depth.x]
        y[X, Y] = hl.max(p[X, Y], hl.f32(0)) * hl.f32(1 / 8)
        last = y
    return Pipeline(x, last, [], (ROWS, WIDTH), more=tuple(weights))


LAYERS: dict[str, Callable[[], Pipeline]] = {
    "depthwise, pointwise": lambda: separable(squeeze=False),
    "depthwise, squeeze, pointwise": lambda: separable(squeeze=True),
    "dense 4": lambda: dense(4),
    "dense 10": lambda: dense(10),
    "dense 40": lambda: dense(40),
}
