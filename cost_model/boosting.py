"""Gradient-boosted trees by XGBoost (Chen and Guestrin, KDD 2016), one of the regressors that a `LearnedModel` may use."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .xgboost_library import Booster, Features, Matrix, Vector


@dataclass(frozen=True, slots=True)
class Learning:
    """How a `LearnedModel` learns. The defaults, and why, stand in tuner/effort.py with all others of the search."""

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
    kept: float  # share of the rows that are the best, and share that are the newest
    failures: int  # and successes without which no classifier is trained
    failure_trees: int  # of the classifier


class XGBoost:
    """A regressor on one thread: the cores are timing kernels meanwhile.

    About 10 ms for 200 rows of 40 features, 40 ms to predict 100,000 (one Zen 4 core).
    """

    def __init__(self, learning: Learning, seed: int, objective: str = "reg:squarederror") -> None:
        self.learning = learning
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

    def fit(self, features: Features, target: Vector) -> XGBoost:
        """Learns from scratch."""
        return self.fit_watched(features, target, None)

    def fit_watched(self, features: Features, target: Vector, held: tuple[Features, Vector] | None) -> XGBoost:
        """As `fit`; no more trees once what is `held` out has not been predicted better for a while."""
        return self._grow(features, target, held, self.learning.trees, None)

    def fit_more(self, features: Features, target: Vector, held: tuple[Features, Vector] | None) -> XGBoost:
        """As `fit_watched`, but keeps its trees and adds a few for what they get wrong: far less work than learning anew."""
        return self._grow(features, target, held, self.learning.more, self.booster)

    def _grow(
        self,
        features: Features,
        target: Vector,
        held: tuple[Features, Vector] | None,
        most: int,
        before: Booster | None,
    ) -> XGBoost:
        settings = {**self.settings, "tree_method": "exact" if len(target) <= self.learning.exact else "hist"}
        data = Matrix(features, target)
        watched = None if held is None or len(held[1]) < self.learning.enough else Matrix(*held)
        if before is None:
            self.trees, self.booster = 0, Booster(settings, [data] if watched is None else [data, watched])
        else:
            self.booster = before.first(self.trees, settings)
        start, best, least = self.trees, self.trees + 1, np.inf
        for number in range(start, start + most):
            self.booster.grow(number, data)
            if watched is not None and (error := self.booster.error(number, watched)) < least:
                best, least = number + 1, error
            elif watched is not None and number + 1 - best >= self.learning.patience:
                break
        self.trees = start + most if watched is None else best
        return self

    def predict(self, features: Features) -> NDArray[np.floating]:
        """float32[n]."""
        return self.booster.predict(features, self.trees)
