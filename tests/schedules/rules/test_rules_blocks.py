"""Pointwise stages that read their neighbours run by blocks of rows: which do, that they are right, what the model counts."""

from __future__ import annotations

from random import Random

import pytest

from helpers.emission.loops import HOST
from helpers.lowering.derived import assert_runs, body_of, some_configs
from helpers.lowering.truth import check_case
from tilesmith.codegen.pipeline import build
from tilesmith.cost_model.neighbours import distances, held
from tilesmith.cost_model.operations import instructions
from tilesmith.schedules.auto import derive
from tilesmith.schedules.rules.cpu.blocks import axis_of_blocks
from tilesmith.schedules.rules.cpu.overlap import APART
from tilesmith.schedules.sketch import Sketch
from tilesmith.targets.target import parse_target
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.parse import parse

NARROW = parse_target("x86:avx512;vector=128")
BLUR = """
    input x: f32[18, 34]
    a[i: 18, j: 32] = x[i, j] + x[i, j + 1] + x[i, j + 2]
    b[i: 16, j: 32] = a[i, j] + a[i + 1, j] + a[i + 2, j]
    return b
    """
PROGRAMS = {
    "borders": """
        input x: f64[11, 23]
        y[i: 11, j: 23] = select(i >= 1, x[i - 1, j], 0) + select(i < 10, x[i + 1, j], 0) + select(j >= 1, x[i, j - 1], 0)
        return y
        """,
    "bytes": """
        input x: u8[13, 75]
        y[i: 11, j: 75] = u8((i16(x[i, j]) + i16(x[i + 1, j]) * 2 + i16(x[i + 2, j]) - 99) // 6)
        return y
        """,
    "volume": """
        input x: f32[5, 9, 21]
        y[i: 4, j: 7, k: 21] = x[i, j, k] * x[i + 1, j, k] + x[i, j + 2, k]
        return y
        """,
    "separable": BLUR,
}


def by_blocks(program: Program) -> Sketch:
    """The first sketch whose root runs by blocks."""
    root = program.stages[-1].name
    return next(
        sketch
        for sketch in derive(program)
        if dict(sketch.variants).get("stages", APART) == APART and f"{root}.rows" in {t.name for t in sketch.tunables}
    )


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_blocks_are_counted_and_run(name: str) -> None:
    program = body_of(parse(PROGRAMS[name]))
    sketch = by_blocks(program)
    assert any(check_case(program, sketch, NARROW, Random(seed), 40_000) for seed in range(12))
    for number, values in enumerate(some_configs(program, sketch, 4)):
        assert_runs(program, sketch.apply(program, HOST, values), number)


@pytest.mark.parametrize(
    ("body", "axis"),
    [
        ("x[i, j] + x[i + 1, j]", "a0"),
        ("x[i, j] + x[i, j + 1]", None),  # along the vectors
        ("x[i, j] + x[i, j] * 2", None),
        ("x[2 * i, j] + x[2 * i + 1, j]", "a0"),
        ("x[i, j] + x[i // 2, j]", None),
    ],
)
def test_the_axis_is_one_along_which_neighbours_are_read(body: str, axis: str | None) -> None:
    stage = body_of(parse(f"input x: f32[40, 41]\ny[i: 19, j: 40] = {body}\nreturn y")).stages[-1]
    assert axis_of_blocks(stage, "a1") == axis


@pytest.mark.parametrize("rows", [1, 2, 4, 8])
def test_the_model_counts_the_additions_of_the_code(rows: int) -> None:
    """18 x 34 to 16 x 32: nothing is masked, so the text has the body of a block once."""
    program = body_of(parse(BLUR))
    sketch = by_blocks(program)
    config = {tunable.name: 0 for tunable in sketch.tunables} | {"t1.rows": rows}
    target = parse_target("x86:avx2")
    text = build(program, sketch, config, target, 1, texts=True).texts["llvm"]
    stage = sketch.apply(program, target, config).program.stages[-1]
    counted = instructions(stage, fused=True, along="a0")
    assert text.count("= fadd") == sum(cost * (min(d, rows) if d else rows) for (_, d, _, _), cost in counted.items())


def test_values_wait_for_those_who_use_them() -> None:
    program = body_of(parse(BLUR))
    stage = by_blocks(program).apply(program, HOST, {"t1.rows": 4, "t1.ahead": 0, "t1.streaming": 0}).program.stages[-1]
    behind = distances(stage, "a0")
    assert {d for node, d in behind.items()} == {1}
    assert held(stage, "a0", 4.0) == 2  # the sums of the rows below: each is one row later what is above
    assert held(stage, "a0", 1.0) == 0  # a block of one row has no row later


@pytest.mark.parametrize(("rows", "waiting"), [(1, 0), (5, 0), (6, 1), (8, 3), (10, 5), (16, 5)])
def test_what_lies_behind_the_block_waits_for_nobody(rows: int, waiting: int) -> None:
    """Rows i and i + 5: of eight rows, the first three find what they read as other rows' second operand."""
    stage = body_of(parse("input x: f32[40, 32]\ny[i: 35, j: 32] = exp(x[i, j]) * exp(x[i + 5, j])\nreturn y")).stages[
        -1
    ]
    assert held(stage, "a0", float(rows)) == waiting
