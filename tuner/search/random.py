"""Uniform random search: the yardstick of all others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ...schedules.space import Candidate, Population, Space
from ...schedules.space_ops import ENUMERABLE, Seen, concatenate, enumerate_configs, sample, shares, take
from ..effort import NORMAL, Effort, Portions
from .strategy import History, Result, candidates


def shuffled(space: Space, rng: np.random.Generator, seen: Seen, portions: Portions) -> Iterator[Candidate]:
    """Candidates that are not in `seen`, in random order, until there are none left.

    Sketches take turns by their `shares`. Small sketches are shuffled as a whole; large ones are drawn from for as long as
    draws bring something new.
    """
    decks = [
        _deck(space, rng, sketch) if a.size <= ENUMERABLE else None for sketch, a in enumerate(space.config_spaces)
    ]
    parts = [max(part, 1) for part in shares(space, portions.drawn)]
    served = [0] * len(decks)
    open_sketches = list(range(len(decks)))
    while open_sketches:
        pool: list[Candidate] = []
        for sketch in tuple(open_sketches):
            deck = decks[sketch]
            if deck is not None:
                drawn = take(deck, np.arange(served[sketch], min(served[sketch] + parts[sketch], len(deck))))
            else:
                drawn = sample(space, rng, sketch, parts[sketch])
                drawn = take(drawn, seen.missing(drawn))
            served[sketch] += len(drawn)
            pool += candidates(drawn)
            if not len(drawn):
                open_sketches.remove(sketch)
        for index in rng.permutation(len(pool)):
            yield pool[int(index)]


def _deck(space: Space, rng: np.random.Generator, sketch: int) -> Population:
    everything = concatenate(list(enumerate_configs(space, sketch)))
    return take(everything, rng.permutation(len(everything)))


class Random:
    """Draws from the whole space, each candidate once."""

    def __init__(self, space: Space, seed: int = 0, effort: Effort = NORMAL) -> None:
        self._history = History(space)
        self._stream = shuffled(space, np.random.default_rng(seed), self._history.seen, effort.portions)

    def ask(self, count: int) -> list[Candidate]:
        """New candidates, uniformly at random within each sketch."""
        return self._history.propose(self._stream, count)

    def tell(self, results: Sequence[Result]) -> None:
        """Listens only so that candidates of earlier runs are not proposed again."""
        self._history.tell(results)
