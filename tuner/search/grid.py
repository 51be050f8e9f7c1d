"""The whole space, each config once, evenly spread: a grid that becomes finer the longer it runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd, sqrt

import numpy as np

from ...schedules.space import Candidate, ConfigSpace, Population, Space
from ...schedules.space_ops import take
from ..effort import NORMAL, Effort
from .strategy import History, Result, candidates

GOLDEN = (sqrt(5.0) - 1.0) / 2.0  # multiples of it modulo 1 fill the unit interval evenly (Weyl's sequence)


class Grid:
    """Visits config number k * stride (mod size) of each sketch for k = 0, 1, ...; sketches take turns.

    The stride is coprime to the size, so that every config is met exactly once; it is near the golden section of the
    size, so that any number of first visits is spread out. The seed shifts the start.
    """

    def __init__(self, space: Space, seed: int = 0, effort: Effort = NORMAL) -> None:
        self._history = History(space)
        self._walk = _turns(
            [_walk(space, sketch, seed, effort.portions.counted) for sketch in range(len(space.config_spaces))]
        )

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


def _walk(space: Space, sketch: int, seed: int, portion: int) -> Iterator[Candidate]:
    size = space.config_spaces[sketch].size
    stride = max(int(size * GOLDEN), 1)
    while gcd(stride, size) != 1:
        stride += 1
    start = seed * 0x9E3779B97F4A7C15 % size
    for first in range(0, size, portion):
        numbers = [(start + k * stride) % size for k in range(first, min(first + portion, size))]
        chunk = Population(sketch, np.array([_digits(space.config_spaces[sketch], n) for n in numbers], dtype=np.int32))
        yield from candidates(take(chunk, space.valid(chunk)))


def _digits(config_space: ConfigSpace, number: int) -> list[int]:
    """The choices of config `number` (mixed radix, last parameter fastest); Python integers, as sizes may pass 2^64."""
    out = []
    for parameter in reversed(config_space.parameters):
        number, digit = divmod(number, len(parameter.values))
        out.append(digit)
    return out[::-1]
