"""Search on recorded spaces of real GPU kernels: no compiler, no clock, no noise, the same result every time."""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest

from tilesmith.measure.replay import ReplaySpace
from tilesmith.schedules.space import Candidate
from tilesmith.tuner.search.strategy import make_strategy
from tilesmith.tuner.search.surrogate import Surrogate

DATA = Path(__file__).parents[2] / "data" / "replay"
SPACES = ("convolution-A100", "convolution-W6600")


@pytest.fixture(scope="module", params=SPACES)
def space(request: pytest.FixtureRequest) -> ReplaySpace:
    return ReplaySpace(DATA / f"{request.param}.json.gz")


TRIALS = {"random": 200, "guided": 160, "evolution": 200, "annealing": 200}  # the most that a test asks for


@cache  # several tests look at the same searches, some at their first trials
def kept(space: ReplaySpace, name: str, seed: int) -> list[float]:
    return best_over_optimum(space, name, seed, TRIALS[name])


def best_over_optimum(space: ReplaySpace, name: str, seed: int, trials: int) -> list[float]:
    """Best so far / optimum after each trial; failed trials count."""
    strategy = make_strategy(name, space, seed)
    seconds: list[float] = []
    while len(seconds) < trials:
        batch = strategy.ask(8)
        rows = space.table.rows(np.array([c.choices for c in batch], dtype=np.int32))
        results = [(c, space.table.measurement(int(row))) for c, row in zip(batch, rows, strict=True)]
        strategy.tell(results)
        seconds += [m.seconds for _, m in results]
    return list(np.minimum.accumulate(seconds) / space.table.best)


def after(space: ReplaySpace, name: str, trials: int, seeds: int) -> float:
    """Mean over seeds of the best after so many trials."""
    return fmean(kept(space, name, seed)[trials - 1] for seed in range(seeds))


def test_guided_clearly_beats_random(space: ReplaySpace) -> None:
    """1 is the optimum: guided is less than half as far from it as random."""
    random, guided = after(space, "random", 160, seeds=10), after(space, "guided", 160, seeds=2)
    assert random > 1.15
    assert guided - 1 < (random - 1) / 2


@pytest.mark.parametrize("name", ["evolution", "annealing"])
def test_searches_that_learn_beat_random(space: ReplaySpace, name: str) -> None:
    assert after(space, name, 200, seeds=10) < after(space, "random", 200, seeds=10)


@pytest.mark.slow
def test_a_thousand_trials_take_less_than_half_a_minute(space: ReplaySpace) -> None:
    """Processor time of the search alone, so that a busy machine does not matter; 6 to 14 s were measured."""
    start = time.process_time()
    assert len(best_over_optimum(space, "guided", 0, 1000)) == 1000
    assert time.process_time() - start < 30


def test_a_search_is_repeatable(space: ReplaySpace) -> None:
    assert best_over_optimum(space, "guided", 5, 40) == best_over_optimum(space, "guided", 5, 40)


class Counting(Surrogate):
    """Counts how often it planned."""

    plans = 0

    def _make_plan(self) -> list[Candidate]:
        self.plans += 1
        return super()._make_plan()


def test_every_batch_is_planned_with_all_results(space: ReplaySpace) -> None:
    """Where a plan names a candidate twice, a second one fills the batch up, and its rest knows nothing of the results."""
    strategy = Counting(space, 3)
    for _ in range(10):
        batch = strategy.ask(8)
        rows = space.table.rows(np.array([c.choices for c in batch], dtype=np.int32))
        strategy.tell([(c, space.table.measurement(int(row))) for c, row in zip(batch, rows, strict=True)])
    assert strategy.plans == 10
