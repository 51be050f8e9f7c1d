"""A search that learns nothing: the best of a large draft by the prior, then what lies around the leaders. Needs NumPy alone.

    first batch     the best of the draft, spread out over structures and shapes
    later batches   half the neighbours of the leaders that the prior likes best, half the next of the draft, and one of
                    all there is; once the draft is used up, neighbours alone, then anything

For machines without the packages of a learned model. Where they are there, `guided` needs fewer trials.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, zip_longest

import numpy as np

from ...schedules.space import Candidate, Space
from ...schedules.space_ops import neighbours, swaps
from ..effort import NORMAL, Effort
from .draft import draft
from .pool import CandidatePool, pool_of, scales, spread_out
from .random import shuffled
from .strategy import History, Result


class Descent:
    """See the head of this file."""

    def __init__(self, space: Space, seed: int = 0, effort: Effort = NORMAL) -> None:
        self._space, self._effort = space, effort
        self._rng = np.random.default_rng(seed)
        self._history = History(space)
        self._stream = shuffled(space, self._rng, self._history.seen, effort.portions)
        self._draft: Iterator[Candidate] | None = None
        self._plan: Iterator[Candidate] = iter(())

    def tell(self, results: Sequence[Result]) -> None:
        """The best of them are what later batches lie around."""
        self._history.tell(results)

    def ask(self, count: int) -> list[Candidate]:
        """The draft first, then neighbours of the leaders and more of the draft."""
        if self._draft is None:
            self._draft = self._drafted()
        if len(self._history.results) < self._effort.rounds.led:
            return self._filled(self._history.propose(self._draft, count), count)
        out = self._history.propose(self._plan, count)
        if len(out) < count:
            pairs = zip_longest(self._around(), _first(self._draft, self._effort.rounds.batch))
            anything = _first(self._stream, 1)
            self._plan = iter([one for one in (*chain.from_iterable(pairs), *anything) if one is not None])
            out += self._history.propose(self._plan, count - len(out))
        return self._filled(out, count)

    def _filled(self, out: list[Candidate], count: int) -> list[Candidate]:
        return out + self._history.propose(self._stream, count - len(out))

    def _drafted(self) -> Iterator[Candidate]:
        """Returns what is best and different first, then all others by the prior."""
        pool = draft(self._space, self._rng, self._effort.draft)
        if not len(pool):
            return iter(())
        first = self._effort.draft.first
        apart = spread_out(pool.features, scales(pool.features), pool.prior, first, self._effort.spread)
        order = dict.fromkeys([*apart, *map(int, np.argsort(pool.prior, kind="stable"))])
        return (pool.candidate(row) for row in order)

    def _around(self) -> list[Candidate]:
        """Neighbours of the leaders, those of the least prior first; at most a batch."""
        rounds = self._effort.rounds
        leaders = [candidate for candidate, _ in self._history.leaders(rounds.leaders)]
        near = [near for c in leaders for near in (neighbours(self._space, c, rounds.reach), swaps(self._space, c))]
        pool = self._fresh(pool_of(self._space, near)) if near else None
        if pool is None or not len(pool):
            return []
        best = np.argsort(pool.prior, kind="stable")[: rounds.batch]
        return [pool.candidate(int(row)) for row in best]

    def _fresh(self, pool: CandidatePool) -> CandidatePool:
        """Leaves out what was proposed already."""
        new = [self._history.seen.missing(part) for part in pool.parts]
        return pool.rows(np.flatnonzero(np.concatenate(new))) if new else pool


def _first(source: Iterator[Candidate], count: int) -> list[Candidate]:
    return [one for _, one in zip(range(count), source, strict=False)]  # the range first: not one is lost
