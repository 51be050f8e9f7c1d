"""The GPU cost model: known bank conflicts, sectors and occupancies; limits and order of the estimate; its speed."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest

from helpers.modelling.programs import drawn
from tilesmith.cost_model.analytic import predict
from tilesmith.cost_model.features import features
from tilesmith.cost_model.gpu.features import GPU_FEATURE_NAMES
from tilesmith.cost_model.gpu.lanes import pieces_touched, swizzled, wavefronts
from tilesmith.cost_model.gpu.launch import launches, resident_blocks
from tilesmith.schedules.auto import derive
from tilesmith.schedules.task import normalised
from tilesmith.targets.ceilings import default_ceilings
from tilesmith.targets.target import parse_target
from tilesmith.tensor import ops
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.canonical import canonical

TARGET = parse_target("cuda:sm_90a")
CEILINGS = default_ceilings(TARGET, 1)
ALL = np.ones((1, 32), dtype=np.bool_)
PROGRAMS: dict[str, Callable[[], Program]] = {
    "points": lambda: ops.add(1 << 20),
    "softmax": lambda: ops.softmax(4096, 4096),
    "column sum": lambda: ops.column_sum(16384, 16384),
    "transpose": lambda: ops.transpose(4096, 4096),
    "epilogue": lambda: ops.matmul_bias_relu(1000, 1000, 1000),
    "windows": lambda: ops.conv2d(8, 64, 28, 28, 64, padding=1),
}


def body_of(program: Program) -> Program:
    return normalised(canonical(program))


def best(program: Program, draws: int = 20_000) -> float:
    """The least seconds predicted for any of many random candidates."""
    least = np.inf
    body = body_of(program)
    for number, sketch in enumerate(derive(body, TARGET)[1:]):
        tree, _, good = drawn(sketch, body, draws, seed=number, target=TARGET)
        least = min(least, np.where(good, predict(tree, TARGET, 1, CEILINGS, draws), np.inf).min())
    return float(least)


@pytest.mark.parametrize(
    ("apart", "width", "cycles"), [(4, 4, 1), (8, 4, 2), (128, 4, 32), (132, 4, 1), (0, 4, 1), (16, 16, 4)]
)
def test_bank_conflicts_are_those_of_the_hardware(apart: int, width: int, cycles: int) -> None:
    addresses = np.arange(32, dtype=np.int64)[None, :] * apart
    assert wavefronts(addresses, ALL, np.array([width]))[0] == cycles


def test_a_swizzle_takes_the_conflicts_of_a_column_of_chunks_away() -> None:
    rows = np.arange(32, dtype=np.int64)[None, :] * 128
    width = np.array([16])
    assert wavefronts(rows, ALL, width)[0] == 32
    assert wavefronts(swizzled(rows, np.array([3])), ALL, width)[0] == 4


@pytest.mark.parametrize(("apart", "sectors"), [(4, 4), (8, 8), (32, 32), (4096, 32), (0, 1)])
def test_sectors_that_a_warp_touches(apart: int, sectors: int) -> None:
    addresses = np.arange(32, dtype=np.int64)[None, :] * apart
    assert pieces_touched(addresses, ALL, np.array([4]), 32)[0] == sectors


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "blocks"),
    [(256, 32, 0, 8), (256, 128, 0, 2), (256, 129, 0, 1), (1024, 32, 0, 2), (32, 16, 0, 32), (128, 32, 100 * 1024, 2)],
)
def test_blocks_of_a_multiprocessor(threads: int, registers: int, shared: int, blocks: int) -> None:
    assert TARGET.isa.gpu is not None
    assert resident_blocks(TARGET.isa.gpu, float(threads), float(registers), float(shared)) == blocks


def test_no_candidate_beats_the_arithmetic_peak_and_a_good_one_comes_near() -> None:
    share = 2 * 4096**3 / best(ops.matmul(4096, 4096, 4096)) / CEILINGS.flops["f32"]
    assert 0.7 < share <= 1


@pytest.mark.parametrize("program", [ops.gelu(1 << 26), ops.transpose(8192, 8192), ops.softmax(16384, 4096)])
def test_no_candidate_beats_the_memory_and_a_good_one_comes_near(program: Program) -> None:
    touched = sum(4 * np.prod(t.shape) for t in (program.inputs[0].tensor, program.tensors[program.outputs[0]]))
    share = touched / best(program, 4000) / CEILINGS.bandwidth[-1][1]
    assert 0.7 < share <= 1


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_one_candidate_has_the_numbers_that_it_has_in_a_population(name: str) -> None:
    body = body_of(PROGRAMS[name]())
    for sketch in derive(body, TARGET)[1:3]:
        tree, choices, _ = drawn(sketch, body, 64, seed=5, target=TARGET)
        seconds, table = predict(tree, TARGET, 1, CEILINGS, 64), features(tree, TARGET, 1, 64)
        assert table.shape == (64, len(GPU_FEATURE_NAMES)) == (64, len(set(GPU_FEATURE_NAMES)))
        assert np.isfinite(table).all()
        assert (seconds > 0).all()
        config_space = sketch.config_space(body, TARGET)
        for row in (0, 17, 63):
            alone = sketch.apply_population(body, TARGET, config_space, choices[row : row + 1])
            assert predict(alone, TARGET, 1, CEILINGS, 1)[0] == pytest.approx(seconds[row], rel=1e-6)


def test_the_unscheduled_nest_is_far_behind() -> None:
    body = body_of(ops.softmax(1000, 1000))
    plain = predict(derive(body, TARGET)[0].apply(body, TARGET, {}), TARGET, 1, CEILINGS, 1)[0]
    assert plain > 100 * best(ops.softmax(1000, 1000), 2000)


def test_lanes_along_memory_are_better_than_lanes_across_it() -> None:
    body = body_of(ops.row_sum(1 << 16, 48))
    by_thread, by_warp = derive(body, TARGET)[1:3]
    waste = []
    for sketch in (by_thread, by_warp):
        tree, _, good = drawn(sketch, body, 500, seed=1, target=TARGET)
        (launch,) = launches(tree, TARGET)
        waste.append(float(np.mean(np.broadcast_to(launch.stages[0].waste, (500,))[good])))
    assert waste[0] > 1.5 * waste[1]


def test_a_hundred_thousand_candidates_of_a_product_take_seconds() -> None:
    body = body_of(ops.matmul(4096, 4096, 4096))
    tree, _, _ = drawn(derive(body, TARGET)[1], body, 100_000, seed=1, target=TARGET)
    started = time.process_time()
    predict(tree, TARGET, 1, CEILINGS, 100_000)
    assert time.process_time() - started < 4
