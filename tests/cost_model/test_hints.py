"""Hints that ask for memory ahead, and products with vectors, which live by them, as the closed-form estimate sees them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from helpers.modelling.programs import TARGET, matmul, task
from tilesmith.cost_model.analytic import predict, seconds
from tilesmith.cost_model.cpu.analysis import analyse
from tilesmith.schedules.space import config
from tilesmith.targets.ceilings import Ceilings, default_ceilings

CEILINGS = default_ceilings(TARGET, 1)


def test_an_operand_that_is_used_a_few_times_should_be_asked_for_ahead() -> None:
    made = task(matmul(4, 2048, 2048), threads=2)
    (found, *_) = [s for s in made.sketches if any(t.name.endswith(".ahead") for t in s.tunables)]
    config_space = found.config_space(made.body, TARGET)
    usual = config(config_space, config_space.default)

    def asked(ahead: int) -> tuple[float, float]:
        analysis = analyse(found.apply(made.body, TARGET, {**usual, "t0.ahead": ahead}), TARGET, 2)
        (nest,) = [nest for nest in analysis.nests if nest.asks]
        return float(np.max(nest.ahead)), float(seconds(analysis, TARGET, 2, default_ceilings(TARGET, 2), 1)[0])

    (none, late), (some, better), (far, best_of_all) = asked(0), asked(2048), asked(8192)
    trip = 4 * 16 * usual["t0.vectors"] * usual["t0.unroll"]  # bytes
    assert none == 0 and 2048 <= some < 2048 + trip and 8192 <= far < 8192 + trip
    assert best_of_all < better < late


def few_rows(ceilings: Ceilings, **numbers: int) -> float:
    """The seconds of 16x4096 times 4096x4096 in one thread, by the numbers of a config that are no usual ones."""
    made = task(matmul(16, 4096, 4096), threads=1)
    (found, *_) = [s for s in made.sketches if any(t.name.endswith(".ahead") for t in s.tunables)]
    usual = {t.name: 1 for t in found.tunables} | {"t0.rows": 8, "t0.ahead": 0, "t0.bring": 0}
    values = usual | {f"t0.{name}": number for name, number in numbers.items()}
    return float(predict(found.apply(made.body, TARGET, values), TARGET, 1, ceilings, 1)[0])


def test_nothing_is_brought_near_for_a_next_block_that_is_none() -> None:
    assert few_rows(CEILINGS, bring=1) == few_rows(CEILINGS)
    assert few_rows(CEILINGS, bring=1, depth_blocks=16) < 0.9 * few_rows(CEILINGS, depth_blocks=16)


def test_bytes_far_ahead_are_in_time_more_often_than_blocks_that_are_brought_near() -> None:
    near, ahead = (few_rows(CEILINGS, depth_blocks=16, vectors=3, **one) for one in ({"bring": 1}, {"ahead": 4096}))
    assert ahead < near


def test_who_asks_for_rows_ahead_looks_up_their_pages_all_the_same() -> None:
    """Narrow tiles look each page up more often: 5.9 ms in tiles of one vector, 3.5 in those of three (EPYC Zen 5)."""
    slow = replace(CEILINGS, visits=((16, 5e-9), (256, 7e-9), (4096, 7e-8)))
    narrow, wide = ({"vectors": n, "depth_blocks": 16, "ahead": 4096} for n in (1, 3))
    assert few_rows(slow, **narrow) > 1.3 * few_rows(CEILINGS, **narrow)
    assert few_rows(slow, **wide) < few_rows(slow, **narrow)


VECTORS = """
input x: f32[{k}]
constant w: f32[{n}, {k}]
constant b: f32[{n}]
y[j: {n}] = sum[k: {k}](x[k] * w[j, k])
z[j: {n}] = max(y[j] + b[j], 0)
return z"""


def by_bytes_ahead(n: int, k: int, ceilings: Ceilings) -> dict[int, float]:
    """The seconds of a product of a vector with constant weights, by how far ahead hints ask for these."""
    made = task(VECTORS.format(n=n, k=k), 2)
    (found,) = [s for s in made.sketches if s.steps and "depth=false" in s.title]
    usual = {"t0.vectors": 8, "t0.unroll": 4, "t0.column_blocks": 2}
    trees = {ahead: found.apply(made.body, TARGET, {**usual, "t0.ahead": ahead}) for ahead in (0, 2048, 8192)}
    return {ahead: float(predict(tree, TARGET, 2, ceilings, 1)[0]) for ahead, tree in trees.items()}


def test_weights_in_the_second_cache_need_no_hints() -> None:
    seconds_ = by_bytes_ahead(960, 240, default_ceilings(TARGET, 2))
    assert seconds_[0] < min(seconds_[2048], seconds_[8192])


def last_cache_of(share: float) -> Ceilings:
    """Ceilings with a last cache that gives this share of the second one's speed."""
    usual = default_ceilings(TARGET, 2)
    (size, speed), (last, _) = usual.bandwidth[1:3]
    return replace(usual, bandwidth=(usual.bandwidth[0], (size, speed), (last, share * speed), *usual.bandwidth[3:]))


