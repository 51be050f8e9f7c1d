"""What a guided search knows: all results as samples of a model, and what it says of candidates that nobody measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from time import perf_counter

import numpy as np

from ...cost_model.learned.model import LearnedModel, Samples
from ...measure.result import Status
from ...schedules.space import Candidate, Space
from ...schedules.space_ops import group
from ..effort import Effort
from .pool import CandidatePool, Vector, described, prior_of
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
        self._taken = 0  # results that are among the samples, or left out
        self.rounds: list[Round] = []

    @property
    def ready(self) -> bool:
        """Says whether it knows more than the prior."""
        return self._model.ready

    def prepare(self) -> None:
        """Imports XGBoost, which takes a second, before it is needed."""
        if self._used:
            import_module("xgboost")

    def begin(self) -> None:
        """Learns from other tasks alone, where there are any: the first trials profit already."""
        if self._used and self._known and not self._model.ready:
            self._model.fit(Samples.joined(self._known))

    def learn(self, results: Sequence[Result], batches: Mapping[Candidate, int]) -> None:
        """Fits the model to all results so far, of which it may know the first ones already.

        The features of the new ones are made together: small portions cost most. `batches`: which were chosen together.
        """
        start = perf_counter()
        judged_batch = self.judge(results, batches)
        if not self._used or not self._samples:
            return
        self._model.fit(Samples.joined([*self._known, *self._samples]))
        if judged_batch:
            self.rounds[-1] = replace(self.rounds[-1], seconds=perf_counter() - start)

    def judge(self, results: Sequence[Result], batches: Mapping[Candidate, int]) -> bool:
        """Notes how well the model predicts results that it has not learned from, then keeps these as samples. Returns whether
        there were any."""
        fresh = self._sampled(results[self._taken :], batches)
        self._taken = len(results)
        judged_batch = self._judge(fresh) if self._used else None
        self._samples += fresh
        self.rounds += [judged_batch] if judged_batch is not None else []
        return judged_batch is not None

    def _sampled(self, results: Sequence[Result], batches: Mapping[Candidate, int]) -> list[Samples]:
        """Results as samples. One whose clock could not be trusted says nothing: neither how fast it is, nor that it fails."""
        new = [result for result in results if result[1].status is not Status.UNSTABLE]
        samples = []
        for rows, members in group(self._space, [c for c, _ in new]):
            ended = [new[int(r)] for r in rows]
            seconds = np.array([m.seconds for _, m in ended], dtype=np.float64)
            batch = np.array([batches.get(c, 0) for c, _ in ended], dtype=np.int64)
            features, prior = described(self._space, members), prior_of(self._space, members)
            samples.append(Samples(features, prior, seconds, batch, np.zeros(len(rows), dtype=np.int64)))
        return samples

    def score(self, pool: CandidatePool) -> Vector:
        """float64[n]: log(seconds) that a candidate might reach; what probably fails is put back."""
        predicted = self._model.predict(pool.features, pool.prior)
        hope = np.log(predicted.seconds) - self._settings.hope * predicted.spread
        return np.asarray(hope - np.log(np.maximum(predicted.success, self._settings.doubt)))

    def _judge(self, fresh: list[Samples]) -> Round | None:
        """Compares predictions with measurements of new results that this search chose. Before the model has learned anything,
        also from other tasks, the predictions are those of the prior.
        """
        chosen = [part.rows(part.batch >= 0) for part in fresh]
        if not any(len(part) for part in chosen):
            return None
        batch, foreign = Samples.joined(chosen), sum(len(s) for s in self._known) if self._model.ready else 0
        known = foreign + sum(len(s) for s in self._samples)
        predicted = self._model.predict(batch.features, batch.prior).seconds
        return judged(len(self.rounds), known, foreign, predicted, batch.seconds, self._settings.judged)
