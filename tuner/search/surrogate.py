"""Search on raw parameters, for spaces of which nothing is known beforehand: Bayesian optimisation in batches.

A first batch that fills the space, half of it with powers of two for sizes; then two models of different kinds, a Gaussian
process (smooth, good with few samples) and a random forest (steps and interactions), are averaged, and expected improvement
chooses (Jones, Schonlau, Welch, "Efficient global optimization of expensive black-box functions", 1998). The process'
hyperparameters are drawn, not fitted, and each choice of a batch follows another draw. Part of each batch are the most
promising neighbours of the leaders. Times enter by their logarithm: kernels of one space differ by factors of 100, and a
leader that is well in front is worth more than its rank says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from ...cost_model.learned.gaussian import GaussianProcess, Posterior
from ...schedules.space import Candidate, Population, Space
from ...schedules.space_ops import (
    concatenate,
    enumerate_configs,
    group,
    mutate,
    neighbours,
    sample,
    shares,
    take,
    unique,
)
from ..effort import NORMAL, Effort
from .encode import Encoding
from .random import shuffled
from .strategy import History, Result

Vector = NDArray[np.float64]


class Surrogate:
    """Plans a batch at a time; see the top of this file for how, and `effort.Surrogates` for the numbers."""

    def __init__(self, space: Space, seed: int = 0, effort: Effort = NORMAL) -> None:
        self._space = space
        self._settings = effort.surrogates
        self._rng = np.random.default_rng(seed)
        self._history = History(space)
        self._stream = shuffled(space, self._rng, self._history.seen, effort.portions)
        self._encoding = Encoding(space, self._settings.paired)
        self._process = GaussianProcess(self._encoding.dimensions, effort.smoothness, seed)
        self._plan: Iterator[Candidate] = iter(())
        self._everything: list[Population] | None = None  # of a space that is small enough

    def ask(self, count: int) -> list[Candidate]:
        """Takes from the plan; from the random stream when the models have nothing left to choose from."""
        out = self._history.propose(self._plan, count)
        while len(out) < count:
            with threadpool_limits(1):  # the cores belong to the kernels; and sums in a fixed order give fixed results
                self._plan = iter(self._make_plan())
            more = self._history.propose(self._plan, count - len(out))
            if not more:
                return out + self._history.propose(self._stream, count - len(out))
            out += more
        return out

    def tell(self, results: Sequence[Result]) -> None:
        """Trains on the results at the next plan."""
        self._history.tell(results)

    def _make_plan(self) -> list[Candidate]:
        settings = self._settings
        pools = self._pools()
        if not pools:
            return []
        if len(self._history.results) < settings.first // 2 or not self._history.leaders(1):
            return self._filling(pools, settings.first)
        size = max(settings.batch, len(self._history.results) // settings.growth)
        local = max(size * settings.near // settings.batch, 1)
        leaders = [c for c, _ in self._history.leaders(settings.leaders)]
        near = self._fresh([neighbours(self._space, c) for c in leaders])
        return self._choose(pools, near, size - local, local)

    def _pools(self) -> list[Population]:
        """Returns what the models choose from: all that is new, or a sample and the leaders' descendants where that is too
        much."""
        settings, limit = self._settings, self._settings.pool
        if sum(a.size for a in self._space.config_spaces) <= settings.counted * limit:
            if self._everything is None:
                sketches = range(len(self._space.config_spaces))
                self._everything = [concatenate(list(enumerate_configs(self._space, sketch))) for sketch in sketches]
            whole = self._fresh(self._everything)
            if sum(len(p) for p in whole) <= limit:
                return whole
        drawn = [
            sample(self._space, self._rng, sketch, n) for sketch, n in enumerate(shares(self._space, limit // 2)) if n
        ]
        for _, parents in group(self._space, [c for c, _ in self._history.leaders(settings.parents)]):
            chosen = take(parents, self._rng.integers(len(parents), size=limit // 2))
            children = unique(self._space, mutate(self._space, self._rng, chosen, genes=settings.genes))
            drawn.append(take(children, self._space.valid(children)))
        return self._fresh(drawn)

    def _fresh(self, populations: Sequence[Population]) -> list[Population]:
        """Leaves out what was proposed: one population for each sketch, each candidate once."""
        sketches = sorted({p.sketch for p in populations})
        joined = [
            unique(self._space, concatenate([p for p in populations if p.sketch == sketch])) for sketch in sketches
        ]
        fresh = [take(p, self._history.seen.missing(p)) for p in joined]
        return [p for p in fresh if len(p)]

    def _filling(self, pools: list[Population], count: int) -> list[Candidate]:
        """Candidates far from each other: from a random first on, always the one farthest from all taken so far; some of them
        among those of plain sizes, which fit what hardware offers."""
        part = max(self._settings.filling // len(pools), 1)
        drawn = [take(p, self._rng.permutation(len(p))[:part]) for p in pools]
        points = np.concatenate([self._encoding.points(p) for p in drawn])
        plain = np.concatenate([self._encoding.plain(p) for p in drawn])
        taken: list[int] = []
        nearest = np.full(len(points), np.inf)
        while len(taken) < min(count, len(points)):
            among = np.where(plain, nearest, -1.0) if len(taken) < count * self._settings.plain else nearest
            taken.append(int((among if among.max() > 0 else nearest).argmax()))
            nearest = np.minimum(nearest, ((points - points[taken[-1]]) ** 2).sum(axis=1))
            nearest[taken] = -1.0
        return [_candidate(drawn, row) for row in taken]

    def _choose(self, pools: list[Population], near: list[Population], wide: int, local: int) -> list[Candidate]:
        """`wide` candidates by expected improvement from the pools, then the `local` best by mean among `near`."""
        settings, trained = self._settings, self._training()
        parts = group(self._space, [c for c, _ in trained])
        order = np.concatenate([rows for rows, _ in parts])
        values = logarithms(np.array([m.seconds for _, m in trained]), settings.failed)[order]
        everyone = [*pools, *near]
        mean, spread = self._forest(self._features([p for _, p in parts]), values, self._features(everyone))

        split = sum(len(p) for p in pools)
        less = settings.fewer if len(trained) >= settings.many else 1
        listed = np.argsort((mean - spread)[:split], kind="stable")[: settings.shortlist // less]
        rows = np.concatenate([listed, np.arange(split, len(mean))])
        process = self._process.fit(self._points([p for _, p in parts]), values, settings.steps // less)
        draws = settings.full if len(trained) >= settings.many else None
        posteriors = process.at(self._points(everyone)[rows], draws)
        centre = np.mean([p.mean for p in posteriors], axis=0) + mean[rows]
        chosen = _improving(posteriors, mean[rows], spread[rows], float(values.min()), wide, len(listed))
        close = len(listed) + np.argsort(centre[len(listed) :], kind="stable")
        # Neighbours are in the pool too: a plan that names one twice is short, and what fills it up is planned without results.
        named = dict.fromkeys(_candidate(everyone, int(rows[i])) for i in (*chosen, *close))
        return list(named)[: wide + local]

    def _points(self, populations: Sequence[Population]) -> Vector:
        return np.concatenate([self._encoding.points(p) for p in populations])

    def _features(self, populations: Sequence[Population]) -> NDArray[np.float32]:
        return np.concatenate([self._encoding.features(p) for p in populations])

    def _forest(self, known: NDArray[np.float32], values: Vector, new: NDArray[np.float32]) -> tuple[Vector, Vector]:
        """Mean and spread over the trees of a random forest (Breiman, 2001).

        The trees themselves: scikit-learn's own forest copies and checks each of them with more work than growing it takes.
        """
        from sklearn import config_context
        from sklearn.tree import DecisionTreeRegressor

        each, count = [], len(values)
        with config_context(skip_parameter_validation=True):
            for seed in self._rng.integers(1 << 30, size=self._settings.trees):
                drawn = self._rng.integers(count, size=count)
                tree = DecisionTreeRegressor(max_features=self._settings.columns, random_state=int(seed))
                tree.fit(known[drawn], values[drawn], check_input=False)
                each.append(tree.tree_.predict(new)[:, 0])
        return np.mean(each, axis=0), np.std(each, axis=0)

    def _training(self) -> list[Result]:
        """Chooses at most `rows` results: the best half and the newest half; cost stays bounded."""
        results, limit = self._history.results, self._settings.rows
        if len(results) <= limit:
            return results
        newest = results[-limit // 2 :]
        older = sorted(results[: -limit // 2], key=lambda r: r[1].seconds)
        return older[: limit // 2] + newest


def logarithms(seconds: Vector, failed: float) -> Vector:
    """float64[n]: of the times; failures count as `failed` times the slowest."""
    finite = np.isfinite(seconds)
    worst = seconds[finite].max() * failed if finite.any() else 1.0
    return np.asarray(np.log(np.where(finite, seconds, worst)))


def _improving(
    posteriors: Sequence[Posterior], mean: Vector, spread: Vector, best: float, count: int, among: int
) -> list[int]:
    """Rows below `among`, one after the other the largest expected improvement, given that those before are known.

    Each is chosen by the forest's `mean` and `spread` and one of the posteriors, which take turns: a batch tries what follows
    from different beliefs about what matters, not what is good on average over them.
    """
    from scipy.special import ndtr

    before = [posterior.left for posterior in posteriors]
    rows: list[int] = []
    while len(rows) < min(count, among):
        turn = len(rows) % len(posteriors)
        posterior = posteriors[turn]
        left = posterior.left / before[turn]
        variance = (posterior.deviation**2 + left * spread**2) / 2 + left * ((posterior.mean - mean) / 2) ** 2
        deviation = np.sqrt(variance)
        z = (best - (posterior.mean + mean) / 2) / deviation
        gain = deviation * (z * ndtr(z) + np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi))
        gain[rows] = -1.0
        rows.append(int(gain[:among].argmax()))
        for each in posteriors:
            each.assume(rows[-1])
    return rows


def _candidate(populations: Sequence[Population], row: int) -> Candidate:
    for population in populations:
        if row < len(population):
            return population.candidate(row)
        row -= len(population)
    raise IndexError(row)
