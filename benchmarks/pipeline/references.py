"""The programs of images.py in NumPy, over whole arrays in doubles: what pipelines are checked with, apart from our own oracle.

Written from the definitions anew: borders are padded arrays here, pyramids are slices, histograms are `numpy.add.at`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from .images import BINS, CELL, COLOURS, DECAY, DETAIL, LEVELS, RADIUS, SIGMA

Array = np.ndarray[Any, Any]


def bilateral_grid(x: Array) -> Array:
    """Pixels are thrown into a grid of brightness, which is blurred and read again."""
    height, width = x.shape
    g = np.clip(np.asarray(x, np.float64), 0, 1)
    rim = CELL // 2 + 2 * CELL
    rows, columns = ((extent - 1) // CELL + 6 for extent in x.shape)
    padded = np.pad(g, ((rim, rows * CELL), (rim, columns * CELL)), "edge")[: rows * CELL, : columns * CELL]
    a, b = np.indices(padded.shape) // CELL
    z = np.floor(padded * BINS + 0.5).astype(int) + 2
    grids = np.zeros((2, rows, columns, BINS + 6))
    np.add.at(grids[0], (a, b, z), padded)
    np.add.at(grids[1], (a, b, z), 1)
    kernel = np.array([1, 4, 6, 4, 1])
    for axis in (3, 2, 1):
        grids = sliding_window_view(grids, 5, axis) @ kernel
    i, j = np.indices(x.shape)
    k = np.clip(np.floor(g * BINS).astype(int), 0, BINS)
    shares = (i % CELL) / CELL, (j % CELL) / CELL, g * BINS - k
    total = np.zeros((2, height, width))
    for corner in np.ndindex(2, 2, 2):
        weight = np.prod([s if c else 1 - s for c, s in zip(corner, shares, strict=True)], axis=0)
        total += weight * grids[:, i // CELL + corner[0], j // CELL + corner[1], k + corner[2]]
    return total[0] / total[1]


def interpolate(x: Array, levels: int = 10) -> Array:
    """Colours times alpha are made coarser; then each level shows through the next finer one."""
    x = np.asarray(x, np.float64)
    finer = [np.concatenate([x[:3] * x[3], x[3:]])]
    for _ in range(levels - 1):
        finer.append(_coarser(_coarser(finer[-1], (1, 2, 1), -1), (1, 2, 1), -2))
    last = finer.pop()
    while finer:
        level = finer.pop()
        for axis in (-1, -2):
            n = level.shape[axis]
            index = np.arange(n)
            beyond = np.minimum((index + 1) // 2, last.shape[axis] - 1)
            last = (np.take(last, index // 2, axis) + np.take(last, beyond, axis)) / 2
        last = level + (1 - level[3]) * last
    return last[:3] / last[3]


def _coarser(x: Array, weights: tuple[int, ...], axis: int) -> Array:
    """Every second point of a filter that begins one point before it; at edges the edge again."""
    x = np.moveaxis(x, axis, -1)
    half = (x.shape[-1] + 1) // 2
    padded = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(1, len(weights))], "edge")
    sums = sum(w * padded[..., n : n + 2 * half : 2][..., :half] for n, w in enumerate(weights))
    return np.moveaxis(np.asarray(sums) / sum(weights), -1, axis)


def _finer(x: Array, shape: tuple[int, int]) -> Array:
    """Twice as many points, each three quarters of the one it lies in and a quarter of the next one."""
    for axis, extent in zip((-1, -2), reversed(shape), strict=True):
        index = np.arange(extent)
        other = np.clip(index // 2 + np.where(index % 2, 1, -1), 0, x.shape[axis] - 1)
        x = 0.75 * np.take(x, index // 2, axis) + 0.25 * np.take(x, other, axis)
    return x


def local_laplacian(x: Array, pyramid: int = 8) -> Array:
    """A Gaussian pyramid of the picture, one for each level of brightness, and a Laplacian one picked from those."""
    colours = np.asarray(x, np.float64) / 65535
    grey = np.tensordot([0.299, 0.587, 0.114], colours, 1)
    top = LEVELS - 1
    index = np.clip((grey * top * 256).astype(int), 0, top * 256)
    levels = np.arange(LEVELS)[:, None, None]
    away = (index - 256 * levels) / 256
    raised, greys = [grey + DETAIL * away * np.exp(-(away**2) / 2)], [grey]
    for _ in range(pyramid - 1):
        for chain in (raised, greys):
            chain.append(_coarser(_coarser(chain[-1], (1, 3, 3, 1), -1), (1, 3, 3, 1), -2))
    result: Array | None = None
    for n in reversed(range(pyramid)):
        shape = (greys[n].shape[0], greys[n].shape[1])
        details = raised[n] - (_finer(raised[n + 1], shape) if n + 1 < pyramid else 0)
        place = greys[n] * top
        below = np.clip(place.astype(int), 0, top - 1)
        share = place - below
        rows, columns = np.indices(shape)
        picked = (1 - share) * details[below, rows, columns] + share * details[below + 1, rows, columns]
        result = picked if result is None else picked + _finer(result, shape)
    assert result is not None
    return np.asarray(np.clip(result * (colours + 0.01) / (grey + 0.01), 0, 1) * 65535, np.uint16)


def nonlocal_means(x: Array, patch: int = 7, search: int = 7) -> Array:
    """Adds up, for each offset, the picture there times how alike patches are."""
    x = np.asarray(x, np.float64)
    high, wide = (extent - search - patch + 2 for extent in x.shape[1:])
    reach, middle = search // 2, patch // 2
    total, weights = np.zeros((3, high, wide)), np.zeros((high, wide))
    centre = x[:, reach : reach + high + patch - 1, reach : reach + wide + patch - 1]
    for s in range(search):
        for t in range(search):
            moved = x[:, s : s + high + patch - 1, t : t + wide + patch - 1]
            apart = ((centre - moved) ** 2).sum(0)
            sums = sliding_window_view(apart, (patch, patch)).sum((-1, -2))
            weight = np.exp(-sums / (SIGMA * patch) ** 2)
            total += weight * x[:, s + middle : s + middle + high, t + middle : t + middle + wide]
            weights += weight
    return np.clip(total / weights, 0, 1)


def largest_in_disc(x: Array, radius: int = RADIUS) -> Array:
    """The largest of a square of which a disc alone counts."""
    down, across = np.ogrid[-radius : radius + 1, -radius : radius + 1]
    disc = down**2 + across**2 <= (radius + 0.25) ** 2
    windows = sliding_window_view(np.asarray(x), disc.shape, (1, 2))
    return np.asarray(windows.max(axis=(-1, -2), where=disc, initial=-np.inf))


def recursive_blur(x: Array) -> Array:
    """Down, up, right, left."""
    y = np.array(x, np.float64)
    for axis in (1, 2):
        for order in (1, -1):
            lines = np.moveaxis(y, axis, 0)[::order]
            for n in range(1, len(lines)):
                lines[n] = (1 - DECAY) * lines[n - 1] + DECAY * lines[n]
    return y


def camera(x: Array) -> Array:
    """Over whole planes of a colour each, with `numpy.roll` for neighbours; the rim that rolls around is cut off."""
    raw = np.asarray(x, int)
    around = [np.roll(raw, move, axis) for axis in (0, 1) for move in (2, -2)]
    clean = np.minimum(raw, np.max(around, axis=0))
    g, r, b, h = (clean[m::2, n::2] for m, n in ((0, 0), (0, 1), (1, 0), (1, 1)))

    def at(plane: Array, down: int, across: int) -> Array:
        return np.roll(plane, (-down, -across), (0, 1))

    def pair(plane: Array, one: tuple[int, int], other: tuple[int, int]) -> tuple[Array, Array]:
        return abs(at(plane, *one) - at(plane, *other)), (at(plane, *one) + at(plane, *other) + 1) // 2

    def closer(first: tuple[Array, Array], second: tuple[Array, Array]) -> Array:
        return np.where(first[0] < second[0], first[1], second[1])

    def diagonal(plane: Array, green: Array, places: tuple[tuple[tuple[int, int], tuple[int, int]], ...]) -> Array:
        (one, mean), (other, second) = (pair(plane, *place) for place in places)
        greens = [pair(green, *place)[1] for place in places]
        return np.where(one < other, mean - greens[0], second - greens[1])

    gr = closer(pair(g, (0, 0), (0, 1)), pair(h, (-1, 0), (0, 0)))
    gb = closer(pair(h, (0, -1), (0, 0)), pair(g, (0, 0), (1, 0)))
    planes = np.zeros((3, *clean.shape), int)
    for colour, quarters in enumerate((
        (g + pair(r, (0, -1), (0, 0))[1] - pair(gr, (0, -1), (0, 0))[1],
         r,
         gb + diagonal(r, gr, (((0, -1), (1, 0)), ((0, 0), (1, -1)))),
         h + pair(r, (0, 0), (1, 0))[1] - pair(gr, (0, 0), (1, 0))[1]),
        (g, gr, gb, h),
        (g + pair(b, (-1, 0), (0, 0))[1] - pair(gb, (-1, 0), (0, 0))[1],
         gr + diagonal(b, gb, (((-1, 0), (0, 1)), ((-1, 1), (0, 0)))),
         b,
         h + pair(b, (0, 0), (0, 1))[1] - pair(gb, (0, 0), (0, 1))[1]),
    )):  # fmt: skip
        for (down, across), quarter in zip(((0, 0), (0, 1), (1, 0), (1, 1)), quarters, strict=True):
            planes[colour, down::2, across::2] = quarter
    matrix = np.array(COLOURS)
    mixed = np.tensordot(matrix[:, :3], planes, 1) // 256 + matrix[:, 3, None, None]
    curve = np.sqrt(np.arange(1024, dtype=np.float32) * np.float32(255 * 255 / 1023)).astype(np.uint8)
    high, wide = (raw.shape[0] - 24) // 2 * 2, (raw.shape[1] - 32) // 2 * 2
    return curve[np.clip(mixed, 0, 1023)][:, 6 : 6 + high, 6 : 6 + wide]


REFERENCES: dict[str, Callable[..., Array]] = {
    "bilateral grid": bilateral_grid,
    "local Laplacian": local_laplacian,
    "interpolate": interpolate,
    "non-local means": nonlocal_means,
    "max of a disc": largest_in_disc,
    "recursive blur": recursive_blur,
    "camera": camera,
}
