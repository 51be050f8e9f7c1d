"""The library's functions against its Python package."""

import numpy as np
import pytest

from tilesmith.cost_model.boosting import XGBoost
from tilesmith.cost_model.xgboost_library import Booster, Matrix
from tilesmith.tuner.effort import LEARNING


def drawn(rows: int = 300) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    features = rng.random((rows, 12)).astype(np.float32)
    features[::7, 3] = np.nan  # parameters that an arm does not have
    return features, features[:, 0] * 3 + features[:, 1] ** 2 + rng.normal(size=rows) * 0.4


def test_the_same_trees_as_by_the_package() -> None:
    xgboost = pytest.importorskip("xgboost")
    features, target = drawn()
    known, held = (features[:200], target[:200]), (features[200:], target[200:])
    ours = XGBoost(LEARNING, 5).fit_watched(*known, held)
    settings = {**ours.settings, "tree_method": "exact"}
    watched = {"evals": [(xgboost.DMatrix(held[0], label=held[1]), "held")], "verbose_eval": False}
    watched["early_stopping_rounds"] = LEARNING.patience
    theirs = xgboost.train(settings, xgboost.DMatrix(known[0], label=known[1]), LEARNING.trees, **watched)
    assert ours.trees == theirs.best_iteration + 1 < LEARNING.trees
    np.testing.assert_array_equal(
        ours.predict(features), theirs.inplace_predict(features, iteration_range=(0, ours.trees))
    )


def test_more_trees_for_what_is_new_leave_the_old_ones_as_they_are() -> None:
    features, target = drawn()
    model = XGBoost(LEARNING, 5).fit(features[:100], target[:100])
    model.trees = 20  # as if no more had been of use
    before = model.predict(features)
    model.fit_more(features[:200], target[:200], (features[200:], target[200:]))
    assert 20 < model.trees <= 20 + LEARNING.more
    np.testing.assert_array_equal(model.booster.predict(features, 20), before)
    held = slice(200, 300)
    assert np.mean((model.predict(features)[held] - target[held]) ** 2) < np.mean((before[held] - target[held]) ** 2)


def test_nothing_to_predict_is_no_error() -> None:
    features, target = drawn()
    assert XGBoost(LEARNING, 0).fit(features, target).predict(features[:0]).shape == (0,)


def test_what_the_library_refuses_is_said_in_its_words() -> None:
    data = Matrix(*drawn(20))
    with pytest.raises(RuntimeError, match=r"(?is)XGBooster.*objective"):
        Booster({"objective": "no such thing"}, [data]).grow(0, data)
