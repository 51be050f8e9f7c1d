"""A schedule with its numbers left open, written by hand, and a search over them.

    python examples/own_template.py [trials]
    tune run matmul m=256 n=256 k=256 --template own_template:register_tiles        (from this folder)

docs/templates.md goes through this file line by line.
"""

from __future__ import annotations

import sys

import numpy as np

import tilesmith
from tilesmith.schedules.schedule import Schedule


def register_tiles(s: Schedule) -> None:
    """C[i, j] = sum over k of A[i, k] B[k, j]: a tile of C stays in registers while k runs."""
    c = s.stage("t0")
    (i, j), (k,) = c.axes, c.reduction
    lanes = s.lanes(c.definition.tensors[0].dtype)
    i0, i1 = s.split(i, s.factor("rows", at_most=14, default=6))
    j0, j1, j2 = s.split(j, s.factor("vectors", at_most=4, default=2), lanes)
    k0, k1 = s.split(k, s.factor("unroll", at_most=8, default=4))
    if s.variant("columns outside", [True, False]):
        s.reorder(j0, i0, k0, k1, i1, j1, j2)
        s.parallel(j0, i0)
    else:
        s.reorder(i0, j0, k0, k1, i1, j1, j2)
        s.parallel(i0, j0)
    s.unroll(k1, i1, j1)
    s.vectorize(j2)
    s.require(
        i1.extent * j1.extent + j1.extent + 1 <= s.target("vector_registers"),
        "accumulators, a row of B and an element of A fit in the registers",
    )


def main(trials: int = 32) -> None:
    """Tunes with the template, compiles the best, checks it against NumPy."""
    program = tilesmith.ops.matmul(m=256, n=256, k=256)
    result = tilesmith.tune(program, trials=trials, template=register_tiles)
    assert result.best is not None
    print(f"best: {result.best.config}")

    kernel = tilesmith.compile(program)
    print(kernel.text("outline"))
    random = np.random.default_rng(0)
    a, b = (random.standard_normal((256, 256), dtype=np.float32) for _ in range(2))
    np.testing.assert_allclose(kernel(a, b), a @ b, rtol=1e-4, atol=1e-3)
    print(f"{kernel.time() * 1e6:.1f} us for each call; {kernel.provenance}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
