"""What every regressor behind the learned model promises. A test class derives from this and says which one it means."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tilesmith.cost_model.learned.metrics import rank_correlation
from tilesmith.cost_model.learned.model import LearnedModel, Regressor, Samples
from tilesmith.tuner.effort import LEARNING


def made_up(count: int, seed: int) -> Samples:
    """The prior times a smooth correction; a fifth of the space fails."""
    rng = np.random.default_rng(seed)
    features = rng.random((count, 10)).astype(np.float32)
    prior = 1e-3 * np.exp(2 * features[:, 0].astype(np.float64))
    seconds = prior * np.exp(np.sin(5 * features[:, 1]) + features[:, 2])
    seconds[features[:, 4] > 0.8] = np.inf
    return Samples(features, prior, seconds, np.arange(count) // 8, np.zeros(count, dtype=np.int64))


class CostModelContract:
    """Derive and give `make`."""

    def make(self, seed: int) -> Regressor:
        raise NotImplementedError

    def model(self) -> LearnedModel:
        return LearnedModel(replace(LEARNING, members=2, rows=256), lambda _, seed: self.make(seed))

    def test_it_ranks_better_than_the_prior_alone(self) -> None:
        model, new = self.model(), made_up(400, seed=1)
        model.fit(made_up(160, seed=0))
        ok = np.isfinite(new.seconds)
        predicted = model.predict(new.features[ok], new.prior[ok])
        better = rank_correlation(predicted.seconds, new.seconds[ok])
        assert better > 0.85 and better > rank_correlation(new.prior[ok], new.seconds[ok])

    def test_answers_are_finite_and_probabilities_are_some(self) -> None:
        model, new = self.model(), made_up(50, seed=1)
        model.fit(made_up(160, seed=0))
        for prior in (new.prior, None):
            said = model.predict(new.features, prior)
            assert said.seconds.shape == said.spread.shape == said.success.shape == (50,)
            assert np.isfinite(said.seconds).all() and (said.seconds > 0).all() and (said.spread >= 0).all()
            assert ((said.success >= 0) & (said.success <= 1)).all()

    def test_it_learns_anew_each_time(self) -> None:
        model, fresh, new = self.model(), self.model(), made_up(50, seed=2)
        model.fit(made_up(8, seed=3))
        model.fit(made_up(8, seed=3).rows(np.zeros(0, dtype=np.intp)))
        assert not model.ready and not fresh.ready
        assert np.array_equal(model.predict(new.features, new.prior).seconds, new.prior)

    def test_one_good_trial_is_enough(self) -> None:
        model, one = self.model(), made_up(40, seed=0)
        first = np.flatnonzero(np.isfinite(one.seconds))[:1]
        model.fit(one.rows(first))
        assert model.ready and np.isfinite(model.predict(one.features, one.prior).seconds).all()
