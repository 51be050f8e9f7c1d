"""Gaussian-process regression on points in a unit cube: few samples, smooth functions, honest uncertainty.

Matern kernel (5/2) with a length scale for each input, after Rasmussen and Williams, "Gaussian Processes for Machine
Learning", chapters 2 and 5. Scales and noise maximise the likelihood under a weak prior; the search for them is a random
walk that starts from the last ones, as data arrives in small portions and they move little.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]

JITTER = 1e-9  # what keeps a matrix of doubles positive definite


@dataclass(frozen=True, slots=True)
class Smoothness:
    """What a process expects of its hyperparameters, and how it looks for them. The defaults stand in tuner/effort.py."""

    noise: float  # expected logarithm of the share of noise in the variance, and its width
    noise_width: float
    scale_width: float  # of the logarithms of the inverse length scales
    jump: float  # first width of the random walk over all these logarithms
    moving: float  # share of them that a step moves
    wider: float  # factor of the width after a step to a better place
    narrower: float  # and after any other
    least: float  # width


def kernel(a: Matrix, b: Matrix, inverse_scales: Vector) -> Matrix:
    """float64[n, m]: the correlation of a's rows (float64[n, d]) with b's."""
    a, b = a * inverse_scales, b * inverse_scales
    squares = (a * a).sum(axis=1)[:, None] + (b * b).sum(axis=1) - 2.0 * (a @ b.T)
    distance = np.sqrt(5.0 * np.maximum(squares, 0.0))
    out = np.exp(-distance)
    out *= 1.0 + distance + distance * distance / 3.0
    return np.asarray(out)


def forward(lower: NDArray[np.floating], right: NDArray[np.floating]) -> NDArray[np.float64]:
    """Solves lower @ x = right, float64[n, n] and float64[n] or float64[n, m]."""
    from scipy.linalg import solve_triangular

    solved: NDArray[np.float64] = solve_triangular(lower, right, lower=True, check_finite=False)
    return solved


class GaussianProcess:
    """Learns a function of d inputs; keeps its hyperparameters from fit to fit.

    Args:
        dimensions: number of inputs, each between 0 and 1.
        expected: of the hyperparameters.
        seed: of the random walk over them.
    """

    def __init__(self, dimensions: int, expected: Smoothness, seed: int = 0) -> None:
        self._rng = np.random.default_rng(seed)
        self._expected = expected
        self._theta = np.append(np.zeros(dimensions), expected.noise)  # log inverse scales, log noise variance

    def fit(self, points: Matrix, values: Vector, steps: int) -> GaussianProcess:
        """Learns float64[n] values at float64[n, d] points with `steps` trials for better hyperparameters."""
        self._points = points
        self._mean, self._deviation = float(values.mean()), float(values.std()) or 1.0
        scaled = (values - self._mean) / self._deviation
        self._search(points, scaled, steps)
        self._factor = np.linalg.cholesky(self._covariance(points, self._theta))
        self._whitened = forward(self._factor, scaled)
        self._variance = float(self._whitened @ self._whitened) / len(scaled)
        return self

    def at(self, points: Matrix) -> Posterior:
        """What it thinks of these points, float64[m, d]."""
        scales = np.exp(self._theta[:-1])
        projected = forward(self._factor, kernel(self._points, points, scales))
        mean = projected.T @ self._whitened
        left = np.maximum(1.0 - np.einsum("ij,ij->j", projected, projected), JITTER)
        unit = self._deviation * np.sqrt(self._variance)
        return Posterior(
            points, scales, float(np.exp(self._theta[-1])), unit, self._mean + self._deviation * mean, left, [projected]
        )

    def _covariance(self, points: Matrix, theta: Vector) -> Matrix:
        noise = float(np.exp(theta[-1])) + JITTER
        return np.asarray(kernel(points, points, np.exp(theta[:-1])) + noise * np.eye(len(points)))

    def _loss(self, points: Matrix, scaled: Vector, theta: Vector) -> float:
        """Negative log likelihood, the overall variance eliminated, plus the prior: scales near 1, little noise."""
        try:
            factor = np.linalg.cholesky(self._covariance(points, theta))
        except np.linalg.LinAlgError:
            return np.inf
        whitened = forward(factor, scaled)
        fit = 0.5 * len(scaled) * np.log(whitened @ whitened / len(scaled) + JITTER) + np.log(np.diag(factor)).sum()
        expected = self._expected
        noise = (theta[-1] - expected.noise) / expected.noise_width
        return float(fit + 0.5 * np.sum((theta[:-1] / expected.scale_width) ** 2) + 0.5 * noise**2)

    def _search(self, points: Matrix, scaled: Vector, steps: int) -> None:
        expected = self._expected
        least, width = self._loss(points, scaled, self._theta), expected.jump
        for _ in range(steps):
            moving = self._rng.random(len(self._theta)) < expected.moving
            moved = self._theta + width * self._rng.normal(size=len(self._theta)) * moving
            loss = self._loss(points, scaled, moved)
            better = loss < least
            width = width * expected.wider if better else max(width * expected.narrower, expected.least)
            if better:
                least, self._theta = loss, moved


@dataclass(slots=True)
class Posterior:
    """Mean and uncertainty at m points; `assume` says what a batch already covers."""

    points: Matrix
    scales: Vector
    noise: float
    unit: float  # the values' standard deviation where nothing is known
    mean: Vector  # float64[m]
    left: Vector  # float64[m]: share of the variance that is still open
    _projected: list[Matrix]

    @property
    def deviation(self) -> Vector:
        """float64[m]: standard deviation of the value at each point."""
        return np.asarray(self.unit * np.sqrt(self.left))

    def assume(self, row: int) -> None:
        """Takes the mean at this point for its value ("kriging believer"): its neighbourhood becomes less uncertain."""
        covariance = kernel(self.points[row : row + 1], self.points, self.scales)[0]
        for projected in self._projected:
            covariance = covariance - projected[:, row] @ projected
        update = covariance / np.sqrt(self.left[row] + self.noise)
        self._projected.append(update[None, :])
        self.left = np.maximum(self.left - update * update, JITTER)
