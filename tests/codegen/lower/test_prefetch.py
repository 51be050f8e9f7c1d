"""Prefetch steps as code: which addresses are asked for, that nothing else changes, and that it runs at ragged sizes."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from helpers.emission.loops import HOST, run
from helpers.lowering.truth import assert_correct, check_case, exact_inputs
from tilesmith.codegen.ir.loop_ir import LoopProgram, Prefetch, statements
from tilesmith.codegen.pipeline import assembled, loop_ir
from tilesmith.schedules.schedule import Schedule, trace
from tilesmith.schedules.sketch import Sketch
from tilesmith.targets.target import Target, parse_target
from tilesmith.tensor.indices.affine import affine
from tilesmith.tensor.ops import OPERATORS, matmul
from tilesmith.tensor.oracle.reference import evaluate
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.canonical import canonical
from tilesmith.tensor.text.parse import parse

AVX512 = parse_target("x86:avx512")  # where every vector is a line


def tiled(s: Schedule) -> None:
    i, j, k = s.stage("t0").loops
    i0, i1 = s.split(i, 4)
    j0, j1, j2 = s.split(j, 2, s.lanes(s.program.stage("t0").tensors[0].dtype))
    k0, k1 = s.split(k, 2)
    s.reorder(j0, i0, k0, k1, i1, j1, j2)
    s.parallel(j0)
    s.unroll(k1, i1, j1)
    s.vectorize(j2)
    made = s.compute_at(s.copy("x1", "t0").name, j0)
    s.prefetch("t0", i0, s.choice("result", [0, 1], 1))
    s.prefetch("x0", i0, 1)
    s.prefetch(made.name, k0, s.choice("panel", [0, 3], 3))


def traced(program: Program) -> Sketch:
    (sketch,) = trace(tiled, program)
    return sketch


def lowered(program: Program, result: int, panel: int, target: Target = HOST) -> LoopProgram:
    return loop_ir(traced(program).apply(program, target, {"result": result, "panel": panel}), target)


def hints(loops: LoopProgram) -> list[Prefetch]:
    return [node for nest in loops.nests for node in statements(nest.body) if isinstance(node, Prefetch)]


def test_one_hint_for_each_tensor_and_none_where_the_distance_is_zero() -> None:
    program = canonical(matmul(61, 100, 50))
    assert [h.buffer for h in hints(lowered(program, 1, 3, AVX512))] == ["t0", "x0", "copy0"]
    assert [h.buffer for h in hints(lowered(program, 0, 0, AVX512))] == ["x0"]


def streamed(s: Schedule) -> None:
    stage = s.stage("t0")
    outer, unrolled, lanes = s.split(stage.loops[0], 2, 16)
    s.unroll(unrolled)
    s.vectorize(lanes)
    s.prefetch("x0", outer, s.choice("ahead", [16, 17], 16))


def test_what_is_needed_later_goes_to_the_second_cache() -> None:
    """A trip reads 128 bytes: 16 of them are 2048."""
    program = canonical(OPERATORS["relu"](size=10000))
    (sketch,) = trace(streamed, program)
    soon, later = (hints(loop_ir(sketch.apply(program, HOST, {"ahead": ahead}), HOST)) for ahead in (16, 17))
    assert [h.locality for h in soon] == [3]
    assert [h.locality for h in later] == [2]


def test_hints_are_a_distance_ahead_of_the_accesses() -> None:
    """Rows of the next tile, and the panel six steps of k on: three trips of a loop that is unrolled by two."""
    result, rows, panel = hints(lowered(canonical(matmul(61, 100, 50)), 1, 3, AVX512))
    assert [affine(index).constant for index in result.indices] == [4, 0]
    assert [affine(index).constant for index in rows.indices] == [4, 0]
    assert [affine(index).constant for index in panel.indices if affine(index).constant] == [6]


@pytest.mark.parametrize(("level", "lines"), [("avx512", 2), ("avx2", 1)])
def test_each_line_of_the_tile_is_asked_for_once(level: str, lines: int) -> None:
    target = parse_target(f"x86:{level}")
    artifact = assembled(lowered(canonical(matmul(64, 128, 64)), 1, 3, target), target, 1, texts=True)
    result, rows, panel = 4 * lines, 4, 2 * lines  # tile; rows of A, for both k; lines of B for two unrolled steps
    assert artifact.texts["asm"].count("\tprefetch") == result + rows + panel


@pytest.mark.parametrize(("m", "n", "k"), [(61, 100, 50), (4, 33, 2), (3, 5, 1), (9, 64, 7)])
def test_hints_change_no_value_and_touch_no_foreign_page(m: int, n: int, k: int) -> None:
    program = canonical(matmul(m, n, k))
    inputs = exact_inputs(program, m)
    (want,) = evaluate(program, inputs)
    for at_end in (False, True):
        (output,) = run(lowered(program, 1, 3), inputs, 2, at_end=at_end)
        assert np.array_equal(output.reshape(want.shape), want)


def test_hints_are_no_trips() -> None:
    program = canonical(matmul(7, 19, 5))
    sketch = traced(program)
    assert any(check_case(program, sketch, HOST, Random(seed), 20_000) for seed in range(3))
    tree = sketch.apply(program, HOST, {"result": 1, "panel": 3})
    assert_correct(program, tree, HOST, exact_inputs(program, 0))


def test_what_each_trip_makes_itself_is_not_asked_for() -> None:
    def template(s: Schedule) -> None:
        i, j, k = s.stage("t0").loops
        s.reorder(j, i, k)
        made = s.compute_at(s.copy("x1", "t0").name, j)
        s.prefetch(made.name, j, 1)

    program = canonical(matmul(5, 6, 7))
    (sketch,) = trace(template, program)
    assert not hints(loop_ir(sketch.apply(program, HOST, {}), HOST))


def ahead_of_all(s: Schedule) -> None:
    _i, j = s.stage("t0").loops
    j0, j1 = s.split(j, 16)
    s.vectorize(j1)
    s.prefetch("x0", j0, 4)


@pytest.mark.parametrize(
    ("body", "asked"),
    [
        ("x[1, i, j + 1] + x[1, i + 2, j + 1] + x[1, i + 1, j] + x[1, i + 1, j + 2]", ["12"]),
        ("x[0, i, j] + x[1, i, j] + x[1, i, j + 1]", ["00", "10"]),
        ("x[0, i + 1, j] + x[0, i, 2 * j + 1] + x[0, i, 2 * j]", ["01", "00"]),
    ],
)
def test_of_neighbours_the_first_to_come_to_a_place_asks(body: str, asked: list[str]) -> None:
    program = canonical(parse(f"input x: f32[2, 9, 200]\ny[i: 7, j: 90] = {body}\nreturn y"))
    (sketch,) = trace(ahead_of_all, program)
    loops = loop_ir(sketch.apply(program, AVX512, {}), AVX512)
    first = {tuple(affine(index).constant for index in hint.indices)[:2] for hint in hints(loops)}
    assert first == {tuple(int(part) for part in one) for one in asked}
    assert len({hint.indices for hint in hints(loops)}) in (len(asked), 2 * len(asked))  # whole tiles, and the last one
