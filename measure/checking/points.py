"""Which elements of a large output are checked: spread over all of it, and where schedules go wrong.

Of four points two are spread: along each axis they take every index, or are as evenly spread as they can be (a Latin
hypercube: McKay, Beckman and Conover, 1979), so that a row or a column of wrong values is always met where there are no more
of them than that. One is at edges, where tails are. One is at a corner of a tile, of any size along each axis.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_EDGE = 2  # elements at each end of an axis
_TILES = 64  # largest tile


def draw_points(shape: tuple[int, ...], count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """int64[<= count]: sorted distinct flat positions. The first and the last element are always among them."""
    sizes = np.array(shape, dtype=np.int64)
    spread, edges, corners = count - 2 * (count // 4), count // 4, count // 4
    index = np.concatenate([
        _spread(sizes, spread, rng), _at_edges(sizes, edges, rng), _at_corners(sizes, corners, rng),
    ])  # fmt: skip
    index[-2], index[-1] = 0, sizes - 1
    return np.unique(np.ravel_multi_index(tuple(index.T), shape)).astype(np.int64)


def _spread(sizes: NDArray[np.int64], count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """int64[count, rank]: along each axis one index in each of `count` equal parts, or every index."""
    within = np.where(sizes > count, rng.random((count, len(sizes))), 0.0)
    parts = (np.arange(count)[:, None] + within) * sizes / max(count, 1)
    return rng.permuted(np.minimum(parts.astype(np.int64), sizes - 1), axis=0)


def _at_edges(sizes: NDArray[np.int64], count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Spread points of which some axes, half of them, stand near an end."""
    index = _spread(sizes, count, rng)
    edge = rng.integers(0, np.minimum(sizes, _EDGE), size=index.shape)
    edge = np.where(rng.random(index.shape) < 0.5, edge, sizes - 1 - edge)
    return np.where(rng.random(index.shape) < 0.5, edge, index)


def _at_corners(sizes: NDArray[np.int64], count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Spread points, moved to the first or the last element of the tile that they are in."""
    index = _spread(sizes, count, rng)
    tile = rng.integers(2, _TILES + 1, size=index.shape)
    corner = index // tile * tile + np.where(rng.random(index.shape) < 0.5, 0, tile - 1)
    inside: NDArray[np.int64] = np.minimum(corner, sizes - 1)
    return inside
