"""Gradient-boosted trees by XGBoost (Chen and Guestrin, KDD 2016), one of the regressors that a `LearnedModel` may use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...common.forks import with_team
from .smooth import Smoothing

Features = NDArray[np.float32]
Vector = NDArray[np.float64]
Watched = tuple[Features, Vector, Vector | None]  # with their weights


@dataclass(frozen=True, slots=True)
class Learning:
    """Says how a `LearnedModel` learns. The defaults, and why, stand in tuner/effort.py with all others of the search."""

    members: int  # regressors that each leave out other batches
    rows: int  # that one fit may use
    trees: int  # of a regressor that learns anew, at most
    more: int  # trees that one which has learned before gets at most for what is new
    anew: float  # growth of the samples since it learned anew, after which it does so again
    depth: int
    step: float  # of boosting
    share: float  # of rows and of columns that a tree sees
    leaf: float  # least weight of a leaf
    enough: int  # rows held out, without which the number of trees is not watched
    patience: int  # trees without a gain on what is held out
    exact: int  # rows up to which every split is tried
    foreign: float  # share of the rows that may be of other tasks
    crowd: float  # times as much as a task's own samples those of all other tasks count at most
    kept: float  # share of the rows that are the best, and share that are the newest
    failures: int  # and successes without which no classifier is trained
    failure_trees: int  # of the classifier
    smoothing: Smoothing  # of a few samples


class XGBoost:
    """A regressor on one thread: the cores are timing kernels meanwhile.

    About 10 ms for 200 rows of 40 features, 40 ms to predict 100,000 (one Zen 4 core).
    """

    def __init__(self, learning: Learning, seed: int, objective: str = "reg:squarederror") -> None:
        self.learning = learning
        self.booster: Any = None
        self.trees = 0
        self.settings: dict[str, object] = {
            "objective": objective,
            "max_depth": learning.depth,
            "eta": learning.step,
            "subsample": learning.share,
            "colsample_bytree": learning.share,
            "min_child_weight": learning.leaf,
            "nthread": 1,
            "seed": seed,
            "verbosity": 0,
        }

    def fit(self, features: Features, target: Vector, weight: Vector | None = None) -> XGBoost:
        """Learns anew, forgetting what was learned before."""
        return self.fit_watched(features, target, None, weight)

    def fit_watched(
        self, features: Features, target: Vector, held: Watched | None, weight: Vector | None = None
    ) -> XGBoost:
        """Works as `fit`; no more trees once what is `held` out has not been predicted better for a while."""
        return self._grow(features, target, held, weight, self.learning.trees, False)

    def fit_more(
        self, features: Features, target: Vector, held: Watched | None, weight: Vector | None = None
    ) -> XGBoost:
        """Works as `fit_watched`, but keeps its trees and adds a few for what they get wrong: far less work than learning
        anew."""
        return self._grow(features, target, held, weight, self.learning.more, True)

    def _grow(
        self, features: Features, target: Vector, held: Watched | None, weight: Vector | None, most: int, again: bool
    ) -> XGBoost:
        return with_team(lambda: self._grown(features, target, held, weight, most, again))

    def _grown(
        self, features: Features, target: Vector, held: Watched | None, weight: Vector | None, most: int, again: bool
    ) -> XGBoost:
        xgboost, learning = import_module("xgboost"), self.learning
        before = self.booster[: self.trees] if again else None
        settings = {**self.settings, "tree_method": "exact" if len(target) <= learning.exact else "hist"}
        watched = None
        if held is not None and len(held[1]) >= learning.enough:
            watched = xgboost.DMatrix(held[0], label=held[1], weight=held[2], nthread=1)
        data = xgboost.DMatrix(features, label=target, weight=weight, nthread=1)
        cached = [data] if watched is None else [data, watched]
        self.booster = _bare_booster()(settings, cached, model_file=before)
        if watched is None:
            for number in range(most):
                self.booster.update(data, number)
            self.trees = self.booster.num_boosted_rounds()
        else:
            self.trees = self._watching(data, watched, most)
        getattr(self.booster, "reset", lambda: None)()  # what it keeps of the data
        return self

    def _watching(self, data: Any, watched: Any, most: int) -> int:
        """Grows trees until what is watched has not been predicted better for a while; returns how many are of use."""
        known = self.booster.num_boosted_rounds()
        least, best = np.inf, 0
        for number in range(most):
            self.booster.update(data, number)
            error = float(self.booster.eval_set([(watched, "held")], number).rpartition(":")[2])
            if number == 0 or error < least:
                least, best = error, number
            elif number - best >= self.learning.patience:
                break
        return int(known + best + 1)

    def predict(self, features: Features) -> NDArray[np.floating]:
        """Predicts a value for each row of features: float32[n]."""
        if not len(features):
            return np.zeros(0, dtype=np.float32)
        predicted: NDArray[np.floating] = with_team(self._predict(features))
        return predicted

    def _predict(self, features: Features) -> Callable[[], Any]:
        return partial(self.booster.inplace_predict, features, iteration_range=(0, self.trees), validate_features=False)


@cache
def _bare_booster() -> Any:
    """XGBoost's booster without its look at the names of features, before each tree and each evaluation: ours have none.

    It takes as long as a small tree. `xgboost.train` makes boosters of its own, so trees are grown one by one here.
    """
    return type("_BareBooster", (import_module("xgboost").Booster,), {"_assign_dmatrix_features": lambda *_: None})
