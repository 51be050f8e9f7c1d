"""Metrics on rankings whose quality is known."""

from __future__ import annotations

import numpy as np
import pytest

from tilesmith.cost_model.learned.metrics import average_peak, best_share, rank_correlation, recall_of_best, regret

INF = float("inf")


def test_rank_correlation_is_spearmans() -> None:
    from scipy.stats import spearmanr

    rng = np.random.default_rng(0)
    a = rng.integers(0, 20, 200).astype(float)  # with ties
    b = a + rng.normal(0, 5, 200)
    assert rank_correlation(a, b) == pytest.approx(spearmanr(a, b).statistic)
    assert rank_correlation([1, 2, 3], [10, 100, 1000]) == pytest.approx(1)
    assert rank_correlation([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert rank_correlation([1, 1, 1], [1, 2, 3]) == 0
    assert rank_correlation([1.0], [1.0]) == 0


def test_failures_rank_last() -> None:
    from scipy.stats import spearmanr

    assert rank_correlation([1, 2, 3, 4], [1.0, 2.0, INF, INF]) == pytest.approx(
        spearmanr([1, 2, 3, 4], [1, 2, 9, 9])[0]
    )


def test_recall_of_best() -> None:
    measured = [5.0, 1.0, 2.0, 4.0, 3.0]
    assert recall_of_best([5, 1, 2, 4, 3], measured, top=2, within=2) == 1
    assert recall_of_best([1, 2, 5, 4, 3], measured, top=2, within=2) == 0.5
    assert recall_of_best([1, 5, 4, 2, 3], measured, top=2, within=2) == 0


def test_regret() -> None:
    assert regret([1, 2, 3], [2.0, 1.0, 4.0]) == pytest.approx(1.0)
    assert regret([1, 2, 3], [2.0, 1.0, 4.0], within=2) == 0
    assert regret([1, 2], [INF, 1.0]) == INF
    assert regret([1, 2], [INF, INF]) == 0


def test_best_share() -> None:
    times = [4.0, INF, 2.0, 3.0, 1.0]
    assert [best_share(times, 1.0, after) for after in (1, 2, 3, 4, 5)] == [0.25, 0.25, 0.5, 0.5, 1.0]
    assert best_share([INF], 1.0, 1) == 0
    assert best_share([], 1.0, 3) == 0


def test_the_average_peak_counts_how_early_the_best_is_reached() -> None:
    times = [1.0, 2.0, 4.0, INF]
    assert average_peak([1, 2, 3, 4], times) == 1
    assert average_peak([4, 3, 2, 1], times) == pytest.approx((0 + 1 / 4 + 1 / 2 + 1) / 4)
    assert average_peak([4, 3, 2, 1], times, within=2) == pytest.approx((0 + 1 / 4) / 2)
    assert average_peak([1, 2], [INF, INF]) == average_peak([], []) == 0
