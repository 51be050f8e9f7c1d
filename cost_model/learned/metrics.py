"""How good a ranking of candidates is. Predicted and measured values are times: less is better.

Failed candidates (measured infinity) count as slower than all others, and tie with each other.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def _finite(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Infinity as twice the largest finite value: it ranks last and can be calculated with."""
    finite = values[np.isfinite(values)]
    return np.where(np.isfinite(values), values, 2.0 * finite.max() if len(finite) else 1.0)


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks from 0, equal values sharing their mean rank."""
    order = np.argsort(values, kind="stable")
    _, first, inverse, counts = np.unique(values[order], return_index=True, return_inverse=True, return_counts=True)
    out = np.empty(len(values))
    out[order] = (first + (counts - 1) / 2)[inverse]
    return out


def rank_correlation(predicted: ArrayLike, measured: ArrayLike) -> float:
    """Spearman's rho in -1 .. 1; 0 where either side has no order at all (fewer than two different values)."""
    a = _ranks(_finite(np.asarray(predicted, dtype=np.float64)))
    b = _ranks(_finite(np.asarray(measured, dtype=np.float64)))
    if len(a) < 2 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return 0.0
    return float(np.corrcoef(a, b)[0, 1])


def recall_of_best(predicted: ArrayLike, measured: ArrayLike, top: int, within: int) -> float:
    """The share, 0 .. 1, of the `top` candidates by measurement that are among the first `within` by prediction."""
    by_prediction = np.argsort(np.asarray(predicted, dtype=np.float64), kind="stable")[:within]
    by_measurement = np.argsort(np.asarray(measured, dtype=np.float64), kind="stable")[:top]
    return len(np.intersect1d(by_prediction, by_measurement)) / max(min(top, len(by_measurement)), 1)


def regret(predicted: ArrayLike, measured: ArrayLike, within: int = 1) -> float:
    """Says how much slower than the best of all the best of the first `within` by prediction is: 0 is perfect, 0.1 is 10%.

    Infinity when all of them failed and any other did not.
    """
    times = np.asarray(measured, dtype=np.float64)
    chosen = np.argsort(np.asarray(predicted, dtype=np.float64), kind="stable")[:within]
    best = float(times.min())
    return float(times[chosen].min() / best - 1.0) if np.isfinite(best) else 0.0


def average_peak(predicted: ArrayLike, measured: ArrayLike, within: int = 32) -> float:
    """a-peak@k, 0 .. 1: the mean over j = 1 .. k of the speed of the best of the first j by prediction over that of the best.

    1: the best one is predicted to be the best. What is reached early counts more often.
    """
    times = np.asarray(measured, dtype=np.float64)
    best = float(times.min()) if len(times) else np.inf
    if not np.isfinite(best):
        return 0.0
    order = np.argsort(np.asarray(predicted, dtype=np.float64), kind="stable")[:within]
    return float((best / np.minimum.accumulate(times[order])).mean())


def best_share(seconds_in_order: ArrayLike, best_known: float, after: int) -> float:
    """The speed of the best of the first `after` trials as a share of the best known speed (1 is as good)."""
    times = np.asarray(seconds_in_order, dtype=np.float64)[:after]
    return float(best_known / times.min()) if len(times) else 0.0
