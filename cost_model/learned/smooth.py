"""A Gaussian process for the first few trials, where trees have too little to split: near what is known it corrects, far from
it the prior stands.

Unlike `gaussian.py`, whose inputs are a few raw parameters that matter each in its own way, this one sees all features of a
candidate, many more than there are samples: one length scale for all, and that and the noise are the best of a small grid by
likelihood (Rasmussen and Williams, "Gaussian Processes for Machine Learning", chapter 5).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .gaussian import JITTER, Matrix, Vector, forward, kernel

Features = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Smoothing:
    """The grid. The defaults stand in tuner/effort.py."""

    alone: int  # samples up to which it is asked alone
    rows: int  # and up to which together with trees
    # Inverse length scales, of features with a deviation of 1, divided by the root of their number.
    scales: tuple[float, ...]
    noises: tuple[float, ...]  # shares of noise in the variance
    clip: float  # deviations from the mean at most: one odd feature must not make a candidate unlike all others


class SmoothResidual:
    """Learns float64[n] at float32[n, f] features, and tells float64[m] means and deviations elsewhere."""

    def __init__(self, smoothing: Smoothing) -> None:
        self._smoothing = smoothing

    def fit(self, features: Features, values: Vector) -> SmoothResidual:
        """All at once; cheap up to a few hundred rows."""
        plain = np.nan_to_num(features).astype(np.float64)
        self._centre, deviation = plain.mean(axis=0), plain.std(axis=0)
        self._weights = np.where(deviation > 1e-9, 1.0 / np.maximum(deviation, 1e-9), 0.0)
        self._points = self._placed(features)
        self._mean = float(np.median(values))
        residual = values - self._mean
        fits = []
        for scale in self._smoothing.scales:
            alike = self._kernel(self._points, self._points, scale)
            fits += [(*self._fitted(residual, alike, noise), scale) for noise in self._smoothing.noises]
        _, self._factor, self._whitened, self._unit, self._scale = min(fits, key=lambda one: one[0])
        return self

    def _placed(self, features: Features) -> Matrix:
        unit = (np.nan_to_num(features) - self._centre) * self._weights
        clip, count = self._smoothing.clip, max(int((self._weights > 0).sum()), 1)
        return np.asarray(np.clip(unit, -clip, clip) / np.sqrt(count), dtype=np.float64)

    @staticmethod
    def _fitted(residual: Vector, alike: Matrix, noise: float) -> tuple[float, Matrix, Vector, float]:
        """(loss, factor of the covariance, what it makes of the residual, deviation where nothing is known)."""
        covariance = alike + (noise + JITTER) * np.eye(len(residual))
        factor = np.asarray(np.linalg.cholesky(covariance), dtype=np.float64)
        whitened = forward(factor, residual)
        unit = float(whitened @ whitened) / len(residual) + JITTER
        loss = 0.5 * len(residual) * np.log(unit) + float(np.log(np.diag(factor)).sum())
        return loss, factor, whitened, float(np.sqrt(unit))

    @staticmethod
    def _kernel(a: Matrix, b: Matrix, scale: float) -> Matrix:
        return kernel(a, b, np.full(a.shape[1], scale))

    def predict(self, features: Features) -> tuple[Vector, Vector]:
        """(means, standard deviations without noise)."""
        cross = self._kernel(self._points, self._placed(features), self._scale)
        projected = forward(self._factor, cross)
        left = np.maximum(1.0 - np.einsum("ij,ij->j", projected, projected), 0.0)
        return self._mean + projected.T @ self._whitened, self._unit * np.sqrt(left)
