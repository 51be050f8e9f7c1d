"""What can be said of all candidates of one sketch without measuring any: validity, predicted seconds, features.

The walk over the loop tree is recorded once (schedules/recording.py); after that a population costs array operations and no
walk.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..common.cached import cached_property
from ..schedules.opened import Opened
from ..schedules.plan.stage import Plan, plan_of
from ..schedules.plan.variants import Question, answered, questions
from ..schedules.recording import Player, Recording
from ..schedules.space import Choices, ConfigSpace
from ..targets.ceilings import Ceilings
from ..targets.target import Target
from .analytic import total_seconds
from .cpu.analysis import Analysis, analyse
from .features import feature_values
from .populations import groups, told_apart

Answers = tuple[int, ...]  # to what differs between the plans of candidates


class SketchModel:
    """The closed form for one sketch on one task. `config_space`: its tunables with their domains."""

    def __init__(
        self, opened: Opened, config_space: ConfigSpace, target: Target, threads: int, ceilings: Ceilings
    ) -> None:
        self._target, self._threads, self._ceilings = target, threads, ceilings
        self._recording = Recording({p.name: [int(v) for v in p.values] for p in config_space.parameters})
        self._tree = opened.at(self._recording.columns())
        self._analyses: dict[Answers, Analysis] = {}
        self._players_of_seconds: dict[Answers, Player] = {}
        self._players_of_features: dict[Answers, Player] = {}

    def valid(self, choices: Choices) -> NDArray[np.bool_]:
        """bool[n]: which candidates keep all conditions. `choices`: int32[n, p], positions in the domains."""
        good = np.ones(len(choices), dtype=np.bool_)
        for holds in self._conditions.play(choices):
            good &= holds != 0
        return good

    def seconds(self, choices: Choices) -> NDArray[np.float64]:
        """float64[n]: predicted seconds of one run."""
        (found,) = self._played(choices, self._seconds)
        return np.asarray(found, dtype=np.float64)

    def features(self, choices: Choices) -> NDArray[np.float32]:
        """float32[n, f]; names: FEATURE_NAMES."""
        return np.ascontiguousarray(self._played(choices, self._features).T, dtype=np.float32)

    @cached_property
    def _conditions(self) -> Player:
        return self._recording.player([holds for holds, _ in self._tree.conditions])

    @cached_property
    def _plan(self) -> Plan:
        return plan_of(self._tree, gpu=False)

    @cached_property
    def _questions(self) -> tuple[Question, ...]:
        return questions(self._plan, told_apart(gpu=False))

    @cached_property
    def _answers(self) -> Player:
        return self._recording.player([question.answer for question in self._questions])

    def _analysis(self, answers: Answers) -> Analysis:
        if answers not in self._analyses:
            plan = answered(self._plan, self._questions, answers)
            self._analyses[answers] = analyse(self._tree, self._target, self._threads, plan)
        return self._analyses[answers]

    def _seconds(self, answers: Answers) -> Player:
        """Returns what gives the seconds of those candidates whose plan has these answers."""
        if answers not in self._players_of_seconds:
            seconds = total_seconds(self._analysis(answers), self._target, self._threads, self._ceilings)
            self._players_of_seconds[answers] = self._recording.player([seconds])
        return self._players_of_seconds[answers]

    def _features(self, answers: Answers) -> Player:
        if answers not in self._players_of_features:
            values = list(feature_values(self._analysis(answers), self._target, self._threads))
            self._players_of_features[answers] = self._recording.player(values)
        return self._players_of_features[answers]

    def _played(self, choices: Choices, player: Callable[[Answers], Player]) -> NDArray[np.float64]:
        """float64[results, n]: what the players of all plans give, each for the candidates that have it."""
        if not self._questions:
            return np.stack(player(()).play(choices))
        parts = []
        for answers, rows in groups(np.stack(self._answers.play(choices), axis=1)):
            parts.append((rows, np.stack(player(tuple(answers)).play(choices[rows]))))
        found = np.empty((len(parts[0][1]) if parts else 0, len(choices)))
        for rows, part in parts:
            found[:, rows] = part
        return found
