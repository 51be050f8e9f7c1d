"""The library's functions against its Python package."""

import numpy as np
import pytest

from tilesmith.cost_model.boosting import STOPPING, Booster, Matrix, XGBoost


def drawn(rows: int = 300) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    features = rng.random((rows, 12)).astype(np.float32)
    features[::7, 3] = np.nan  # parameters that an arm does not have
    return features, features[:, 0] * 3 + features[:, 1] ** 2 + rng.normal(size=rows) * 0.4


def test_the_same_trees_as_by_the_package() -> None:
    xgboost = pytest.importorskip("xgboost")
    features, target = drawn()
    ours = XGBoost(5).fit_watched(features[:200], target[:200], (features[200:], target[200:]))
    watched = [(xgboost.DMatrix(features[200:], label=target[200:]), "held")]
    theirs = xgboost.train(
        {**ours.settings, "tree_method": "exact"},
        xgboost.DMatrix(features[:200], label=target[:200]),
        ours.rounds,
        evals=watched,
        early_stopping_rounds=STOPPING,
        verbose_eval=False,
    )
    assert ours.trees == theirs.best_iteration + 1 < ours.rounds
    expected = theirs.inplace_predict(features, iteration_range=(0, ours.trees))
    np.testing.assert_array_equal(ours.predict(features), expected)


def test_nothing_to_predict_is_no_error() -> None:
    features, target = drawn()
    assert XGBoost(0).fit(features, target).predict(features[:0]).shape == (0,)


def test_what_the_library_refuses_is_said_in_its_words() -> None:
    data = Matrix(*drawn(20))
    with pytest.raises(RuntimeError, match=r"(?is)XGBooster.*objective"):
        Booster({"objective": "no such thing"}, [data]).grow(0, data)
