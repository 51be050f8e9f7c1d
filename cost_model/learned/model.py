"""A model that learns what the analytic one gets wrong: log(measured / predicted without measurement).

Where nothing is predicted beforehand it learns log(measured) itself. The analytic model extrapolates, the trees correct:
such a sum is good with few samples (Adams et al., "Learning to optimize Halide with tree search and random programs",
SIGGRAPH 2019, fit coefficients of hand-made terms for the same reason).

Several members each leave out other *batches*: neighbours measured together are alike, so rows held out at random would
flatter the model. The members' spread is its uncertainty. Failures train a classifier of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from .boosting import Features, Learning, Vector, XGBoost
from .smooth import SmoothResidual


class Regressor(Protocol):
    """Holds what scikit-learn calls a regressor."""

    def fit(self, features: Features, target: Vector, weight: Vector, /) -> object:
        """Learns from float32[n, f] and float64[n], each row as much as its weight."""
        ...

    def predict(self, features: Features) -> NDArray[np.floating]:
        """float[n] for float32[n, f]."""
        ...


@dataclass(frozen=True, slots=True)
class Samples:
    """Trials as a model sees them. `seconds` is infinite where the trial failed.

    `prior` is NaN where nothing was known. Rows of one `batch` were chosen together; rows of one `task` share a program:
    task 0 is the one that is searched, of all others only what is better or worse than their medians is learned.
    """

    features: Features  # float32[n, f]
    prior: Vector  # float64[n], seconds
    seconds: Vector  # float64[n]
    batch: NDArray[np.int64]
    task: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.seconds)

    def rows(self, chosen: NDArray[np.intp] | NDArray[np.bool_]) -> Samples:
        """The given rows."""
        return Samples(
            self.features[chosen], self.prior[chosen], self.seconds[chosen], self.batch[chosen], self.task[chosen]
        )

    @staticmethod
    def joined(parts: Sequence[Samples]) -> Samples:
        """All rows of all parts, of which there is at least one."""
        return Samples(
            np.concatenate([s.features for s in parts]),
            np.concatenate([s.prior for s in parts]),
            np.concatenate([s.seconds for s in parts]),
            np.concatenate([s.batch for s in parts]),
            np.concatenate([s.task for s in parts]),
        )


@dataclass(frozen=True, slots=True)
class Prediction:
    """float64[n] each: seconds, the spread of log(seconds) among the members, the probability that it runs at all."""

    seconds: Vector
    spread: Vector
    success: Vector


class LearnedModel:
    """An ensemble over `make_regressor(learning, seed)`; any scikit-learn regressor will do, XGBoost when not given.

    A fit uses at most `learning.rows`: the best, the newest and a random rest, so that its cost stays bounded as data grows.
    """

    def __init__(
        self, learning: Learning, make_regressor: Callable[[Learning, int], Regressor] = XGBoost, *, seed: int = 0
    ) -> None:
        self._learning = learning
        self._make = make_regressor
        self._rng = np.random.default_rng(seed)
        self._fitted: list[Regressor] = []
        self._classifier: XGBoost | None = None
        self._smooth: SmoothResidual | None = None
        self._trust = 1.0  # in the trees, where both are asked
        self._centre = 0.0
        self._rows = 0  # samples of the task itself when it last learned anew

    @property
    def ready(self) -> bool:
        """Says whether it has learned anything yet; an untrained model predicts the prior."""
        return bool(self._fitted) or self._smooth is not None

    def fit(self, samples: Samples) -> None:
        """Learns from all samples; with little new since the last time only from what it got wrong."""
        own = int((samples.task == 0).sum())
        samples = samples.rows(self._chosen(samples))
        ok = np.isfinite(samples.seconds)
        self._classifier = self._fit_classifier(samples.features, ok)
        good = samples.rows(ok)
        if not len(good):
            self._fitted, self._rows, self._smooth = [], 0, None
            return
        target = self._targets(good)
        self._smooth = self._fit_smooth(good, target)
        if self._smooth is not None and self._trust == 0.0:
            return  # nobody would ask the trees
        if anew := own >= self._learning.anew * self._rows or not self._fitted:
            self._rows, self._centre = own, float(np.median(target))
            seeds = self._rng.integers(1 << 30, size=self._learning.members)
            self._fitted = [self._make(self._learning, int(seed)) for seed in seeds]
        target -= self._centre
        weight = self._weights(good.task)
        for regressor, held in zip(self._fitted, self._held_out(good.batch), strict=True):
            known, wanted = good.features[~held], target[~held]
            if isinstance(regressor, XGBoost):
                fit = regressor.fit_watched if anew else regressor.fit_more
                fit(known, wanted, (good.features[held], target[held], weight[held]), weight[~held])
            else:
                regressor.fit(known, wanted, weight[~held])

    def _fit_smooth(self, good: Samples, target: Vector) -> SmoothResidual | None:
        """Fits a smooth model while there are few samples, all of the task that is searched. Each makes trees trusted more."""
        smoothing, count = self._learning.smoothing, len(good)
        if not 1 < count <= smoothing.rows or (good.task != 0).any():
            return None
        self._trust = min(max(count - smoothing.alone, 0) / (smoothing.rows - smoothing.alone), 1.0)
        return SmoothResidual(smoothing).fit(good.features, target)

    def _held_out(self, batch: NDArray[np.int64]) -> list[NDArray[np.bool_]]:
        """Returns bool[n] for each member: the rows that it does not learn from. A batch is held out by the same member each
        time."""
        members = self._learning.members
        few = members < 2 or len(np.unique(batch)) <= members
        return [np.zeros(len(batch), dtype=np.bool_) if few else batch % members == one for one in range(members)]

    def _weights(self, task: NDArray[np.int64]) -> Vector:
        """float64[n]: what is known of the task itself is not to drown in what is known of others."""
        own = int((task == 0).sum())
        foreign = max(len(task) - own, 1)
        share = min(self._learning.crowd * own / foreign, 1.0) if own else 1.0
        return np.where(task == 0, 1.0, share)

    def predict(self, features: Features, prior: Vector | None = None) -> Prediction:
        """Returns what the candidates are expected to take: float32[n, f] and, where known, float64[n] seconds.

        Without a prior the seconds are right in proportion only when several tasks were learned from.
        """
        count = len(features)
        mean, spread = np.zeros(count), np.zeros(count)
        if self._fitted:
            corrections = np.stack([m.predict(features) for m in self._fitted]).astype(np.float64)
            mean, spread = corrections.mean(axis=0) + self._centre, corrections.std(axis=0)
        if self._smooth is not None:
            smooth, deviation = self._smooth.predict(features)
            mean = self._trust * mean + (1.0 - self._trust) * smooth
            spread = self._trust * spread + (1.0 - self._trust) * deviation
        base = np.ones(count) if prior is None else prior
        success = np.ones(count) if self._classifier is None else self._classifier.predict(features).astype(np.float64)
        return Prediction(base * np.exp(np.clip(mean, -50.0, 50.0)), spread, success)

    def _targets(self, good: Samples) -> Vector:
        """log(measured / prior), or log(measured) where nothing was known before; of other tasks relative to their medians.

        What a prior gets wrong about a whole task says nothing of another one. The medians of other tasks are put where
        that of task 0, which is searched, lies.
        """
        known = np.isfinite(good.prior)
        target = np.log(good.seconds) - np.where(known, np.log(np.where(known, good.prior, 1.0)), 0.0)
        tasks = np.unique(good.task)
        if len(tasks) > 1:
            own = good.task == 0
            centre = float(np.median(target[own])) if own.any() else 0.0
            for task in tasks[tasks != 0]:
                target[good.task == task] += centre - np.median(target[good.task == task])
        return np.asarray(target, dtype=np.float64)

    def _chosen(self, samples: Samples) -> NDArray[np.intp]:
        """Chooses at most `limit` rows: shares of them the best of their task and the newest; of other tasks a share at
        most."""
        limit, part = self._learning.rows, int(self._learning.rows * self._learning.kept)
        others = int(limit * self._learning.foreign)
        if len(samples) <= limit:
            return np.arange(len(samples))
        foreign = np.flatnonzero(samples.task != 0)
        if (samples.task == 0).any() and len(foreign) > others:
            dropped = self._rng.choice(foreign, len(foreign) - others, replace=False)
            kept_rows = np.setdiff1d(np.arange(len(samples)), dropped)
            return kept_rows[self._chosen(samples.rows(kept_rows))]
        relative = np.full(len(samples), np.inf)
        for task in np.unique(samples.task):
            rows = (samples.task == task) & np.isfinite(samples.seconds)
            if rows.any():
                relative[rows] = samples.seconds[rows] / samples.seconds[rows].min()
        kept = set(np.argsort(relative, kind="stable")[:part].tolist())
        kept |= set(range(len(samples) - part, len(samples)))
        rest = np.setdiff1d(np.arange(len(samples)), np.fromiter(kept, dtype=np.intp))
        more = self._rng.choice(rest, limit - len(kept), replace=False)
        return np.sort(np.concatenate([np.fromiter(kept, dtype=np.intp), more]))

    def _fit_classifier(self, features: Features, ok: NDArray[np.bool_]) -> XGBoost | None:
        learning = self._learning
        if min(int(ok.sum()), int((~ok).sum())) < learning.failures:
            return None
        small = replace(learning, trees=learning.failure_trees)
        return XGBoost(small, 0, objective="binary:logistic").fit(features, ok.astype(np.float64))
