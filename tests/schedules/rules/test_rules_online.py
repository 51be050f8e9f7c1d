"""Attention block by block of the keys: structure, code at ragged numbers of queries, and what a mask leaves out."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.emission.loops import HOST, run
from helpers.lowering.derived import assert_runs, body_of, some_configs
from helpers.lowering.truth import assert_correct, exact_inputs
from tilesmith.codegen.pipeline import loop_ir
from tilesmith.schedules import regions
from tilesmith.schedules.auto import derive
from tilesmith.schedules.rules.cpu import online as rules_online
from tilesmith.schedules.sketch import Sketch
from tilesmith.schedules.useful import useful
from tilesmith.targets.target import parse_target
from tilesmith.tensor import ops
from tilesmith.tensor.oracle.reference import evaluate
from tilesmith.tensor.program import Program

NARROW = parse_target("x86:avx512;vector=128")
PROGRAMS = {
    "attention": ops.attention(2, 7, 64, 5),
    "causal": ops.attention(1, 45, 64, 6, causal=True),
    "masked": ops.attention(2, 5, 96, 4, mask=True),
}


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small sizes stand for large ones."""
    monkeypatch.setattr(rules_online, "BLOCKS", (32, 16))
    monkeypatch.setattr(rules_online, "SHORTEST", 32)


def by_blocks(program: Program) -> list[Sketch]:
    return [s for s in derive(program) if any(key.endswith("by blocks") and block for key, block in s.variants)]


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_blocks_run(name: str) -> None:
    program = body_of(PROGRAMS[name])
    sketches = by_blocks(program)
    assert len(sketches) == 2
    for number, sketch in enumerate(sketches):
        found = some_configs(program, sketch, 2)
        assert found
        for values in found:
            assert_runs(program, sketch.apply(program, HOST, values), number)
    least = {p.name: p.values[0] for p in sketches[0].config_space(program, NARROW).parameters}
    assert_correct(program, sketches[0].apply(program, NARROW, least), NARROW, exact_inputs(program, 1))


def test_no_matrix_between_the_products_is_whole() -> None:
    program = body_of(ops.attention(2, 192, 192, 8))
    sketch = by_blocks(program)[0]
    for values in some_configs(program, sketch, 2):
        tree = sketch.apply(program, HOST, values)
        rows = int(values[next(name for name in values if name.endswith(".block"))])
        held = [s for s in tree.stages if s.at is not None and s.copies is None]
        for stage in held:
            shape = regions.storage_shape(tree, stage)
            assert np.prod([int(e) for e in shape]) <= (rows + 16) * 2 * 32, stage.stage  # with what tiles pad
        assert len(held) == 6


def test_a_block_that_nobody_sees_changes_nothing() -> None:
    program = body_of(ops.attention(1, 64, 64, 4, causal=True))
    inputs = exact_inputs(program, 3)
    inputs[2].reshape(64, 4)[39:] = np.nan
    inputs[1].reshape(64, 4)[45:] = np.inf
    (wanted,) = evaluate(program, inputs)
    assert np.isfinite(wanted.reshape(64, 4)[:39]).all()
    for sketch in by_blocks(program):
        for values in some_configs(program, sketch, 2):
            tree = sketch.apply(program, HOST, values)
            fold = next(s.name for s in tree.program.stages if s.fold is not None)
            assert fold in useful(tree.program)
            (found,) = run(loop_ir(tree, HOST), inputs, 1)
            assert np.allclose(found.reshape(wanted.shape), wanted, rtol=1e-5, atol=1e-5, equal_nan=True)


def test_only_long_axes_with_a_product_on_both_sides() -> None:
    for program in (
        ops.softmax(32, 32),
        ops.matmul_softmax(32, 32, 8),
        ops.attention(1, 4, 31, 4),
        ops.matmul(32, 32, 32),
    ):
        assert not by_blocks(body_of(program))
