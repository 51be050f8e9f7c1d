"""Simulated annealing with several chains, so that a whole batch can be in flight.

Metropolis' rule on the logarithm of the time: a step that makes it x times as slow is taken with probability
x^(-1/T). T falls geometrically with the number of results (Kirkpatrick, Gelatt, Vecchi, Science 220, 1983).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, log

import numpy as np

from ...schedules.space import Candidate, Space
from ...schedules.space_ops import defaults, mutate, population, take
from ..effort import NORMAL, Effort
from .random import shuffled
from .strategy import History, Result, candidates


@dataclass
class Chain:
    """One walker: where it stands, and how long it has stood there."""

    candidate: Candidate | None = None
    seconds: float = inf
    stuck: int = 0


class Annealing:
    """Random moves, accepted more and more strictly."""

    def __init__(self, space: Space, seed: int = 0, effort: Effort = NORMAL) -> None:
        self._space, self._settings = space, effort.annealing
        self._rng = np.random.default_rng(seed)
        self._history = History(space)
        self._stream = shuffled(space, self._rng, self._history.seen, effort.portions)
        self._chains = [Chain() for _ in range(self._settings.chains)]
        self._owner: dict[Candidate, Chain] = {}
        self._turn = 0
        self._temperature = self._settings.start

    def ask(self, count: int) -> list[Candidate]:
        """One move for each chain in turn; chains begin at the defaults and at random candidates."""
        out: list[Candidate] = []
        while len(out) < count:
            chain = self._chains[self._turn % len(self._chains)]
            new = self._move(chain)
            if not new:
                break
            self._turn += 1
            self._owner[new[0]] = chain
            out += new
        return out

    def tell(self, results: Sequence[Result]) -> None:
        """Lets the chains take or refuse their steps."""
        self._history.tell(results)
        for candidate, measurement in results:
            chain = self._owner.pop(candidate, None)
            if chain is not None:
                self._step(chain, candidate, measurement.seconds)
        best = self._history.leaders(1)
        for chain in self._chains:
            if best and chain.stuck >= self._settings.patience:
                chain.candidate, chain.seconds, chain.stuck = best[0][0], best[0][1].seconds, 0

    def _move(self, chain: Chain) -> list[Candidate]:
        if self._turn == 0:
            start = self._history.propose(defaults(self._space), 1)
            if start:
                return start
        if chain.candidate is not None:
            here = population(
                chain.candidate.sketch, [chain.candidate] * self._settings.tries, len(chain.candidate.choices)
            )
            moves = mutate(self._space, self._rng, here, self._settings.genes)
            new = self._history.propose(candidates(take(moves, self._space.valid(moves))), 1)
            if new:
                return new
        return self._history.propose(self._stream, 1)

    def _step(self, chain: Chain, candidate: Candidate, seconds: float) -> None:
        self._temperature = max(self._temperature * self._settings.cooling, self._settings.floor)
        chain.stuck += 1
        if seconds == inf:
            return
        worse = log(seconds / chain.seconds) if chain.candidate is not None else -inf
        if worse <= 0 or self._rng.random() < np.exp(-worse / self._temperature):
            chain.candidate, chain.seconds, chain.stuck = candidate, seconds, 0
