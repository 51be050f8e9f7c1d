"""The search space of a task: its sketches with their configs, scored by the analytic model without any measurement."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..common.cached import cached_property
from ..cost_model.analytic import predict
from ..cost_model.features import features
from ..cost_model.sketch_model import SketchModel
from ..schedules.loops import LoopTree
from ..schedules.opened import Opened
from ..schedules.sketch import Sketch, even, numbers_of, valid
from ..schedules.space import Candidate, ConfigSpace, ConfigValue, Population, config
from ..schedules.space_ops import draw
from ..schedules.task import Task
from ..targets.ceilings import Ceilings

LOOKED_AT = 1 << 14  # candidates of a sketch that show which of its axes can be divided


class TaskSpace:
    """All candidates of a task. One walk over the loop tree of a sketch analyses all of them.

    Without `ragged` only candidates count as valid whose tiles divide their axes, where a sketch has such.
    """

    def __init__(
        self, task: Task, ceilings: Ceilings, sketches: Sequence[Sketch] | None = None, *, ragged: bool = True
    ) -> None:
        self.task = task
        self.ceilings = ceilings
        self.sketches = tuple(task.sketches if sketches is None else sketches)
        self.ragged = ragged
        self._open: dict[int, Opened] = {}
        self._last: tuple[Population, LoopTree] | None = None
        self._models: dict[int, SketchModel] = {}
        self._divided: dict[int, list[tuple[str, str]]] = {}

    @cached_property
    def config_spaces(self) -> tuple[ConfigSpace, ...]:
        """One config space a sketch, in the order of `sketches`."""
        return tuple(sketch.config_space(self.task.body, self.task.target) for sketch in self.sketches)

    def sketch_text(self, number: int) -> str:
        """The text of a sketch; "" for the unscheduled nest."""
        sketch = self.sketches[number]
        return sketch.text if sketch.steps else ""

    def config(self, candidate: Candidate) -> dict[str, ConfigValue]:
        """The config of a candidate, by name."""
        return config(self.config_spaces[candidate.sketch], candidate.choices)

    def valid(self, population: Population) -> NDArray[np.bool_]:
        """bool[n]: which candidates keep all conditions."""
        good = self._runs(population)
        if not self.ragged:
            whole = even(self._tree(population), len(population))
            for axis in self._divisible(population.sketch):
                good = good & whole[axis]
        return good

    def _runs(self, population: Population) -> NDArray[np.bool_]:
        if self.task.target.is_gpu:
            return valid(self._tree(population), len(population))
        return self._model(population).valid(population.choices)

    def _divisible(self, sketch: int) -> list[tuple[str, str]]:
        """The axes, by stage, that the tiles of a sketch can divide all at once: 7 rows leave nothing to vectors of 16.

        Among candidates drawn at random, the axes that most of them divide come first; one that none of those which divide all
        before it divides is not asked for.
        """
        if sketch not in self._divided:
            drawn = draw(self, np.random.default_rng(sketch), sketch, LOOKED_AT)
            left, asked = self._runs(drawn), []
            whole = even(self._tree(drawn), len(drawn))
            for axis in sorted(whole, key=lambda one: -int(whole[one][left].sum())):
                if (left & whole[axis]).any():
                    left = left & whole[axis]
                    asked.append(axis)
            self._divided[sketch] = asked
        return self._divided[sketch]

    def prior(self, population: Population) -> NDArray[np.float64]:
        """float64[n]: seconds predicted from the target's ceilings alone."""
        if self.task.target.is_gpu:
            tree = self._tree(population)
            return predict(tree, self.task.target, self.task.threads, self.ceilings, len(population))
        return self._model(population).seconds(population.choices)

    def features(self, population: Population) -> NDArray[np.float32]:
        """float32[n, f]."""
        if self.task.target.is_gpu:
            return features(self._tree(population), self.task.target, self.task.threads, len(population))
        return self._model(population).features(population.choices)

    def _tree(self, population: Population) -> LoopTree:
        """The loop trees of a population; those of the last one are kept, because its parts are asked for in turn."""
        if self._last is None or self._last[0] is not population:
            numbers = numbers_of(self.config_spaces[population.sketch], population.choices)
            self._last = (population, self._opened(population.sketch).at(numbers))
        return self._last[1]

    def _model(self, population: Population) -> SketchModel:
        """The closed form for a sketch: its loop tree is walked once, whatever the number of populations."""
        sketch = population.sketch
        if sketch not in self._models:
            task = self.task
            opened, config_space = self._opened(sketch), self.config_spaces[sketch]
            self._models[sketch] = SketchModel(opened, config_space, task.target, task.threads, self.ceilings)
        return self._models[sketch]

    def _opened(self, sketch: int) -> Opened:
        """The loop tree of a sketch with its tunables unknown: steps run once for each sketch, and not for each population."""
        if sketch not in self._open:
            self._open[sketch] = self.sketches[sketch].opened(self.task.body, self.task.target)
        return self._open[sketch]
