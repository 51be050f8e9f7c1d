"""The outline of a kernel speaks of a program as the person wrote it."""

from __future__ import annotations

import tilesmith as ts
from tilesmith.schedules.names import with_names

LAYER = ts.parse("""
    input weights: f32[64, 32]
    input t1: f32[16, 32]
    product[row: 16, column: 64] = sum[depth: 32](t1[row, depth] * weights[column, depth])
    layer[row: 16, column: 64] = max(product[row, column], 0)
    return layer
""")


def test_tensors_and_axes() -> None:
    text = "t1.a0.p1: t1.a0\n  copy0.a1 x0 x1\n  bring x0 t0.a2.p1 8"
    assert with_names(text, LAYER).split("\n") == [
        "# x0 = weights, x1 = t1, t0 = product (a0 row, a1 column, a2 depth), t1 = layer (a0 row, a1 column)",
        "layer.row.p1: layer.row",
        "  copy0.a1 weights t1",
        "  bring weights product.depth.p1 8",
    ]


def test_axes_that_are_merged_keep_their_canonical_name() -> None:
    program = ts.parse("input a: f32[4, 8]\nb[i: 4, j: 8] = a[i, j] + 1\nreturn b")
    assert with_names("t0.a0.p0", program) == "# x0 = a, t0 = b\nb.a0.p0"


def test_the_outline_of_a_kernel() -> None:
    text = ts.compile(LAYER, threads=1).text("outline")
    assert (
        "layer.column" in text and "product: sum" in text and "weights" in text and " x0" not in text.split("\n", 1)[1]
    )
