"""Sketches of folds: searches, scans and softmax in one pass, at ragged sizes, interpreted and compiled."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from helpers.emission.loops import HOST, run
from helpers.lowering.derived import assert_runs, body_of, some_configs
from helpers.lowering.truth import assert_correct, exact_inputs
from tilesmith.codegen.ir.loop_ir import LoopKind
from tilesmith.codegen.pipeline import loop_ir
from tilesmith.schedules.auto import derive
from tilesmith.schedules.sketch import Sketch
from tilesmith.schedules.space import ConfigValue
from tilesmith.targets.target import Target, parse_target
from tilesmith.tensor import ops
from tilesmith.tensor.oracle.reference import evaluate
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.parse import parse

NARROW = parse_target("x86:avx512;vector=128")
ONLINE = """
input x: f32[5, 21]
input v: f32[21, 19]
fold[j: 21] {
    m[i: 5]: f32 = -inf
    l[i: 5]: f32 = 0
    o[i: 5, d: 19]: f32 = 0
    let top = max(m[i], x[i, j])
    let scale = exp(m[i] - top)
    let power = exp(x[i, j] - top)
    m = top
    l = l[i] * scale + power
    o = o[i, d] * scale + power * v[j, d]
}
y[i: 5, d: 19] = o[i, d] / l[i]
return y
"""
PROGRAMS: dict[str, Program] = {
    "argmax of rows": ops.argmax((7, 150)),
    "argmin of columns": ops.argmin((13, 37), axis=0),
    "argmax between": ops.argmax((3, 70, 5), axis=1),
    "argmax of doubles": ops.argmax((5, 131), dtype="f64"),
    "argmin of bytes": ops.argmin((3, 140), dtype="i8"),
    "argmax of one row": ops.argmax((300,)),
    "cumsum of rows": ops.cumsum((11, 23)),
    "cumsum of columns": ops.cumsum((9, 37), axis=0),
    "cumprod backwards": ops.cumprod((6, 14), reverse=True),
    "cummax between": ops.cummax((3, 9, 20), axis=1),
    "one scan": ops.cumsum((40,)),
    "topk of rows": ops.topk((19, 37), k=11),
    "topk of columns": ops.topk((35, 13), k=4, axis=0, largest=False),
    "topk between": ops.topk((3, 34, 9), k=9, axis=1),
    "topk of bytes": ops.topk((21, 33), k=9, dtype="i8"),
    "softmax in one pass": parse(ONLINE.strip()),
}


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_folds_run(name: str) -> None:
    program = body_of(PROGRAMS[name])
    random = Random(name)
    for sketch in derive(program):
        for number, values in enumerate(_configs(program, sketch)):
            assert_runs(program, sketch.apply(program, HOST, values), number)
        if random.random() < 0.5:
            tree = sketch.apply(program, NARROW, _least(program, sketch, NARROW))
            assert_correct(program, tree, NARROW, exact_inputs(program, 1))


def _least(program: Program, sketch: Sketch, target: Target) -> dict[str, ConfigValue]:
    return {p.name: p.values[0] for p in sketch.config_space(program, target).parameters}


def _configs(program: Program, sketch: Sketch) -> list[dict[str, ConfigValue]]:
    return some_configs(program, sketch, 2) if sketch.tunables else [{}]


@pytest.mark.parametrize("name", ["argmax of rows", "argmin of columns", "cumsum of rows", "cummax between"])
def test_threads_share_rows(name: str) -> None:
    program = body_of(PROGRAMS[name])
    for sketch in derive(program)[1:]:
        tree = sketch.apply(program, HOST, _least(program, sketch, HOST))
        folds = [s for s in tree.stages if s.at is None and tree.definition(s.stage).fold is not None]
        assert all(s.loops[0].kind is LoopKind.PARALLEL for s in folds), sketch.title


def test_rows_whose_state_is_large_are_in_lanes_wherever_memory_lies() -> None:
    for k in (2, 3, 11):
        program = body_of(ops.topk((64, 48), k=k))
        for sketch in derive(program)[1:]:
            tree = sketch.apply(program, HOST, _least(program, sketch, HOST))
            folds = [s for s in tree.stages if tree.definition(s.stage).fold is not None]
            assert [any(loop.kind is LoopKind.VECTOR for loop in s.loops) for s in folds] == [True], (k, sketch.title)


def test_the_first_of_equal_elements_wins_and_nan_wins_over_all() -> None:
    program = body_of(ops.argmax((6, 300)))
    x = np.zeros((6, 300), np.float32)
    x[0, [17, 81, 145]] = 3
    x[1, [290, 299]] = np.inf
    x[2, [200, 70, 134]] = np.nan
    x[3] = -np.inf
    x[4, [64, 0]] = 0.0, -0.0
    x[5] = -1
    x[5, 299] = -0.5
    (wanted,) = evaluate(program, [x])
    assert wanted.tolist() == np.argmax(x, 1).tolist() == [17, 290, 70, 0, 0, 299]
    for sketch in derive(program):
        for values in _configs(program, sketch):
            (found,) = run(loop_ir(sketch.apply(program, HOST, values), HOST), [x], 2)
            assert found.tolist() == wanted.tolist(), sketch.title
