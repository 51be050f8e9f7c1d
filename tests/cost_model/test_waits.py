"""A matrix unit and windows wait for constants from afar where the last cache is slow, unless hints bring these near."""

from __future__ import annotations

from dataclasses import replace

import pytest

from helpers.modelling.matrix import MATRIX_TARGET
from tilesmith.cost_model import analytic
from tilesmith.cost_model.analytic import keeps_up, predict
from tilesmith.cost_model.cpu.analysis import NestAnalysis, analyse
from tilesmith.schedules.hints import FITTING
from tilesmith.schedules.loops import LoopTree
from tilesmith.schedules.rules.cpu import window
from tilesmith.schedules.task import Task
from tilesmith.targets.ceilings import Ceilings, default_ceilings
from tilesmith.tensor import ops
from tilesmith.tensor.program import Program

TILES = ("tensorize(", "bring(", "rows packed inside = true", "columns packed inside = false")


def ceilings(last: float) -> Ceilings:
    """Those of a processor whose last cache, and memory, have a share of the second one's speed."""
    usual = default_ceilings(MATRIX_TARGET, 1)
    second = usual.bandwidth_at(1 << 20)
    return replace(usual, bandwidth=((1 << 21, second), (1 << 22, last * second)), streams={})


SLOW, FAST = ceilings(0.15), ceilings(0.8)


def scheduled(program: Program, words: tuple[str, ...], **numbers: int) -> LoopTree:
    """The tree of a schedule in whose text some words stand, with numbers that are not 1."""
    task = Task.of(program, MATRIX_TARGET, 1)
    sketch = next(one for one in task.sketches if all(word in one.text for word in words))
    named = {t.name: numbers.get(t.name.rpartition(".")[2], 1) for t in sketch.tunables}
    return sketch.apply(task.body, MATRIX_TARGET, named)


def tiles(**numbers: int) -> LoopTree:
    """A product in blocks of 2 x 2 tiles, the second operand a constant."""
    program = ops.matmul(128, 768, 768, constants=("B",))
    return scheduled(program, TILES, rows=2, columns=2, row_blocks=1, column_blocks=2, **numbers)


def windows(**numbers: int) -> LoopTree:
    program = ops.conv2d(1, 256, 7, 7, 512, layout="nhwc", constants=("W",))
    words = ("bring(t0, copy0, ", "lines outside = false")
    return scheduled(program, words, rows=7, vectors=2, lines=7, **numbers)


def nest_of(tree: LoopTree) -> NestAnalysis:
    """The nest that multiplies."""
    return next(nest for nest in analyse(tree, MATRIX_TARGET, 1).nests if nest.near or nest.waits)


def time(tree: LoopTree, speeds: Ceilings) -> float:
    return float(predict(tree, MATRIX_TARGET, 1, speeds, 1)[0])


def test_these_last_caches_are_told_apart() -> None:
    assert not keeps_up(MATRIX_TARGET, 1, SLOW)
    assert keeps_up(MATRIX_TARGET, 1, FAST)


@pytest.mark.parametrize(("depth_blocks", "fits"), [(1, False), (12, True), (24, True)])
def test_tiles_are_in_reach_where_a_block_has_a_place_in_the_first_cache(depth_blocks: int, fits: bool) -> None:
    """Blocks of two columns of tiles: three parts of a kilobyte for each step of the depth."""
    assert (2 * 3 * 1024 * (24 // depth_blocks) <= FITTING) is fits
    nest = nest_of(tiles(bring=1, depth_blocks=depth_blocks))
    assert bool(nest.reach) is fits and nest.waits
    assert not nest_of(tiles(bring=0, depth_blocks=depth_blocks)).reach


def test_small_blocks_that_are_brought_near_are_the_quickest_where_the_last_cache_is_slow() -> None:
    hinted, late = (time(tiles(bring=1, depth_blocks=n), SLOW) for n in (12, 1))
    plain = [time(tiles(bring=0, depth_blocks=n), SLOW) for n in (12, 1)]
    assert hinted < 0.9 * min(*plain, late)


def test_hints_for_windows_pay_where_the_last_cache_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window, "BEYOND", 1)
    assert nest_of(windows(bring=0)).waits and not nest_of(windows(bring=0)).bursts
    gains = [time(windows(bring=0), speeds) / time(windows(bring=1), speeds) for speeds in (SLOW, FAST)]
    assert gains[0] > 1.05 and 1.0 <= gains[1] < 0.5 + 0.5 * gains[0]


def test_what_is_packed_in_each_call_is_not_waited_for() -> None:
    program = ops.matmul(128, 768, 768)
    tree = scheduled(program, ("tensorize(", "bring("), rows=2, columns=2, bring=1)
    assert not any(nest.waits for nest in analyse(tree, MATRIX_TARGET, 1).nests)


def test_what_is_handed_to_another_core_takes_time_where_the_last_cache_is_slow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Words of rows in a nest of their own, which all threads read: half of them another one has packed."""
    program = ops.matmul(128, 768, 768, constants=("B",))
    tree = scheduled(program, ("rows packed inside = false",), rows=2, columns=2, column_blocks=2)
    bytes_elsewhere = sum(float(nest.elsewhere) for nest in analyse(tree, MATRIX_TARGET, 2).nests)
    assert bytes_elsewhere == 128 * 768 * 3  # half of three parts of two bytes

    def seconds(speeds: Ceilings) -> float:
        return float(predict(tree, MATRIX_TARGET, 2, replace(speeds, threads=2), 1)[0])

    slow, fast = seconds(SLOW), seconds(FAST)
    monkeypatch.setattr(analytic, "ELSEWHERE", 0.0)
    assert slow - seconds(SLOW) == pytest.approx(bytes_elsewhere * 1e-10, rel=0.01)
    assert fast == seconds(FAST)
