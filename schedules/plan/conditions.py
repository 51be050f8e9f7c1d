"""Conditions on extents: truths for one config, an entry for each candidate for a population.

Where all candidates of a population agree, the truth is a plain one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

import numpy as np

from ..extents import Condition, Extent, Sym


class Conditional(Protocol):
    """One of several answers. `when`: for which candidates, if none before it holds."""

    @property
    def when(self) -> Condition:
        """The condition."""
        ...


C = TypeVar("C", bound=Conditional)


def possible(answers: Sequence[C]) -> tuple[C, ...]:
    """The answers that some candidate has: all up to the first that holds for every one, without those that hold for none."""
    found: list[C] = []
    for one in answers:
        if one.when is not False:
            found.append(one)
        if one.when is True:
            break
    return tuple(found)


def same(a: Extent, b: Extent) -> Condition:
    """Says whether two extents are equal."""
    if a is b:
        return True
    return settled(a == b)


def at_most(a: Extent, b: Extent) -> Condition:
    """Says whether the first extent is no larger than the second."""
    return settled(a <= b)


def every(conditions: Iterable[Condition]) -> Condition:
    """Says whether all of them hold. Later ones are not looked at behind one that never does."""
    total: Condition = True
    for condition in conditions:
        if condition is False:
            return False
        if condition is not True:
            assert not isinstance(condition, Sym) and not isinstance(total, Sym)  # plans are made of what is known
            total = condition if total is True else settled(total & condition)
    return total


def some(conditions: Iterable[Condition]) -> Condition:
    """Says whether one of them holds at least."""
    return opposite(every(opposite(condition) for condition in conditions))


def opposite(condition: Condition) -> Condition:
    """Says whether a condition does not hold."""
    if isinstance(condition, bool):
        return not condition
    return settled(condition == 0)


def settled(condition: Condition) -> Condition:
    """A condition as a plain truth where its entries agree."""
    if isinstance(condition, (np.ndarray, np.bool_)):
        if np.all(condition):
            return True
        if not np.any(condition):
            return False
    return condition
