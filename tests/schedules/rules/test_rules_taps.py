"""Sums of many taps with 3x3 results as fast convolutions: which are, how they run, code at sizes that nothing divides."""

from __future__ import annotations

import pytest

from helpers.emission.loops import HOST
from helpers.lowering.derived import assert_runs, body_of, some_configs
from tilesmith.schedules.auto import derive
from tilesmith.schedules.loops import LoopKind, LoopTree
from tilesmith.schedules.sketch import Sketch
from tilesmith.tensor.exceptional import exceptional_condition
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.parse import parse


def grouped() -> Program:
    """Eight groups of four channels: as many products as numbers that are transformed for them."""
    return body_of(
        parse("""\
input x: f32[2, 8, 4, 9, 9]
input g: f32[2, 8, 32, 7, 7]
d[b: 8, c: 4, o: 32, r: 3, s: 3] = sum[n: 2, i: 7, j: 7](x[n, b, c, r + i, s + j] * g[n, b, o, i, j])
return d""")
    )


def gradient(c: int, o: int, h: int, w: int, n: int = 2, side: int = 3, dtype: str = "f32") -> Program:
    rows, columns = h - side + 1, w - side + 1
    return body_of(
        parse(f"""\
input x: {dtype}[{n}, {c}, {h}, {w}]
input g: {dtype}[{n}, {o}, {rows}, {columns}]
d[c: {c}, o: {o}, r: {side}, s: {side}] = sum[n: {n}, i: {rows}, j: {columns}](x[n, c, r + i, s + j] * g[n, o, i, j])
return d""")
    )


def fast(program: Program) -> list[Sketch]:
    return [sketch for sketch in derive(program) if "winograd_taps" in sketch.text]


def with_transforms_inside(program: Program, inside: bool) -> Sketch:
    """Products run in blocks; their operands are transformed there, too, or ahead."""
    (found,) = [
        s for s in fast(program) if any(name.endswith("transforms inside") and v == inside for name, v in s.variants)
    ]
    return found


@pytest.mark.parametrize("inside", [False, True])
def test_they_run_in_blocks(inside: bool) -> None:
    program = gradient(17, 18, 8, 9)
    sketch = with_transforms_inside(program, inside)
    for number, values in enumerate(some_configs(program, sketch, 3)):
        assert_runs(program, sketch.apply(program, HOST, values), number)


def test_a_batch_of_any_size_has_them() -> None:
    """Of many images, which are a depth that would do for a convolution of few taps too."""
    assert fast(gradient(17, 18, 8, 9, n=32))


def applied(inside: bool) -> LoopTree:
    """The loops of a candidate."""
    program = gradient(17, 34, 8, 9)
    sketch = with_transforms_inside(program, inside)
    (values,) = some_configs(program, sketch, 1)
    return sketch.apply(program, HOST, values)


def multiplied(tree: LoopTree) -> str:
    """The products: the sum of which both operands are computed, from more than coefficients."""
    tables = {table.tensor.name for table in tree.program.tables}
    (name,) = [
        stage.name
        for stage in tree.program.stages
        if stage.combiner == "sum"
        and len({read.tensor for read in stage.reads()} & tree.program.producers.keys()) == 2
        and not any(read.tensor in tables for read in stage.reads())
        and exceptional_condition(stage) is None
    ]
    return name


@pytest.mark.parametrize("inside", [False, True])
def test_products_run_where_they_are_transformed_back(inside: bool) -> None:
    tree = applied(inside)
    products = multiplied(tree)
    assert tree.by_stage[products].at is not None
    operands = {read.tensor for read in tree.program.stage(products).reads()}
    there = {name for name in operands if (tree.by_stage[name].at or [""])[0] == products}
    assert there == (operands if inside else set())


@pytest.mark.parametrize("inside", [False, True])
def test_all_nine_results_are_made_at_once(inside: bool) -> None:
    """So products are transformed back once, not once for each of them."""
    tree = applied(inside)
    at = tree.by_stage[multiplied(tree)].at
    assert at is not None
    nine = {axis.name for axis in tree.program.stage(at[0]).axes if axis.extent == 3}
    points = [loop for loop in tree.by_stage[at[0]].loops if loop.axis in nine]
    assert [loop.kind for loop in points] == [LoopKind.UNROLL] * 2


@pytest.mark.parametrize(
    ("program", "why"),
    [
        (gradient(8, 32, 9, 9), "few rows"),
        (gradient(32, 8, 9, 9), "few columns"),
        (grouped(), "few rows in a group"),
        (gradient(32, 32, 6, 6), "a window of one tile"),
        (gradient(32, 32, 11, 11, side=5), "other results"),
        (gradient(32, 32, 9, 9, dtype="f16"), "no room for its errors"),
    ],
)
def test_others_are_summed_as_they_stand(program: Program, why: str) -> None:
    assert not fast(program), why
