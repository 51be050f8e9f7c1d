"""A blur as Halide's tutorial has it: two stages, scheduled by hand in two ways, and a search over the numbers of both.

    python examples/blur_template.py [trials]

docs/templates.md shows the schedules.
"""

from __future__ import annotations

import sys

import numpy as np

import tilesmith
from tilesmith.schedules.schedule import Schedule

BLUR = """
    input x: u8[1536, 2560]
    across[i: 1536, j: 2558] = (i16(x[i, j]) + i16(x[i, j + 1]) + i16(x[i, j + 2])) // 3
    blurred[i: 1534, j: 2558] = u8((across[i, j] + across[i + 1, j] + across[i + 2, j]) // 3)
    return blurred
    """


def blur(s: Schedule) -> None:
    """Rows of the first stage are computed once each and kept, or written where they are read, in blocks of rows."""
    if s.variant("first stage", ["kept", "inlined"]) == "kept":
        sliding_rows(s)
    else:
        blocks_of_rows(s)


def sliding_rows(s: Schedule) -> None:
    """Strips of rows and columns; in each, the rows of `across` that the next rows of `blurred` need beside those before."""
    blurred = s.stage("t1")
    i, j = blurred.loops
    i0, i1, i2 = s.split(i, s.factor("strip", at_most=64, default=16), s.factor("rows", at_most=4, default=2))
    j0, j1, j2 = s.split(j, s.factor("columns", at_most=64, default=20), s.lanes(blurred.definition.tensors[0].dtype))
    s.reorder(i0, j0, i1, j1, i2, j2)
    s.parallel(i0, j0)
    s.unroll(i2)
    s.vectorize(j2)
    across = s.compute_at("t0", i1)
    s.store_at("t0", j0)
    i, j = across.loops
    j0, j1 = s.split(j, s.lanes(across.definition.tensors[0].dtype))
    s.reorder(i, j0, j1)
    s.vectorize(j1)


def blocks_of_rows(s: Schedule) -> None:
    """Some rows of `blurred` side by side, written out: a row of `across` that three of them need is computed once."""
    s.inline("t0")
    blurred = s.stage("t1")
    i, j = blurred.loops
    i0, i1 = s.split(i, s.factor("rows", at_most=8, default=8))
    j0, j1 = s.split(j, s.lanes(blurred.definition.tensors[0].dtype))
    s.reorder(i0, j0, i1, j1)
    s.parallel(i0, j0)
    s.unroll(i1)
    s.vectorize(j1)


def main(trials: int = 32) -> None:
    """Tunes with the template, compiles the best, checks it against NumPy."""
    program = tilesmith.parse(BLUR)
    result = tilesmith.tune(program, trials=trials, template=blur)
    assert result.best is not None
    print(f"best: {result.best.config}")

    kernel = tilesmith.compile(program)
    print(kernel.text("outline"))
    x = np.random.default_rng(0).integers(0, 256, (1536, 2560), dtype=np.uint8)
    wide = x.astype(np.int16)
    across = (wide[:, :-2] + wide[:, 1:-1] + wide[:, 2:]) // 3
    np.testing.assert_array_equal(kernel(x), ((across[:-2] + across[1:-1] + across[2:]) // 3).astype(np.uint8))
    print(f"{kernel.time() * 1e3:.3f} ms for each call; {kernel.provenance}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