def test_a_last_cache_that_keeps_up_is_asked_soon_before_the_use_and_others_far_ahead() -> None:
    fast, slow = by_bytes_ahead(1280, 960, last_cache_of(0.5)), by_bytes_ahead(1280, 960, last_cache_of(0.2))
    assert fast[2048] < fast[0] < fast[8192]
    assert slow[8192] <= slow[2048] < slow[0]


STENCIL = """
input x: f32[514, 1026]
y[i: 512, j: 1024] = x[i, j] + x[i + 1, j] + x[i + 2, j] + x[i, j + 1] + x[i + 1, j + 1] * 4
return y"""


@pytest.mark.parametrize(("share", "helped"), [(0.5, False), (0.2, True)])
def test_where_the_last_cache_keeps_up_streams_need_no_hints(share: float, helped: bool) -> None:
    """An EPYC of Zen 3, whose share is 0.8: 166 us without hints, 172 to 240 with them."""
    made = task(STENCIL, threads=2)
    (found,) = [s for s in made.sketches if s.steps]
    times = {}
    for ahead in (0, 2048):
        usual = {"rows": 4, "ahead": ahead, "streaming": 0}
        tree = found.apply(made.body, TARGET, {t.name: usual[t.name.split(".")[1]] for t in found.tunables})
        times[ahead] = float(predict(tree, TARGET, 2, last_cache_of(share), 1)[0])
    assert (times[2048] < times[0]) is helped


def test_several_rows_from_memory_need_no_hints() -> None:
    """Blur 3x3 of 16 bits, an EPYC of Zen 3, by blocks of 8 rows: 0.58 ms without hints, 0.64 with them."""
    made = task(STENCIL.replace("514", "8194").replace("512", "8192"), threads=2)
    (found,) = [s for s in made.sketches if s.steps]
    times = {}
    for rows in (1, 8):
        for ahead in (0, 2048):
            usual = {"rows": rows, "ahead": ahead, "streaming": 0}
            tree = found.apply(made.body, TARGET, {t.name: usual[t.name.split(".")[1]] for t in found.tunables})
            times[rows, ahead] = float(predict(tree, TARGET, 2, last_cache_of(0.5), 1)[0])
    assert times[8, 0] < times[8, 2048] and times[1, 2048] < times[1, 0]


def test_what_finishes_values_in_registers_is_no_other_pass() -> None:
    made = task(VECTORS.format(n=1280, k=960), 2)
    (found,) = [s for s in made.sketches if s.steps and "depth=false" in s.title]
    tree = found.apply(made.body, TARGET, {"t0.vectors": 8, "t0.unroll": 4, "t0.column_blocks": 2, "t0.ahead": 0})
    assert not any(nest.passes for nest in analyse(tree, TARGET, 2).nests)


@pytest.mark.parametrize("blocks", [2, 6, 10, 60])
def test_what_runs_inside_of_a_loop_of_one_trip_is_counted(blocks: int) -> None:
    made = task(VECTORS.format(n=960, k=240), 2)
    (found,) = [s for s in made.sketches if s.steps and "depth=false" in s.title]
    config_space, ceilings = found.config_space(made.body, TARGET), default_ceilings(TARGET, 2)
    chosen = {"t0.vectors": 6, "t0.unroll": 4, "t0.column_blocks": blocks, "t0.ahead": 0}
    row = [list(p.values).index(chosen[p.name]) for p in config_space.parameters]
    choices = np.array([row, config_space.default], dtype=np.int32)
    alone = predict(found.apply(made.body, TARGET, chosen), TARGET, 2, ceilings, 1)
    together = predict(found.apply_population(made.body, TARGET, config_space, choices), TARGET, 2, ceilings, 2)
    assert alone[0] == pytest.approx(together[0])
