"""An operator that no library has, written in Python, tuned and called on arrays.

    python examples/own_operator.py [trials]

Distances of points to centers: d[i, j] = sqrt(sum over k of (p[i, k] - c[j, k])^2), without the array of differences that NumPy
would make.
"""

from __future__ import annotations

import sys

import numpy as np

import tilesmith
from tilesmith import compute, placeholder, reduce_axis


def distances(points: int, centers: int, dimensions: int) -> tilesmith.Program:
    """What to compute. There is no word here on how."""
    p, c = placeholder((points, dimensions), name="p"), placeholder((centers, dimensions), name="c")
    k = reduce_axis(dimensions, "k")
    squares = compute((points, centers), lambda i, j: tilesmith.sum((p[i, k] - c[j, k]) * (p[i, k] - c[j, k]), k), "s")
    return tilesmith.program([compute((points, centers), lambda i, j: tilesmith.sqrt(squares[i, j]), "d")])


def main(trials: int = 32) -> None:
    """Tunes, compiles the best, checks it against NumPy."""
    program = distances(2000, 60, 24)
    print(program)
    tilesmith.tune(program, trials=trials)
    kernel = tilesmith.compile(program)

    random = np.random.default_rng(0)
    p = random.standard_normal((2000, 24), dtype=np.float32)
    c = random.standard_normal((60, 24), dtype=np.float32)
    expected = np.sqrt(((p[:, None, :] - c[None, :, :]) ** 2).sum(axis=2))
    np.testing.assert_allclose(kernel(p, c), expected, rtol=1e-4, atol=1e-4)
    print(f"{kernel.time() * 1e6:.1f} us for each call; {kernel.provenance}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
