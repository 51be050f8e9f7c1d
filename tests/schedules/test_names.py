"""The outline of a kernel speaks of a program as the person wrote it."""

from __future__ import annotations

import tilesmith as ts
from tilesmith.schedules.names import person_names, with_names
from tilesmith.schedules.sketch import UNSCHEDULED, parse_sketch
from tilesmith.schedules.task import Task, normalised
from tilesmith.targets.target import parse_target

LAYER = ts.parse("""
    input weights: f32[64, 32]
    input t1: f32[16, 32]
    product[row: 16, column: 64] = sum[depth: 32](t1[row, depth] * weights[column, depth])
    layer[row: 16, column: 64] = max(product[row, column], 0)
    return layer
""")


def test_tensors_and_axes() -> None:
    text = "t1.a0.p1: t1.a0\n  copy0.a1 x0 x1\n  bring x0 t0.a2.p1 8"
    assert with_names(text, LAYER, UNSCHEDULED).split("\n") == [
        "# x0 = weights, x1 = t1, t0 = product (a0 row, a1 column, a2 depth), t1 = layer (a0 row, a1 column)",
        "layer.row.p1: layer.row",
        "  copy0.a1 weights t1",
        "  bring weights product.depth.p1 8",
    ]


def test_axes_that_are_merged_keep_their_canonical_name() -> None:
    program = ts.parse("input a: f32[4, 8]\nb[i: 4, j: 8] = a[i, j] + 1\nreturn b")
    assert with_names("t0.a0.p0", program, UNSCHEDULED) == "# x0 = a, t0 = b\nb.a0.p0"


def test_the_outline_of_a_kernel() -> None:
    text = ts.compile(LAYER, threads=1).text("outline")
    assert (
        "layer.column" in text and "product: sum" in text and "weights" in text and " x0" not in text.split("\n", 1)[1]
    )


SIBLINGS = ts.parse("""
    input picture: f32[48, 64]
    total[row: 48] = sum[column: 64](picture[row, column])
    squares[line: 48] = sum[place: 64](picture[line, place] * picture[line, place])
    return total, squares
""")


def test_axes_of_joined_stages_have_the_names_that_belong_there() -> None:
    """The axis that counts members stood where rows had stood: rows were called columns, and results by each other's name."""
    task = Task.of(SIBLINGS, parse_target("host"), 1)
    sketch = next(sketch for sketch in task.sketches if sketch.rewrites)
    names = person_names(SIBLINGS, sketch)
    assert names.tensors == {"x0": "picture", "t0": "total_joined", "t1": "total", "t2": "squares"}
    assert {axis: name for (stage, axis), name in names.axes.items() if stage == "t0"} == {
        "a0": "c", "a1": "row", "a2": "column"
    }  # fmt: skip
    assert with_names("t0.a1 t0.a2.p1 t0.a0 t2", SIBLINGS, sketch).split("\n")[1] == (
        "total_joined.row total_joined.column.p1 total_joined.c squares"
    )


def test_axes_that_a_rewrite_cuts_keep_their_canonical_name() -> None:
    sketch = parse_sketch("sketch one\nstep rewrite(split_k, stage=t0, axis=a2, parts=4)\n")
    names = person_names(LAYER, sketch)
    made = sketch.rewritten(normalised(LAYER))
    assert set(names.tensors) >= set(made.producers)
    for (stage, axis), name in names.axes.items():
        extent = made.producers[stage].axis(axis).extent
        assert {"row": 16, "column": 64}.get(name, extent) == extent and name != "depth"


def test_stages_of_the_normal_form_have_names() -> None:
    """A sum of f16 has a wide one behind it, which nobody wrote: the outline of its kernel failed with a KeyError."""
    program = ts.parse("input x: f16[8, 256]\ntotal[row: 8] = sum[column: 256](x[row, column])\nreturn total")
    text = ts.compile(program, threads=1).text("outline")
    assert "t0 = total_wide (a0 row, a1 column), t1 = total" in text and "total_wide.row" in text
