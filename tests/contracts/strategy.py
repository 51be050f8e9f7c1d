"""What every search strategy promises. A test class derives from this and says which strategy it means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from contracts.spaces import ToySpace
from tilesmith.schedules.space import Candidate, ConfigSpace, Parameter, Population, Space
from tilesmith.schedules.space_ops import population
from tilesmith.tuner.effort import NORMAL
from tilesmith.tuner.search.strategy import Strategy, make_strategy


def valid_and_in_domain(space: Space, candidate: Candidate) -> bool:
    parameters = space.config_spaces[candidate.sketch].parameters
    inside = all(0 <= c < len(p.values) for c, p in zip(candidate.choices, parameters, strict=True))
    return inside and bool(space.valid(population(candidate.sketch, [candidate], len(parameters)))[0])


def drive(strategy: Strategy, space: ToySpace, trials: int, batch: int = 8) -> list[Candidate]:
    """Asks and tells until `trials` candidates were measured or there are no more."""
    proposed: list[Candidate] = []
    while len(proposed) < trials:
        asked = strategy.ask(min(batch, trials - len(proposed)))
        if not asked:
            break
        proposed += asked
        strategy.tell([(c, space.measure(c)) for c in asked])
    return proposed


class AllFail(ToySpace):
    def fails(self, p: Population) -> np.ndarray:
        return np.ones(len(p), dtype=np.bool_)


class NothingValid(ToySpace):
    def valid(self, p: Population) -> np.ndarray:
        return np.zeros(len(p), dtype=np.bool_)


class Huge(ToySpace):
    """More configs than 64 bits can number."""

    @property
    def config_spaces(self) -> Sequence[ConfigSpace]:
        first, second = super().config_spaces
        more = tuple(Parameter(f"x{i}", tuple(range(10))) for i in range(25))
        return (ConfigSpace("huge", "huge", first.parameters + more), second)


# What a strategy promises does not hang on how well it learns. Each part of learning is there, only smaller.
SMALL = replace(
    NORMAL,
    learning=replace(NORMAL.learning, members=2, trees=12, more=4, patience=3, failure_trees=4),
    surrogates=replace(NORMAL.surrogates, trees=8, steps=6, shortlist=1000),
)


class StrategyContract:
    """Derive and set `name`, and `priors`: the kinds of spaces that make a difference to it."""

    name: str
    priors = (True, False)
    effort = SMALL

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Spaces with a prior and without one."""
        if "with_prior" in metafunc.fixturenames:
            metafunc.parametrize("with_prior", self.priors)

    def make(self, space: Space, seed: int = 0) -> Strategy:
        return make_strategy(self.name, space, seed, self.effort)

    def test_proposals_are_valid_and_never_repeat(self, with_prior: bool) -> None:
        space = ToySpace(with_prior=with_prior)
        proposed = drive(self.make(space), space, 64)
        assert len(proposed) == 64
        assert len(set(proposed)) == 64
        assert all(valid_and_in_domain(space, c) for c in proposed)

    def test_a_small_space_is_exhausted_and_then_empty(self, with_prior: bool) -> None:
        space = ToySpace(values=3, with_prior=with_prior)
        strategy = self.make(space)
        proposed = drive(strategy, space, 10_000)
        grids = [np.ndindex(*(len(p.values) for p in config_space.parameters)) for config_space in space.config_spaces]
        everything = [Candidate(sketch, choices) for sketch, grid in enumerate(grids) for choices in grid]
        assert set(proposed) == {c for c in everything if valid_and_in_domain(space, c)}
        assert strategy.ask(4) == []

    def test_the_seed_decides_everything(self, with_prior: bool) -> None:
        space = ToySpace(with_prior=with_prior)
        first, again = (drive(self.make(space, seed=7), space, 40) for _ in range(2))
        other = drive(self.make(space, seed=8), space, 40)
        assert first == again
        assert first != other

    def test_asks_with_results_outstanding(self) -> None:
        space = ToySpace()
        strategy = self.make(space)
        asked = [c for _ in range(12) for c in strategy.ask(4)]
        assert len(set(asked)) == 48
        strategy.tell([(c, space.measure(c)) for c in reversed(asked)])
        assert strategy.ask(4)

    def test_results_of_an_earlier_run_are_not_proposed_again(self) -> None:
        space = ToySpace(values=3)
        earlier = drive(self.make(space, seed=1), space, 40)
        strategy = self.make(space, seed=2)
        strategy.tell([(c, space.measure(c)) for c in earlier])
        assert not set(drive(strategy, space, 10_000)) & set(earlier)

    def test_it_goes_on_when_every_trial_fails(self) -> None:
        space = AllFail()
        assert len(set(drive(self.make(space), space, 60))) == 60

    def test_a_space_without_valid_configs_is_exhausted_at_once(self) -> None:
        assert self.make(NothingValid(values=4)).ask(8) == []

    def test_it_never_gives_more_than_asked(self) -> None:
        space = ToySpace()
        strategy = self.make(space)
        for count in (1, 3, 17, 1):
            asked = strategy.ask(count)
            assert 1 <= len(asked) <= count
            strategy.tell([(c, space.measure(c)) for c in asked])

    def test_spaces_beyond_64_bits(self) -> None:
        space = Huge()
        proposed = drive(self.make(space), space, 40)
        assert len(set(proposed)) == 40
        assert all(valid_and_in_domain(space, c) for c in proposed)
