"""Uniform random search: the yardstick of all others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ...schedules.space import Candidate, Population, Space
from ...schedules.space_ops import ENUMERABLE, Seen, concatenate, enumerate_arm, sample, shares, take
from ..effort import NORMAL, Effort, Portions
from .strategy import History, Result, candidates


def shuffled(space: Space, rng: np.random.Generator, seen: Seen, portions: Portions) -> Iterator[Candidate]:
    """Candidates that are not in `seen`, in random order, until there are none left.

    Arms take turns by their `shares`. Small arms are shuffled as a whole; large ones are drawn from for as long as
    draws bring something new.
    """
    decks = [_deck(space, rng, arm) if a.size <= ENUMERABLE else None for arm, a in enumerate(space.arms)]
    parts = [max(part, 1) for part in shares(space, portions.drawn)]
    served = [0] * len(decks)
    open_arms = list(range(len(decks)))
    while open_arms:
        pool: list[Candidate] = []
        for arm in tuple(open_arms):
            deck = decks[arm]
            if deck is not None:
                drawn = take(deck, np.arange(served[arm], min(served[arm] + parts[arm], len(deck))))
            else:
                drawn = sample(space, rng, arm, parts[arm])
                drawn = take(drawn, seen.missing(drawn))
            served[arm] += len(drawn)
            pool += candidates(drawn)
            if not len(drawn):
                open_arms.remove(arm)
        for index in rng.permutation(len(pool)):
            yield pool[int(index)]


def _deck(space: Space, rng: np.random.Generator, arm: int) -> Population:
    everything = concatenate(list(enumerate_arm(space, arm)))
    return take(everything, rng.permutation(len(everything)))


class Random:
    """Draws from the whole space, each candidate once."""

    def __init__(self, space: Space, seed: int = 0, effort: Effort = NORMAL) -> None:
        self._history = History(space)
        self._stream = shuffled(space, np.random.default_rng(seed), self._history.seen, effort.portions)

    def ask(self, count: int) -> list[Candidate]:
        """New candidates, uniformly at random within each arm."""
        return self._history.propose(self._stream, count)

    def tell(self, results: Sequence[Result]) -> None:
        """Listens only so that candidates of earlier runs are not proposed again."""
        self._history.tell(results)
