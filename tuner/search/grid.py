"""The whole space, each config once, evenly spread: a grid that becomes finer the longer it runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd, sqrt

import numpy as np

from ...schedules.space import Arm, Candidate, Population, Space
from ...schedules.space_ops import take
from ..effort import NORMAL, Effort
from .strategy import History, Result, candidates

GOLDEN = (sqrt(5.0) - 1.0) / 2.0  # multiples of it modulo 1 fill the unit interval evenly (Weyl's sequence)


class Grid:
    """Visits config number k * stride (mod size) of each arm for k = 0, 1, ...; arms take turns.

    The stride is coprime to the size, so that every config is met exactly once; it is near the golden section of the
    size, so that any number of first visits is spread out. The seed shifts the start.
    """

    def __init__(self, space: Space, seed: int = 0, effort: Effort = NORMAL) -> None:
        self._history = History(space)
        self._walk = _turns([_walk(space, arm, seed, effort.portions.counted) for arm in range(len(space.arms))])

    def ask(self, count: int) -> list[Candidate]:
        """The next candidates of the walk."""
        return self._history.propose(self._walk, count)

    def tell(self, results: Sequence[Result]) -> None:
        """Listens only so that candidates of earlier runs are not proposed again."""
        self._history.tell(results)


def _turns(walks: list[Iterator[Candidate]]) -> Iterator[Candidate]:
    while walks:
        for walk in tuple(walks):
            candidate = next(walk, None)
            if candidate is None:
                walks.remove(walk)
            else:
                yield candidate


def _walk(space: Space, arm: int, seed: int, portion: int) -> Iterator[Candidate]:
    size = space.arms[arm].size
    stride = max(int(size * GOLDEN), 1)
    while gcd(stride, size) != 1:
        stride += 1
    start = seed * 0x9E3779B97F4A7C15 % size
    for first in range(0, size, portion):
        numbers = [(start + k * stride) % size for k in range(first, min(first + portion, size))]
        chunk = Population(arm, np.array([_digits(space.arms[arm], n) for n in numbers], dtype=np.int32))
        yield from candidates(take(chunk, space.valid(chunk)))


def _digits(arm: Arm, number: int) -> list[int]:
    """The choices of config `number` (mixed radix, last parameter fastest); Python integers, as sizes may pass 2^64."""
    out = []
    for parameter in reversed(arm.parameters):
        number, digit = divmod(number, len(parameter.values))
        out.append(digit)
    return out[::-1]
