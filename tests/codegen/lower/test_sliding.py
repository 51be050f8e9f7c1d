"""Windows that slide: what a trip needs again stays in a ring, and what the analysis says of it is what runs."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from helpers.emission.loops import HOST
from helpers.lowering.derived import assert_runs, body_of
from helpers.lowering.interpreter import Interpreter
from helpers.lowering.truth import check_case, exact_inputs
from tilesmith.codegen.ir.loop_ir import Allocate, statements
from tilesmith.codegen.ir.parsing import parse_loops
from tilesmith.codegen.ir.printing import print_loops
from tilesmith.codegen.pipeline import loop_ir
from tilesmith.common.errors import ScheduleError
from tilesmith.schedules.boxes import kept_points
from tilesmith.schedules.regions import points
from tilesmith.schedules.schedule import Schedule, trace
from tilesmith.schedules.sketch import Sketch
from tilesmith.targets.target import parse_target
from tilesmith.tensor.oracle.reference import evaluate
from tilesmith.tensor.text.parse import parse

BLUR = body_of(
    parse("""
    input x: f32[21, 37]
    a[i: 21, j: 35] = x[i, j] + x[i, j + 1] * 2 + x[i, j + 2]
    b[i: 19, j: 35] = a[i, j] + a[i + 1, j] * 2 + a[i + 2, j]
    return b
    """)
)
CONFIG = {"rows": 3, "columns": 8}


def sliding(s: Schedule) -> None:
    """Tiles of columns, in which blocks of rows follow one another."""
    i, j = s.stage("t1").loops
    i0, i1 = s.split(i, s.factor("rows"))
    j0, j1 = s.split(j, s.factor("columns"))
    s.reorder(j0, i0, i1, j1)
    s.compute_at("t0", i0)
    s.store_at("t0", j0)


def sketch() -> Sketch:
    (found,) = trace(sliding, BLUR)
    return found


@pytest.mark.parametrize("seed", range(6))
def test_what_is_counted_is_what_runs(seed: int) -> None:
    assert check_case(BLUR, sketch(), parse_target("x86:avx512;vector=128"), Random(seed), 20_000)


def test_each_row_is_computed_once() -> None:
    tree = sketch().apply(BLUR, HOST, CONFIG)
    stage = tree.by_stage["t0"]
    assert kept_points(tree, stage) == {"a0": 2}
    assert points(tree, stage) == 21 * 35
    (ring,) = [s.buffer for s in statements(loop_ir(tree, HOST).nests[0].body) if isinstance(s, Allocate)]
    assert ring.shape == (3 + 2, 8)


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 18, 19])
def test_rings_of_all_lengths_run(rows: int) -> None:
    assert_runs(BLUR, sketch().apply(BLUR, HOST, CONFIG | {"rows": rows}), rows)


FAULTS = {
    "a ring that is one row short": ("% 5", "% 4"),
    "a row that is taken for kept": ("min(t1_a0_p0_3, 1) * 2 + 2:", "min(t1_a0_p0_3, 1) * 2 + 1:"),
    "a first trip that leaves out what is kept later": ("- min(t1_a0_p0_3, 1) * 2 + 2:", "+ 0:"),
    "rows that are computed where they were before": ("+ min(t1_a0_p0_3, 1) * 2) % 5", ") % 5"),
}


@pytest.mark.parametrize(("found", "planted"), FAULTS.values(), ids=FAULTS.keys())
def test_planted_faults_are_found(found: str, planted: str) -> None:
    text = print_loops(loop_ir(sketch().apply(BLUR, HOST, CONFIG), HOST))
    assert found in text
    inputs = exact_inputs(BLUR, 0)
    (wanted,) = evaluate(BLUR, inputs)
    assert np.array_equal(_run(text, inputs[0], wanted), wanted)
    assert not np.array_equal(_run(text.replace(found, planted), inputs[0], wanted), wanted)


def test_storage_that_is_made_anew_in_each_trip_is_found() -> None:
    """The storage one loop too deep: what a trip before has computed is gone."""
    lines = print_loops(loop_ir(sketch().apply(BLUR, HOST, CONFIG), HOST)).splitlines()
    (place,) = [n for n, line in enumerate(lines) if "allocate t0" in line]
    loop, size = lines[place + 1 : place + 3]
    deeper = [loop, size, "  " + lines[place], *lines[place + 3 :]]
    inputs = exact_inputs(BLUR, 0)
    (wanted,) = evaluate(BLUR, inputs)
    assert not np.array_equal(_run("\n".join([*lines[:place], *deeper, ""]), inputs[0], wanted), wanted)


def _run(text: str, given: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    output = np.full(wanted.shape, np.nan, wanted.dtype)
    Interpreter(parse_loops(text)).run([given, output])
    return output


def test_gpus_have_no_code_for_it() -> None:
    tree = sketch().apply(BLUR, HOST, CONFIG)
    with pytest.raises(ScheduleError, match="keeps t0 from trip to trip yet"):
        loop_ir(tree, parse_target("cuda:sm_90a"))
