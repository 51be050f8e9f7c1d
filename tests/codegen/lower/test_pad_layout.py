"""Padded rows of copies: how much memory they take, at which stride rows lie, and that values stay the same."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from helpers.emission.loops import HOST, run
from helpers.lowering.truth import check_case, exact_inputs
from tilesmith.codegen.lower.lower import allocated
from tilesmith.codegen.pipeline import loop_ir
from tilesmith.schedules.schedule import Schedule, trace
from tilesmith.schedules.sketch import Sketch
from tilesmith.tensor.ops import matmul
from tilesmith.tensor.oracle.reference import evaluate
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.canonical import canonical


def packed(s: Schedule) -> None:
    i, j, k = s.stage("t0").loops
    i0, i1 = s.split(i, s.factor("rows", at_most=8, default=4))
    s.reorder(i0, j, k, i1)
    s.unroll(i1)
    made = s.compute_at(s.copy("x0", "t0").name, i0)
    s.pad_layout(made.name, s.choice("padding", [0, 3, 16], 3))


def traced(program: Program) -> Sketch:
    (sketch,) = trace(packed, program)
    return sketch


@pytest.mark.parametrize("padding", [0, 3, 16])
def test_rows_of_a_padded_copy(padding: int) -> None:
    program = canonical(matmul(10, 5, 64))
    tree = traced(program).apply(program, HOST, {"rows": 4, "padding": padding})
    loops = loop_ir(tree, HOST)
    assert allocated(loops)["copy0"].shape == (4, 64 + padding)
    inputs = exact_inputs(program, 0)
    (want,) = evaluate(program, inputs)
    (output,) = run(loops, inputs, 1)
    assert np.array_equal(output.reshape(want.shape), want)


def test_the_analysis_counts_the_padding() -> None:
    program = canonical(matmul(7, 5, 9))
    assert any(check_case(program, traced(program), HOST, Random(seed)) for seed in range(3))
