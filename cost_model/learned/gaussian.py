"""Gaussian-process regression on points in a unit cube: few samples, smooth functions, honest uncertainty.

Matern kernel (5/2) with a length scale for each input, after Rasmussen and Williams, "Gaussian Processes for Machine
Learning", chapters 2 and 5. Few samples leave open which inputs matter, and the likeliest scales hide that: so several draws
of scales and noise from their posterior are kept, as in Snoek, Larochelle, Adams, "Practical Bayesian optimization of machine
learning algorithms", 2012. Each draw is the end of a Metropolis walk that goes on where it stood, as data arrives in small
portions and the posterior moves little.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import cast

import numpy as np
from numpy.typing import NDArray

from ...common.blas import ONE_THREAD

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]

JITTER = 1e-9  # what keeps a matrix of doubles positive definite


@dataclass(frozen=True, slots=True)
class Smoothness:
    """Holds what a process expects of its hyperparameters, and how it looks for them. The defaults stand in tuner/effort.py."""

    noise: float  # expected logarithm of the share of noise in the variance, and its width
    noise_width: float
    scale_width: float  # of the logarithms of the inverse length scales
    jump: float  # first width of the random walk over all these logarithms
    moving: float  # share of them that a step moves
    wider: float  # factor of the width after a step that was taken
    narrower: float  # and after any other
    least: float  # width
    most: float  # the same: where little is known any step is taken
    draws: int  # of the hyperparameters


def kernel(a: Matrix, b: Matrix, inverse_scales: Vector) -> Matrix:
    """float64[n, m]: the correlation of a's rows (float64[n, d]) with b's."""
    a, b = a * inverse_scales, b * inverse_scales
    distance = a @ (-2.0 * b.T)
    distance += (a * a).sum(axis=1)[:, None]
    distance += (b * b).sum(axis=1)
    np.maximum(distance, 0.0, out=distance)
    distance *= 5.0
    np.sqrt(distance, out=distance)
    out = np.exp(-distance)
    distance *= 1.0 + distance / 3.0
    distance += 1.0
    out *= distance
    return np.asarray(out)


def forward(lower: NDArray[np.floating], right: NDArray[np.floating]) -> NDArray[np.float64]:
    """Solves lower @ x = right, float64[n, n] and float64[n] or float64[n, m]."""
    solved: NDArray[np.float64] = _triangular()(lower, right, lower=True, check_finite=False)
    return solved


@cache
def _triangular() -> Callable[..., NDArray[np.float64]]:
    from scipy.linalg import solve_triangular

    ONE_THREAD.loaded()
    return cast(Callable[..., NDArray[np.float64]], solve_triangular)


@dataclass(slots=True)
class Draw:
    """One set of hyperparameters, and what follows from it and the samples."""

    theta: Vector  # logarithms of the inverse scales, and of the noise's share of the variance
    width: float  # of the next step of its walk
    factor: NDArray[np.floating]  # Cholesky factor of the samples' covariance
    whitened: Vector


class GaussianProcess:
    """Learns a function of d inputs; keeps its hyperparameters from fit to fit.

    Args:
        dimensions: number of inputs, each between 0 and 1.
        expected: of the hyperparameters.
        seed: of the walks over them.
    """

    def __init__(self, dimensions: int, expected: Smoothness, seed: int = 0) -> None:
        self._rng = np.random.default_rng(seed)
        self._expected = expected
        start, nothing = np.append(np.zeros(dimensions), expected.noise), np.zeros(0)
        self._draws = [Draw(start, expected.jump, nothing[:, None], nothing) for _ in range(expected.draws)]

    def fit(self, points: Matrix, values: Vector, steps: int) -> GaussianProcess:
        """Learns float64[n] values at float64[n, d] points; the hyperparameters walk on by `steps`."""
        self._points = points
        self._mean, self._deviation = float(values.mean()), float(values.std()) or 1.0
        scaled = (values - self._mean) / self._deviation
        for draw in self._draws:
            self._walk(draw, scaled, steps)
            draw.factor = np.linalg.cholesky(self._covariance(draw.theta))
            draw.whitened = forward(draw.factor, scaled)
        return self

    def at(self, points: Matrix, draws: int | None = None) -> list[Posterior]:
        """Returns what it thinks of these points, float64[m, d]: once by each of the first `draws`, by default all."""
        return [self._posterior(draw, points) for draw in self._draws[:draws]]

    def _posterior(self, draw: Draw, points: Matrix) -> Posterior:
        scales, noise = np.exp(draw.theta[:-1]), float(np.exp(draw.theta[-1]))
        projected = forward(draw.factor, kernel(self._points, points, scales))
        mean = self._mean + self._deviation * (projected.T @ draw.whitened)
        left = np.maximum(1.0 - np.einsum("ij,ij->j", projected, projected), JITTER)
        unit = self._deviation * float(np.sqrt(draw.whitened @ draw.whitened / len(draw.whitened)))
        return Posterior(points, scales, noise, unit, mean, left, [projected])

    def _covariance(self, theta: Vector) -> Matrix:
        covariance = kernel(self._points, self._points, np.exp(theta[:-1]))
        covariance[np.diag_indices(len(covariance))] += float(np.exp(theta[-1])) + JITTER
        return covariance

    def _loss(self, scaled: Vector, theta: Vector) -> float:
        """Negative log posterior, the overall variance eliminated; the prior expects scales near 1 and little noise."""
        try:
            factor = np.linalg.cholesky(self._covariance(theta))
        except np.linalg.LinAlgError:
            return np.inf
        whitened = forward(factor, scaled)
        fit = 0.5 * len(scaled) * np.log(whitened @ whitened / len(scaled) + JITTER) + np.log(np.diag(factor)).sum()
        expected = self._expected
        noise = (theta[-1] - expected.noise) / expected.noise_width
        return float(fit + 0.5 * np.sum((theta[:-1] / expected.scale_width) ** 2) + 0.5 * noise**2)

    def _walk(self, draw: Draw, scaled: Vector, steps: int) -> None:
        expected, rng = self._expected, self._rng
        loss = self._loss(scaled, draw.theta)
        for _ in range(steps):
            moving = rng.random(len(draw.theta)) < expected.moving
            moved = draw.theta + draw.width * rng.normal(size=len(draw.theta)) * moving
            after = self._loss(scaled, moved)
            if -rng.exponential() < loss - after:  # always to a better place, to a worse one with the odds between them
                draw.theta, loss = moved, after
                draw.width = min(draw.width * expected.wider, expected.most)
            else:
                draw.width = max(draw.width * expected.narrower, expected.least)


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
