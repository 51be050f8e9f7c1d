"""Trees that go on growing."""

import numpy as np

from tilesmith.cost_model.learned.boosting import XGBoost
from tilesmith.tuner.effort import LEARNING


def drawn(rows: int = 300) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    features = rng.random((rows, 12)).astype(np.float32)
    features[::7, 3] = np.nan  # parameters that a sketch does not have
    return features, features[:, 0] * 3 + features[:, 1] ** 2 + rng.normal(size=rows) * 0.4


def test_more_trees_for_what_is_new_leave_the_old_ones_as_they_are() -> None:
    features, target = drawn()
    model = XGBoost(LEARNING, 5).fit(features[:100], target[:100])
    model.trees = 20  # as if no more had been of use
    before = model.predict(features)
    model.fit_more(features[:200], target[:200], (features[200:], target[200:], None))
    assert 20 < model.trees <= 20 + LEARNING.more
    np.testing.assert_array_equal(model.booster.inplace_predict(features, iteration_range=(0, 20)), before)
    held = slice(200, 300)
    assert np.mean((model.predict(features)[held] - target[held]) ** 2) < np.mean((before[held] - target[held]) ** 2)


def test_nothing_to_predict_is_no_error() -> None:
    features, target = drawn()
    assert XGBoost(LEARNING, 0).fit(features, target).predict(features[:0]).shape == (0,)
