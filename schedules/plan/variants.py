"""A population in groups of candidates that have one plan each.

A question is a tensor whose home depends on numbers, as far as the one who asks tells homes apart. Its answer has an entry for
each candidate; a plan in which all questions are answered holds for those candidates that give these answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..extents import Extent
from .stage import Plan
from .storage import Home, StoragePlan

HomeKind = Callable[[Home], object]


@dataclass(frozen=True, slots=True)
class Question:
    """Says where a tensor lives. `homes`: the number of one home for each answer; `answer`: an extent, 0 for the first of
    these."""

    stage: str
    number: int
    homes: tuple[int, ...]
    answer: Extent


def questions(plan: Plan, kind: HomeKind) -> tuple[Question, ...]:
    """Returns what differs from candidate to candidate. `kind`: of a home; those of one kind are as good as one."""
    found = [
        _question(name, number, storage, kind)
        for name, stage in plan.stages.items()
        for number, storage in enumerate(stage.storage)
    ]
    return tuple(question for question in found if len(question.homes) > 1)


def answered(plan: Plan, asked: Sequence[Question], answers: Sequence[int]) -> Plan:
    """The plan of those candidates that give these answers."""
    chosen = {(q.stage, q.number): q.homes[int(answer)] for q, answer in zip(asked, answers, strict=True)}
    stages = {
        name: replace(
            stage, storage=tuple(s.decided(chosen.get((name, number), 0)) for number, s in enumerate(stage.storage))
        )
        for name, stage in plan.stages.items()
    }
    return replace(plan, stages=stages)


def _question(stage: str, number: int, storage: StoragePlan, kind: HomeKind) -> Question:
    kinds = [kind(home) for home in storage.homes]
    distinct = list(dict.fromkeys(kinds))
    answer: Any = distinct.index(kinds[-1])
    for home, own in zip(reversed(storage.homes[:-1]), reversed(kinds[:-1]), strict=True):
        when: Any = home.when  # NumPy's functions take columns, which their types do not say
        answer = np.where(when, distinct.index(own), answer)
    return Question(stage, number, tuple(kinds.index(one) for one in distinct), answer)
