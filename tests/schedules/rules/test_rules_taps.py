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


def in_blocks(sketch: Sketch) -> bool:
    return any(name.endswith("in blocks") and value for name, value in sketch.variants)


def test_tiles_of_both_sizes_run_whole_and_in_blocks() -> None:
    program = gradient(17, 18, 8, 9)
    found = {(dict(s.variants)["t0 fast"], in_blocks(s)): s for s in fast(program)}
    assert set(found) == {(2, False), (2, True), (4, False), (4, True)}
    for number, sketch in enumerate(found.values()):
        for values in some_configs(program, sketch, 2):
            assert_runs(program, sketch.apply(program, HOST, values), number)


def test_a_batch_of_any_size_has_them() -> None:
    """Of many images, which are a depth that would do for a convolution of few taps too."""
    assert fast(gradient(17, 18, 8, 9, n=32))


def applied(blocks: bool) -> tuple[str, LoopTree]:
    """The stage that chooses, and the loops of a candidate."""
    program = gradient(17, 34, 8, 9)
    sketch = next(s for s in fast(program) if in_blocks(s) == blocks)
    (root,) = [name.split()[0] for name, _ in sketch.variants if name.endswith("in blocks")]
    (values,) = some_configs(program, sketch, 1)
    return root, sketch.apply(program, HOST, values)


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


@pytest.mark.parametrize("blocks", [False, True])
def test_products_of_a_block_run_where_it_is_transformed_back(blocks: bool) -> None:
    root, tree = applied(blocks)
    at = tree.by_stage[multiplied(tree)].at
    assert at is None if not blocks else at is not None and at[0] == root


@pytest.mark.parametrize("blocks", [False, True])
def test_all_nine_results_are_made_at_once(blocks: bool) -> None:
    """So products are transformed back once, not once for each of them."""
    root, tree = applied(blocks)
    nine = {axis.name for axis in tree.program.stage(root).axes if axis.extent == 3}
    points = [loop for loop in tree.by_stage[root].loops if loop.axis in nine]
    assert [loop.kind for loop in points] == [LoopKind.UNROLL] * 2


@pytest.mark.parametrize(
    ("program", "why"),
    [
        (gradient(8, 32, 9, 9), "few rows"),
        (gradient(32, 8, 9, 9), "few columns"),
        (gradient(32, 32, 6, 6), "a window of one tile"),
        (gradient(32, 32, 11, 11, side=5), "other results"),
        (gradient(32, 32, 9, 9, dtype="f16"), "no room for its errors"),
    ],
)
def test_others_are_summed_as_they_stand(program: Program, why: str) -> None:
    assert not fast(program), why
