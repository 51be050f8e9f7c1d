"""An evolutionary search on measurements alone: no model, no prior.

Steady state: every proposal is a child of two good trials. It needs no generations, so results may come back in any
order. Failed trials are parents of nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...schedules.space import Candidate, Population, Space
from ...schedules.space_ops import concatenate, crossover, defaults, mutate, population, take, unique
from ..effort import NORMAL, Effort
from .random import shuffled
from .strategy import History, Result, candidates


class Evolution:
    """Crossover and mutation of the best trials so far, with truncation selection."""

    def __init__(self, space: Space, seed: int = 0, effort: Effort = NORMAL) -> None:
        self._space, self._settings = space, effort.evolution
        self._rng = np.random.default_rng(seed)
        self._history = History(space)
        self._stream = shuffled(space, self._rng, self._history.seen, effort.portions)
        self._asked = 0

    def ask(self, count: int) -> list[Candidate]:
        """Founders first; then children of the leaders, some random ones among them."""
        out: list[Candidate] = []
        if self._asked == 0:
            out += self._history.propose(defaults(self._space), count)
        while len(out) < count:
            founding = self._asked + len(out) < self._settings.founders
            if founding or self._rng.random() < self._settings.explore:
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
        """Takes in results, of which the best become parents."""
        self._history.tell(results)

    def _children(self, count: int) -> list[Candidate]:
        settings = self._settings
        leaders = [candidate for candidate, _ in self._history.leaders(settings.parents)]
        if not leaders:
            return []
        out: list[Candidate] = []
        for _ in range(settings.rounds):
            mother = leaders[min(int(self._rng.exponential(settings.parents / settings.favour)), len(leaders) - 1)]
            mates = [c for c in leaders if c.sketch == mother.sketch]
            brood = self._brood(mother, mates, count * settings.brood)
            out += self._history.propose(candidates(brood), max(1, min(2, count - len(out))))
            if len(out) >= count:
                break
        return out[:count]

    def _brood(self, mother: Candidate, mates: list[Candidate], size: int) -> Population:
        parameters = len(mother.choices)
        mothers = population(mother.sketch, [mother] * size, parameters)
        fathers = take(population(mother.sketch, mates, parameters), self._rng.integers(len(mates), size=size))
        crossed = crossover(self._rng, mothers, fathers)
        genes = self._settings.genes
        brood = concatenate([mutate(self._space, self._rng, some, genes) for some in (crossed, mothers)])
        brood = unique(self._space, take(brood, self._rng.permutation(len(brood))))
        return take(brood, self._space.valid(brood))
