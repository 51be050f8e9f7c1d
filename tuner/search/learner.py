"""What a guided search knows: all results as samples of a model, and what it says of candidates that nobody measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from time import perf_counter

import numpy as np

from ...cost_model.boosting import import_ahead
from ...cost_model.learned import LearnedModel, Samples
from ...schedules.space import Candidate, Space
from ...schedules.space_ops import group
from ..effort import Effort
from .pool import Pool, Vector, described, prior_of
from .rounds import Round, judged
from .strategy import Result


class Learner:
    """The learned model with its samples.

    `known`: trials of other tasks, described as `pool.described` does for this space; none of them is task 0.
    `rounds`: what the model said of each batch before it had learned from it, against what was measured.
    """

    def __init__(self, space: Space, seed: int, effort: Effort, known: Sequence[Samples]) -> None:
        self._space, self._settings, self._used = space, effort.rounds, effort.parts.model
        self._model = LearnedModel(effort.learning, seed=seed)
        self._known = list(known)
        self._samples: list[Samples] = []
        self.rounds: list[Round] = []
        if self._used:  # now, for later it would disturb the clock of the first trials
            import_ahead()

    @property
    def ready(self) -> bool:
        """Whether it knows more than the prior."""
        return self._model.ready

    def begin(self) -> None:
        """Learns from other tasks alone, where there are any: the first trials profit already."""
        if self._used and self._known and not self._model.ready:
            self._model.fit(Samples.joined(self._known))

    def learn(self, results: Sequence[Result], batches: Mapping[Candidate, int]) -> None:
        """Fits the model to all results so far, of which it may know the first ones already.

        The features of the new ones are made together: small portions cost most. `batches`: which were chosen together.
        """
        start, before = perf_counter(), len(self._samples)
        new = results[sum(len(s) for s in self._samples) :]
        for rows, members in group(self._space, [c for c, _ in new]):
            ended = [new[int(r)] for r in rows]
            seconds = np.array([m.seconds for _, m in ended], dtype=np.float64)
            batch = np.array([batches.get(c, 0) for c, _ in ended], dtype=np.int64)
            features, prior = described(self._space, members), prior_of(self._space, members)
            self._samples.append(Samples(features, prior, seconds, batch, np.zeros(len(rows), dtype=np.int64)))
        if not self._used:
            return
        judged_batch = self._judge(self._samples[before:])
        self._model.fit(Samples.joined([*self._known, *self._samples]))
        if judged_batch is not None:
            self.rounds.append(replace(judged_batch, seconds=perf_counter() - start))

    def score(self, pool: Pool) -> Vector:
        """float64[n]: log(seconds) that a candidate might reach; what probably fails is put back."""
        predicted = self._model.predict(pool.features, pool.prior)
        hope = np.log(predicted.seconds) - self._settings.hope * predicted.spread
        return np.asarray(hope - np.log(np.maximum(predicted.success, self._settings.doubt)))

    def _judge(self, fresh: list[Samples]) -> Round | None:
        """What the model, which has not seen the new results, says of them."""
        if not fresh or not self._model.ready:
            return None
        batch, foreign = Samples.joined(fresh), sum(len(s) for s in self._known)
        known = foreign + sum(len(s) for s in self._samples) - len(batch)
        predicted = self._model.predict(batch.features, batch.prior).seconds
        return judged(len(self.rounds), known, foreign, predicted, batch.seconds, self._settings.judged)
