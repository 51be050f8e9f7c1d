"""Every strategy keeps the contract."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from contracts.spaces import ToySpace
from contracts.strategy import StrategyContract, drive
from tilesmith.common.errors import ArgumentError
from tilesmith.schedules.space import Population
from tilesmith.tuner.effort import NORMAL
from tilesmith.tuner.search import strategy
from tilesmith.tuner.search.strategy import make_strategy


class TestRandom(StrategyContract):
    name = "random"


class TestGrid(StrategyContract):
    name = "grid"


class TestDescent(StrategyContract):
    name = "descent"


class TestEvolution(StrategyContract):
    name = "evolution"


class TestAnnealing(StrategyContract):
    name = "annealing"


class TestGuided(StrategyContract):
    name = "guided"
    priors = (True,)  # without one it is the next


class TestSurrogate(StrategyContract):
    name = "surrogate"
    priors = (False,)  # it asks for none


@pytest.mark.slow
class TestGuidedAsSearched(TestGuided):
    effort = NORMAL


@pytest.mark.slow
class TestSurrogateAsSearched(TestSurrogate):
    effort = NORMAL


def best_after(name: str, *trials: int, seeds: int = 5, **space: bool) -> list[float]:
    """Means over seeds of the best time after so many trials of one search, as multiples of the least time of all."""
    least = ToySpace(**space).best()
    runs = [times(name, max(trials), seed, **space) for seed in range(seeds)]
    return [sum(min(run[:few]) for run in runs) / seeds / least for few in trials]


@cache  # of random search several others are told from
def times(name: str, trials: int, seed: int, **space: bool) -> list[float]:
    """The times that one search measured."""
    toy = ToySpace(**space)
    return [toy.measure(c).seconds for c in drive(make_strategy(name, toy, seed), toy, trials)]


def test_guided_is_within_a_few_percent_where_random_is_not() -> None:
    early, late = best_after("guided", 32, 64, seeds=3)
    assert early < 1.06 and late < 1.02
    assert best_after("random", 64)[0] > 1.1


@dataclass(frozen=True)
class MisledSpace(ToySpace):
    """Its prior puts the best order far behind the others."""

    def prior(self, p: Population) -> NDArray[np.float64] | None:
        told = super().prior(p)
        return None if told is None else told * np.where(p.choices[:, 4 if p.sketch == 0 else 1] == 0, 5.0, 1.0)


def test_guided_tries_every_option_of_a_leader_whatever_the_prior_says() -> None:
    space = MisledSpace()
    run = drive(make_strategy("guided", space, 0), space, 64)
    assert min(space.measure(c).seconds for c in run) < 1.05 * space.best()


@pytest.mark.parametrize("name", ["evolution", "annealing", "descent"])
def test_searches_that_learn_beat_random(name: str) -> None:
    assert best_after(name, 128) < best_after("random", 128)


def test_an_unknown_strategy_is_refused() -> None:
    with pytest.raises(ArgumentError, match="unknown strategy") as caught:
        make_strategy("gradient", ToySpace())
    assert "guided" in str(caught.value)


def test_a_strategy_can_be_read_at_one_go() -> None:
    files = Path(strategy.__file__).parent.glob("*.py")
    assert [p.name for p in files if len(p.read_text("utf-8").splitlines()) >= 250] == []
