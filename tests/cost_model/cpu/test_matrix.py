"""Stages on the matrix unit: what the analysis counts of them, and what the estimate and the features make of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from helpers.modelling.matrix import MATRIX_TARGET, main_stage, on_tiles, pack, products, tiles_sketch
from helpers.modelling.programs import drawn
from tilesmith.cost_model.analytic import clock_of, predict, seconds, stage_cycles
from tilesmith.cost_model.cpu.analysis import Analysis, NestAnalysis, analyse
from tilesmith.cost_model.cpu.counts import InstructionCounts
from tilesmith.cost_model.features import FEATURE_NAMES, features
from tilesmith.cost_model.operations import slots
from tilesmith.cost_model.sketch_model import SketchModel
from tilesmith.schedules.loops import LoopTree
from tilesmith.schedules.schedule import Schedule, trace
from tilesmith.schedules.sketch import Sketch
from tilesmith.schedules.task import Task
from tilesmith.targets.ceilings import MATRIX, Ceilings, default_ceilings
from tilesmith.targets.matrix_instructions import BF16_TILES
from tilesmith.targets.matrix_registers import loads_of
from tilesmith.tensor.ops import matmul
from tilesmith.tensor.program import Program
from tilesmith.tensor.rewrites.tiles.bf16_parts import PAIRS

CEILINGS = default_ceilings(MATRIX_TARGET, 1)
SHARE, TILE_LOADS = FEATURE_NAMES.index("matrix_bound"), FEATURE_NAMES.index("tile_loads_per_product")


def tree_of(program: Program, rows: int, columns: int) -> LoopTree:
    return tiles_sketch(program).apply(program, MATRIX_TARGET, {"rows": rows, "columns": columns})


def nest_of(analysis: Analysis, name: str) -> NestAnalysis:
    (found,) = [nest for nest in analysis.nests if nest.root.name == name]
    return found


def work_of(program: Program, rows: int, columns: int) -> InstructionCounts:
    ((_, work),) = nest_of(analyse(tree_of(program, rows, columns), MATRIX_TARGET, 1), main_stage(program)).work
    return work


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (2, 2), (3, 1), (3, 2), (1, 5)])
def test_products_and_stores_are_counted_tile_by_tile(rows: int, columns: int) -> None:
    """Fewer tiles at an edge are no work: 7 x 13 tiles, 10 blocks of the depth, whatever the register tile."""
    work = work_of(products(100, 200, 300), rows, columns)
    assert float(work.products) == pytest.approx(6 * 7 * 13 * 10)
    assert float(work.stores) == pytest.approx(16 * 7 * 13)
    assert float(work.operations) == 0 and float(work.broadcasts) == 0
    steps = -(-7 // rows) * -(-13 // columns) * 10
    assert float(work.loops) >= steps - 10


@pytest.mark.parametrize(("rows", "columns"), [(r, c) for r in (1, 2, 3) for c in range(1, 7) if r * c <= 6])
def test_tiles_are_loaded_as_often_as_the_code_loads_them(rows: int, columns: int) -> None:
    work = work_of(products(16 * rows, 16 * columns, 320), rows, columns)
    assert float(work.tile_loads) / 10 == pytest.approx(loads_of(rows, columns, PAIRS, BF16_TILES.registers))
    assert float(work.loads) == pytest.approx(16 * float(work.tile_loads))


def test_each_operand_crosses_the_first_cache_once_for_each_block_of_the_other() -> None:
    """All three parts of a block count, and a tile of 16 columns is one block of the packed operand."""
    program = products(512, 512, 512)
    moved = nest_of(analyse(tree_of(program, 2, 2), MATRIX_TARGET, 1), main_stage(program)).moved[0]
    operand = 512 * 512 * 3 * 2  # bytes of three bfloat16 for each element
    assert float(moved.read) == pytest.approx(16 * operand + 16 * operand, rel=0.05)
    assert float(moved.written) == pytest.approx(512 * 512 * 4, rel=0.05)


def best(program: Program, ceilings: Ceilings = CEILINGS) -> float:
    sketch = tiles_sketch(program)
    tree, _, good = drawn(sketch, program, 200, 1, MATRIX_TARGET)
    return float(np.where(good, predict(tree, MATRIX_TARGET, 1, ceilings, 200), np.inf).min())


def test_the_estimate_is_below_what_the_unit_can_do_and_above_what_vectors_can() -> None:
    program = products(480, 480, 480)
    analysis = analyse(tree_of(program, 2, 2), MATRIX_TARGET, 1)
    alone = replace(analysis, nests=(nest_of(analysis, main_stage(program)),))
    speed = 2 * 480**3 / float(seconds(alone, MATRIX_TARGET, 1, CEILINGS, 1)[0])
    assert CEILINGS.flops["f32"] < speed < CEILINGS.highest("f32")
    assert best(products(960, 960, 960)) < 8.5 * best(program)


def test_a_slower_clock_of_the_unit_costs_time() -> None:
    slow = replace(CEILINGS, flops={**CEILINGS.flops, MATRIX: CEILINGS.flops[MATRIX] / 2})
    unknown = replace(CEILINGS, flops={name: f for name, f in CEILINGS.flops.items() if name != MATRIX})
    program = products(256, 256, 256)
    assert best(program, unknown) < best(program) < best(program, slow)


def test_one_config_is_as_in_a_population_and_as_recorded() -> None:
    program = products(200, 300, 256)
    sketch = tiles_sketch(program)
    config_space = sketch.config_space(program, MATRIX_TARGET)
    model = SketchModel(sketch.opened(program, MATRIX_TARGET), config_space, MATRIX_TARGET, 1, CEILINGS)
    tree, choices, good = drawn(sketch, program, 40, 3, MATRIX_TARGET)
    together, table = predict(tree, MATRIX_TARGET, 1, CEILINGS, 40), features(tree, MATRIX_TARGET, 1, 40)
    np.testing.assert_array_equal(model.seconds(choices), together)
    np.testing.assert_array_equal(model.features(choices), table)
    row = int(np.flatnonzero(good)[0])
    config = {p.name: p.values[c] for p, c in zip(config_space.parameters, choices[row], strict=True)}
    alone = sketch.apply(program, MATRIX_TARGET, config)
    assert predict(alone, MATRIX_TARGET, 1, CEILINGS, 1)[0] == pytest.approx(together[row], rel=1e-9)
    assert np.isfinite(table).all() and (table[:, SHARE] > 0).all() and (table[:, TILE_LOADS] > 0).all()


def test_features_of_the_unit_are_zero_elsewhere() -> None:
    program = products(64, 64, 64)
    plain = Sketch("default", ()).apply(program, MATRIX_TARGET, {})
    table = features(plain, MATRIX_TARGET, 1, 1)[0]
    assert table[SHARE] == 0 and table[TILE_LOADS] == 0


def packed(program: Program, unrolled: bool) -> float:
    def template(s: Schedule) -> None:
        on_tiles(s) if unrolled else pack(s, "t0_rows", unrolled=False)

    (sketch,) = trace(template, program)
    config = {"rows": 2, "columns": 2} if unrolled else {}
    ((_, work),) = nest_of(analyse(sketch.apply(program, MATRIX_TARGET, config), MATRIX_TARGET, 1), "t0_rows").work
    return float(work.operations)


def test_parts_made_together_share_their_roundings() -> None:
    program = products(256, 256, 256)
    stage = program.stage("t0_rows")
    part = frozenset(("part",))
    known, looped = slots(stage, True, part), slots(stage, True)
    everything = frozenset(axis.name for axis in stage.axes)
    assert known[everything] == looped[everything] - 4, "two choices among three parts, in each half of a word"
    vectors = 256 * 256 / 2 / 16
    together = packed(program, unrolled=True)
    assert together < 110 * vectors and together + 3 * 4 * vectors <= packed(program, unrolled=False)


def test_words_that_are_made_on_first_use_are_made_while_the_unit_works() -> None:
    """The same nest costs more where a block makes them before its first product."""
    task = Task.of(matmul(128, 512, 512, constants=("B",)), MATRIX_TARGET, 1)
    sketch = next(one for one in task.sketches if "on_first_use(" in one.text)
    config = {t.name: 2 if t.name.endswith((".rows", ".columns")) else 1 for t in sketch.tunables}
    tree = sketch.apply(task.body, MATRIX_TARGET, config)
    (made,) = [stage for stage in tree.stages if stage.first_use is not None]
    before = tree.replacing(replace(made, first_use=None))
    first, late = (nest_of_products(one) for one in (tree, before))
    for (stage, bits), (_, whole) in zip(first.work, late.work, strict=True):
        assert float(bits.operations) == pytest.approx(float(whole.operations), rel=0.01), stage.name
    took, takes = (float(predict(one, MATRIX_TARGET, 1, CEILINGS, 1)[0]) for one in (before, tree))
    (work,) = [work for stage, work in first.work if stage.name == made.stage]
    alone = float(stage_cycles(work, MATRIX_TARGET)) / clock_of(MATRIX_TARGET, CEILINGS)
    assert 0.3 * alone < took - takes < alone


def nest_of_products(tree: LoopTree) -> NestAnalysis:
    return next(nest for nest in analyse(tree, MATRIX_TARGET, 1).nests if nest.on_matrix)
