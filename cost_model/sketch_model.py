"""What can be said of all candidates of one sketch without measuring any: validity, predicted seconds, features.

The walk over the loop tree is recorded once (schedules/recording.py); after that a population costs array operations and no
walk.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..schedules.opened import Opened
from ..schedules.recording import Player, Recording
from ..schedules.space import Arm, Choices
from ..targets.ceilings import Ceilings
from ..targets.target import Target
from .analytic import total_seconds
from .cpu.analysis import Analysis, analyse
from .features import feature_values


class SketchModel:
    """The closed form for one sketch on one task. `arm`: its tunables with their domains."""

    def __init__(self, opened: Opened, arm: Arm, target: Target, threads: int, ceilings: Ceilings) -> None:
        self._target, self._threads, self._ceilings = target, threads, ceilings
        self._recording = Recording({p.name: [int(v) for v in p.values] for p in arm.parameters})
        self._tree = opened.at(self._recording.columns())

    def valid(self, choices: Choices) -> NDArray[np.bool_]:
        """bool[n]: which candidates keep all conditions. `choices`: int32[n, p], positions in the domains."""
        good = np.ones(len(choices), dtype=np.bool_)
        for holds in self._conditions.play(choices):
            good &= holds != 0
        return good

    def seconds(self, choices: Choices) -> NDArray[np.float64]:
        """float64[n]: predicted seconds of one run."""
        return self._seconds.play(choices)[0].astype(np.float64)

    def features(self, choices: Choices) -> NDArray[np.float32]:
        """float32[n, f]; names: FEATURE_NAMES."""
        return np.stack(self._features.play(choices), axis=1).astype(np.float32)

    @cached_property
    def _conditions(self) -> Player:
        return self._recording.player([holds for holds, _ in self._tree.conditions])

    @cached_property
    def _analysis(self) -> Analysis:
        return analyse(self._tree, self._target, self._threads)

    @cached_property
    def _seconds(self) -> Player:
        return self._recording.player([total_seconds(self._analysis, self._target, self._threads, self._ceilings)])

    @cached_property
    def _features(self) -> Player:
        return self._recording.player(list(feature_values(self._analysis, self._target, self._threads)))
