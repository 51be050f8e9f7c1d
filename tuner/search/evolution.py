"""An evolutionary search on measurements alone: no model, no prior.

Steady state: every proposal is a child of two good trials. It needs no generations, so results may come back in any
order. Failed trials are parents of nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...schedules.space import Candidate, Population, Space
from ...schedules.space_ops import concatenate, crossover, defaults, mutate, population, take, unique
from .random import shuffled
from .strategy import History, Result, candidates

FOUNDERS = 24  # random trials before the first child
PARENTS = 16  # the best trials that may have children
EXPLORE = 0.1  # share of proposals that stay random
BROOD = 8  # children made for each one that is needed: many are invalid or known
ROUNDS = 6  # broods before giving up for this time


class Evolution:
    """Crossover and mutation of the best trials so far, with truncation selection."""

    def __init__(self, space: Space, seed: int = 0) -> None:
        self._space = space
        self._rng = np.random.default_rng(seed)
        self._history = History(space)
        self._stream = shuffled(space, self._rng, self._history.seen)
        self._asked = 0

    def ask(self, count: int) -> list[Candidate]:
        """Founders first; then children of the leaders, some random ones among them."""
        out: list[Candidate] = []
        if self._asked == 0:
            out += self._history.propose(defaults(self._space), count)
        while len(out) < count:
            founding = self._asked + len(out) < FOUNDERS
            if founding or self._rng.random() < EXPLORE:
                new = self._history.propose(self._stream, 1)
            else:
                new = self._children(count - len(out))
            if not new:
                out += self._history.propose(self._stream, count - len(out))
                break
            out += new
        self._asked += len(out)
        return out

    def tell(self, results: Sequence[Result]) -> None:
        """New candidates for parenthood."""
        self._history.tell(results)

    def _children(self, count: int) -> list[Candidate]:
        leaders = [candidate for candidate, _ in self._history.leaders(PARENTS)]
        if not leaders:
            return []
        out: list[Candidate] = []
        for _ in range(ROUNDS):
            mother = leaders[min(int(self._rng.exponential(PARENTS / 3)), len(leaders) - 1)]
            mates = [c for c in leaders if c.arm == mother.arm]
            brood = self._brood(mother, mates, count * BROOD)
            out += self._history.propose(candidates(brood), max(1, min(2, count - len(out))))
            if len(out) >= count:
                break
        return out[:count]

    def _brood(self, mother: Candidate, mates: list[Candidate], size: int) -> Population:
        parameters = len(mother.choices)
        mothers = population(mother.arm, [mother] * size, parameters)
        fathers = take(population(mother.arm, mates, parameters), self._rng.integers(len(mates), size=size))
        crossed = crossover(self._rng, mothers, fathers)
        brood = concatenate([mutate(self._space, self._rng, crossed), mutate(self._space, self._rng, mothers)])
        brood = unique(self._space, take(brood, self._rng.permutation(len(brood))))
        return take(brood, self._space.valid(brood))
