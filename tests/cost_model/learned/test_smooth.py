"""The Gaussian process for a few samples: right where it was told, and back to the prior far away."""

from __future__ import annotations

import numpy as np
import pytest

from tilesmith.cost_model.learned.smooth import Smoothing, SmoothResidual
from tilesmith.tuner.effort import LEARNING

SMOOTHING = LEARNING.smoothing


def samples(count: int, features: int = 40, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(count, features)).astype(np.float32)
    return points, np.tanh(points[:, 0] + 0.5 * points[:, 1]).astype(np.float64)


def test_it_comes_close_to_what_it_was_told() -> None:
    points, values = samples(24)
    exact = Smoothing(16, 96, SMOOTHING.scales, (1e-6,), SMOOTHING.clip)
    mean, deviation = SmoothResidual(exact).fit(points, values).predict(points)
    np.testing.assert_allclose(mean, values, atol=1e-3)
    assert deviation.max() < 0.02 * values.std()


def test_it_predicts_better_than_the_median() -> None:
    points, values = samples(400)
    mean, _ = SmoothResidual(SMOOTHING).fit(points[:60], values[:60]).predict(points[60:])
    wrong, blind = np.abs(mean - values[60:]).mean(), np.abs(np.median(values[:60]) - values[60:]).mean()
    assert wrong < 0.9 * blind


def test_far_from_all_samples_it_says_the_median_and_doubts_more() -> None:
    points, values = samples(24)
    close = Smoothing(16, 96, (20.0,), (0.01,), SMOOTHING.clip)
    process = SmoothResidual(close).fit(points, values)
    mean, deviation = process.predict(np.full((1, points.shape[1]), 50.0, dtype=np.float32))
    assert mean[0] == pytest.approx(np.median(values), abs=1e-6)
    assert deviation[0] > 10 * process.predict(points)[1].max()


def test_features_that_are_missing_or_always_alike_do_no_harm() -> None:
    points, values = samples(16)
    points[:, 5], points[::2, 6] = 7.0, np.nan
    mean, deviation = SmoothResidual(SMOOTHING).fit(points, values).predict(points)
    assert np.isfinite(mean).all() and np.isfinite(deviation).all()


def test_alike_samples_with_alike_values_are_no_error() -> None:
    points = np.ones((5, 3), dtype=np.float32)
    mean, deviation = SmoothResidual(SMOOTHING).fit(points, np.zeros(5)).predict(points)
    assert np.isfinite(mean).all() and np.isfinite(deviation).all()
