"""The first look at a space by the prior alone."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from contracts.spaces import ToySpace
from tilesmith.schedules.space import Population
from tilesmith.schedules.space_ops import codes
from tilesmith.tuner.effort import UNTUNED
from tilesmith.tuner.search.draft import best_choices


@dataclass(frozen=True)
class Counting(ToySpace):
    """Writes down how many candidates are scored at a time, by sketch."""

    scored: dict[int, list[int]] = field(default_factory=dict)

    def prior(self, population: Population) -> NDArray[np.float64] | None:
        numbers = codes(self.config_spaces[population.sketch], population.choices)
        assert len(np.unique(numbers)) == len(numbers)
        self.scored.setdefault(population.sketch, []).append(len(numbers))
        return super().prior(population)


def test_most_children_are_copies_and_each_is_scored_once() -> None:
    space = Counting()
    found = best_choices(space, np.random.default_rng(0), UNTUNED)
    assert found[0][0] == min(seconds for seconds, _ in found)
    children = [count for counts in space.scored.values() for count in counts[1:]]
    assert children and sum(children) < UNTUNED.generations * UNTUNED.children / 2
