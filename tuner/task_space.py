"""The search space of a task: its sketches as arms, scored by the analytic model without any measurement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..cost_model.analysis import Analysis, analyse
from ..cost_model.analytic import predict, seconds
from ..cost_model.features import feature_table, features
from ..schedules.loops import LoopTree
from ..schedules.sketch import Sketch, even, valid
from ..schedules.space import Arm, Candidate, Population, Value, config
from ..schedules.task import Task
from ..targets.ceilings import Ceilings


class TaskSpace:
    """All candidates of a task. One walk over the loop tree of an arm analyses a whole population.

    Without `ragged` only candidates count as valid whose loops all come out even. `meanwhile` is called at every walk, some
    milliseconds each: whatever else has to go on while a search thinks.
    """

    def __init__(
        self, task: Task, ceilings: Ceilings, sketches: Sequence[Sketch] | None = None, *, ragged: bool = True
    ) -> None:
        self.task = task
        self.ceilings = ceilings
        self.sketches = tuple(task.sketches if sketches is None else sketches)
        self.ragged = ragged
        self.meanwhile: Callable[[], None] = lambda: None
        self._last: tuple[Population, LoopTree] | None = None
        self._walked: tuple[LoopTree, Analysis] | None = None

    @cached_property
    def arms(self) -> tuple[Arm, ...]:
        """One arm a sketch, in the order of `sketches`."""
        return tuple(sketch.arm(self.task.body, self.task.target) for sketch in self.sketches)

    def sketch_text(self, arm: int) -> str:
        """The text of an arm's sketch; "" for the unscheduled nest."""
        sketch = self.sketches[arm]
        return sketch.text if sketch.steps else ""

    def config(self, candidate: Candidate) -> dict[str, Value]:
        """The config of a candidate, by name."""
        return config(self.arms[candidate.arm], candidate.choices)

    def valid(self, population: Population) -> NDArray[np.bool_]:
        """bool[n]: which candidates keep all conditions."""
        tree, count = self._tree(population), len(population)
        return valid(tree, count) if self.ragged else valid(tree, count) & even(tree, count)

    def prior(self, population: Population) -> NDArray[np.float64]:
        """float64[n]: seconds predicted from the target's ceilings alone."""
        tree, target, threads = self._tree(population), self.task.target, self.task.threads
        if target.kind == "cuda":
            return predict(tree, target, threads, self.ceilings, len(population))
        return seconds(self._analysed(tree), target, threads, self.ceilings, len(population))

    def features(self, population: Population) -> NDArray[np.float32]:
        """float32[n, f]."""
        tree, target, threads = self._tree(population), self.task.target, self.task.threads
        if target.kind == "cuda":
            return features(tree, target, threads, len(population))
        return feature_table(self._analysed(tree), target, threads, len(population))

    def _tree(self, population: Population) -> LoopTree:
        """The loop trees of a population; those of the last one are kept, because its parts are asked for in turn."""
        if self._last is None or self._last[0] is not population:
            self.meanwhile()
            sketch, arm = self.sketches[population.arm], self.arms[population.arm]
            tree = sketch.apply_population(self.task.body, self.task.target, arm, population.choices)
            self._last = (population, tree)
        return self._last[1]

    def _analysed(self, tree: LoopTree) -> Analysis:
        """The walk over a tree, once for features and prior together."""
        if self._walked is None or self._walked[0] is not tree:
            self._walked = (tree, analyse(tree, self.task.target, self.task.threads))
        return self._walked[1]
