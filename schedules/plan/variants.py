"""A population in groups of candidates that have one plan each.

A question is what depends on numbers: where a tensor lives, as far as the one who asks tells homes apart, and where straight
code begins. Its answer has an entry for each candidate; a plan in which all questions are answered holds for those candidates
that give these answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..extents import Condition, Extent
from .stage import Plan
from .storage import Home

HomeKind = Callable[[Home], object]


@dataclass(frozen=True, slots=True)
class Question:
    """Asks where a tensor of a stage lives, by its number, or where straight code begins (None). `options`: the number of one
    such place for each answer; `answer`: an extent, 0 for the first of these."""

    stage: str
    number: int | None
    options: tuple[int, ...]
    answer: Extent


def questions(plan: Plan, kind: HomeKind) -> tuple[Question, ...]:
    """Returns what differs from candidate to candidate. `kind`: of a home; those of one kind are as good as one."""
    found = []
    for name, stage in plan.stages.items():
        for number, storage in enumerate(stage.storage):
            homes = storage.homes
            found.append(_question(name, number, [kind(home) for home in homes], [home.when for home in homes]))
        found.append(_question(name, None, [one.depth for one in stage.straight], [one.when for one in stage.straight]))
    return tuple(question for question in found if len(question.options) > 1)


def answered(plan: Plan, asked: Sequence[Question], answers: Sequence[int]) -> Plan:
    """The plan of those candidates that give these answers."""
    chosen = {(q.stage, q.number): q.options[int(answer)] for q, answer in zip(asked, answers, strict=True)}
    stages = {}
    for name, stage in plan.stages.items():
        storage = tuple(s.decided(chosen.get((name, number), 0)) for number, s in enumerate(stage.storage))
        straight = replace(stage.straight[chosen.get((name, None), 0)], when=True)
        stages[name] = replace(stage, storage=storage, straight=(straight,))
    return replace(plan, stages=stages)


def _question(stage: str, number: int | None, kinds: Sequence[object], when: Sequence[Condition]) -> Question:
    """Asks which place it is, of those of these kinds that are the one under these conditions."""
    distinct = list(dict.fromkeys(kinds))
    answer: Any = distinct.index(kinds[-1])
    for holds, own in zip(reversed(when[:-1]), reversed(kinds[:-1]), strict=True):
        holding: Any = holds  # NumPy's functions take columns, which their types do not say
        answer = np.where(holding, distinct.index(own), answer)
    return Question(stage, number, tuple(kinds.index(one) for one in distinct), answer)
