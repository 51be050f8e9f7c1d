"""The Gaussian process: interpolates, knows where it does not know, and a batch can take its own choices into account."""

from __future__ import annotations

import numpy as np
import pytest

from tilesmith.cost_model.learned.gaussian import GaussianProcess, kernel
from tilesmith.tuner.effort import SMOOTHNESS


def smooth(points: np.ndarray) -> np.ndarray:
    return 3.0 + np.sin(4 * points[:, 0]) + points[:, 1] ** 2  # the third input says nothing


def known(count: int = 60) -> tuple[np.ndarray, np.ndarray]:
    points = np.random.default_rng(0).random((count, 3))
    return points, smooth(points)


def test_it_interpolates_and_generalises() -> None:
    points, values = known()
    process = GaussianProcess(3, SMOOTHNESS).fit(points, values, steps=60)
    for posterior in process.at(points):
        assert posterior.mean == pytest.approx(values, abs=0.02)
    new = np.random.default_rng(1).random((500, 3))
    for posterior in process.at(new):
        assert np.abs(posterior.mean - smooth(new)).mean() < 0.05


def test_the_deviation_grows_with_the_distance_from_what_is_known() -> None:
    points, values = known()
    near = points[:, 0] < 0.5
    posterior = GaussianProcess(3, SMOOTHNESS).fit(points[near], values[near], steps=30).at(points, 1)[0]
    assert posterior.deviation[~near].mean() > 3 * posterior.deviation[near].mean()
    error = np.abs(posterior.mean - values)
    assert (error < 4 * posterior.deviation + 0.05).mean() > 0.9


def test_assuming_a_point_is_the_same_as_fitting_it_with_its_mean() -> None:
    points, values = known(20)
    new = np.random.default_rng(1).random((50, 3))
    process = GaussianProcess(3, SMOOTHNESS).fit(points, values, steps=30)
    posterior = process.at(new)[1]
    posterior.assume(7)
    posterior.assume(23)
    noise = posterior.noise
    covered = np.concatenate([points, new[[7, 23]]])
    inner = kernel(covered, covered, posterior.scales) + noise * np.eye(22)
    outer = kernel(covered, new, posterior.scales)
    expected = 1 - np.einsum("ij,ij->j", outer, np.linalg.solve(inner, outer))
    assert posterior.left == pytest.approx(np.maximum(expected, 1e-9), abs=1e-5)


def test_constant_values_are_no_problem() -> None:
    points, _ = known(10)
    posterior = GaussianProcess(3, SMOOTHNESS).fit(points, np.full(10, 2.0), steps=30).at(points, 1)[0]
    assert posterior.mean == pytest.approx(np.full(10, 2.0))


def test_draws_agree_more_where_more_is_known() -> None:
    new = np.random.default_rng(1).random((200, 3))

    def disagreement(count: int) -> float:
        points, values = known(count)
        return float(
            np.std([p.mean for p in GaussianProcess(3, SMOOTHNESS).fit(points, values, 60).at(new)], axis=0).mean()
        )

    assert disagreement(60) < disagreement(8) / 2
