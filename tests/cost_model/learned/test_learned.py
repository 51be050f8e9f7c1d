"""The learned model: corrects the prior, knows what fails, stays cheap as data grows."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

from tilesmith.cost_model.learned.boosting import Learning, XGBoost
from tilesmith.cost_model.learned.metrics import rank_correlation
from tilesmith.cost_model.learned.model import LearnedModel, Regressor, Samples
from tilesmith.tuner.effort import LEARNING


def samples(count: int, seed: int = 0, *, prior: bool = True, tasks: int = 1) -> Samples:
    """Truth: the prior times a smooth correction; a fifth of the space fails; tasks differ in scale alone."""
    rng = np.random.default_rng(seed)
    features = rng.random((count, 12)).astype(np.float32)
    task = rng.integers(0, tasks, count)
    guess = 1e-3 * np.exp(2 * features[:, 0].astype(np.float64)) * 10.0**task
    seconds = guess * np.exp(np.sin(5 * features[:, 1]) + features[:, 2] * features[:, 3])
    seconds[features[:, 4] > 0.8] = np.inf
    return Samples(features, guess if prior else np.full(count, np.nan), seconds, np.arange(count) // 8, task)


def forest(_: Learning, seed: int) -> Regressor:
    from sklearn.ensemble import RandomForestRegressor

    return RandomForestRegressor(30, random_state=seed)


@pytest.mark.parametrize("make", [XGBoost, forest])
@pytest.mark.parametrize("prior", [True, False])
def test_it_ranks_what_it_has_not_seen(make: type[XGBoost], prior: bool) -> None:
    model = LearnedModel(LEARNING, make)
    model.fit(samples(200, prior=prior))
    new = samples(2000, seed=1)
    ok = np.isfinite(new.seconds)
    predicted = model.predict(new.features[ok], new.prior[ok] if prior else None).seconds
    assert rank_correlation(predicted, new.seconds[ok]) > 0.9
    if prior:
        assert rank_correlation(predicted, new.seconds[ok]) > rank_correlation(new.prior[ok], new.seconds[ok]) + 0.05
        assert np.median(np.abs(np.log(predicted / new.seconds[ok]))) < 0.15


def test_failures_are_learned_from() -> None:
    model = LearnedModel(LEARNING)
    model.fit(samples(200))
    new = samples(2000, seed=1)
    success = model.predict(new.features, new.prior).success
    assert success[np.isfinite(new.seconds)].mean() > 0.8
    assert success[np.isinf(new.seconds)].mean() < 0.4


def test_without_data_the_prior_stands() -> None:
    new = samples(10)
    model = LearnedModel(LEARNING)
    assert not model.ready
    assert np.array_equal(model.predict(new.features, new.prior).seconds, new.prior)
    model.fit(samples(20).rows(np.isinf(samples(20).seconds)))  # failures alone
    assert not model.ready
    assert np.isfinite(model.predict(new.features, new.prior).seconds).all()


def test_tasks_of_different_scale_are_pooled() -> None:
    model = LearnedModel(LEARNING)
    model.fit(samples(300, prior=False, tasks=3))
    new = samples(500, seed=1)
    ok = np.isfinite(new.seconds)
    assert rank_correlation(model.predict(new.features[ok]).seconds, new.seconds[ok]) > 0.8


def test_the_spread_tells_where_the_model_is_wrong() -> None:
    model = LearnedModel(LEARNING)
    model.fit(samples(300))
    new = samples(2000, seed=1)
    new = new.rows(np.isfinite(new.seconds))
    predicted = model.predict(new.features, new.prior)
    assert rank_correlation(predicted.spread, np.abs(np.log(predicted.seconds / new.seconds))) > 0.1


def test_the_seed_decides_everything() -> None:
    new = samples(100, seed=1)
    predictions = []
    for seed in (3, 3, 4):
        model = LearnedModel(LEARNING, seed=seed)
        model.fit(samples(150))
        predictions.append(model.predict(new.features, new.prior).seconds)
    assert np.array_equal(predictions[0], predictions[1])
    assert not np.array_equal(predictions[0], predictions[2])


def test_cost_is_bounded_as_data_grows() -> None:
    """Counts rows, not seconds: whatever the machine does meanwhile."""
    rows: list[int] = []

    class Counting(XGBoost):
        def _grow(
            self, features: np.ndarray, target: np.ndarray, held: object, weight: object, most: int, before: object
        ) -> XGBoost:
            rows.append(len(target))
            return super()._grow(features, target, None, None, most, before)

    model = LearnedModel(replace(LEARNING, rows=300, members=1), Counting)
    many = samples(5000)
    model.fit(many)
    assert rows[-1] <= 300
    best = np.argsort(many.seconds)[:50]
    predicted = model.predict(many.features[best], many.prior[best]).seconds
    assert np.median(np.abs(np.log(predicted / many.seconds[best]))) < 0.2  # the best are among the rows it kept


def test_fitting_and_predicting_are_fast() -> None:
    """Generous bounds (processor time of this process): 30 and 200 ms were measured on an idle Zen 4 core."""
    data, new = samples(200), samples(100_000, seed=1)
    model = XGBoost(LEARNING, 0)
    model.fit(data.features, np.ones(200))
    start = time.process_time()
    model.fit(data.features, np.log(data.prior))
    fitted = time.process_time()
    model.predict(new.features)
    assert fitted - start < 0.3
    assert time.process_time() - fitted < 1.0


def test_other_tasks_rank_but_their_bias_does_not_count() -> None:
    """Two other tasks are predicted 10 and 100 times too fast: that says nothing of the task that is searched."""
    other, new = samples(400), samples(2000, seed=1)
    biased = Samples(
        other.features, other.prior, other.seconds * np.where(np.arange(400) < 200, 10.0, 100.0), other.batch,
        np.where(np.arange(400) < 200, 1, 2),
    )  # fmt: skip
    own = samples(16, seed=2)
    model = LearnedModel(LEARNING)
    model.fit(Samples.joined([biased, own]))
    ok = np.isfinite(new.seconds)
    predicted = model.predict(new.features[ok], new.prior[ok]).seconds
    assert rank_correlation(predicted, new.seconds[ok]) > 0.9
    assert np.median(np.abs(np.log(predicted / new.seconds[ok]))) < 0.4
    alone = LearnedModel(LEARNING)
    alone.fit(own)
    few = alone.predict(new.features[ok], new.prior[ok]).seconds
    assert rank_correlation(predicted, new.seconds[ok]) > rank_correlation(few, new.seconds[ok])


def test_many_samples_of_another_task_do_not_drown_a_few_of_its_own() -> None:
    """600 trials of a task where one input works the other way, then 40 of the task itself."""
    other, own, new = samples(600), samples(40, seed=2), samples(2000, seed=1)
    turned = other.prior * np.exp(-np.sin(5 * other.features[:, 1]))
    misled = Samples(other.features, other.prior, turned, other.batch, np.ones(600, dtype=np.int64))
    errors = []
    for crowd in (LEARNING.crowd, 1e9):
        model = LearnedModel(replace(LEARNING, crowd=crowd))
        model.fit(misled)
        model.fit(Samples.joined([misled, own]))
        ok = np.isfinite(new.seconds)
        predicted = model.predict(new.features[ok], new.prior[ok]).seconds
        errors.append(float(np.median(np.abs(np.log(predicted / new.seconds[ok])))))
    assert errors[0] < 0.8 * errors[1]


def test_trees_are_no_more_than_held_out_batches_ask_for() -> None:
    """Pure noise: what is held out is never predicted better for long."""
    rng = np.random.default_rng(0)
    features, target = rng.random((200, 12)).astype(np.float32), rng.normal(size=200)
    free, watched = XGBoost(LEARNING, 0).fit(features[:150], target[:150]), XGBoost(LEARNING, 0)
    watched.fit_watched(features[:150], target[:150], (features[150:], target[150:], None))
    assert watched.trees < 25 < free.trees == LEARNING.trees


def test_a_model_that_learned_before_learns_more_for_less() -> None:
    """Trees are counted, not seconds; it knows as much in the end."""
    grown: list[int] = []

    class Counting(XGBoost):
        def _grow(
            self, features: np.ndarray, target: np.ndarray, held: object, weight: object, most: int, before: object
        ) -> XGBoost:
            grown.append(most)
            return super()._grow(features, target, held, weight, most, before)  # type: ignore[arg-type]

    new = samples(1000, seed=1)
    ok = np.isfinite(new.seconds)
    known, trees = [], []
    for learning in (LEARNING, replace(LEARNING, anew=0.0)):
        model, data = LearnedModel(learning, Counting), samples(600)
        for count in range(200, 601, 20):
            model.fit(data.rows(np.arange(count)))
        known.append(rank_correlation(model.predict(new.features[ok], new.prior[ok]).seconds, new.seconds[ok]))
        trees.append(sum(grown))
        grown.clear()
    assert known[0] > known[1] - 0.01
    assert trees[0] < trees[1] / 2


def test_four_thousand_records_cost_no_more_to_learn_from_than_a_window_of_them() -> None:
    """Rows times trees that one fit looks at, however many records there are."""
    work: list[int] = []

    class Counting(XGBoost):
        def _grow(
            self, features: np.ndarray, target: np.ndarray, held: object, weight: object, most: int, before: object
        ) -> XGBoost:
            work.append(len(target) * most)
            self.booster, self.trees = [], most
            return self

        def predict(self, features: np.ndarray) -> np.ndarray:
            return np.zeros(len(features), dtype=np.float32)

    model, data = LearnedModel(LEARNING, Counting), samples(4000)
    for count in range(500, 4001, 125):
        model.fit(data.rows(np.arange(count)))
    most = LEARNING.rows * LEARNING.trees
    assert len(work) == LEARNING.members * 29 and max(work) <= most
    assert sum(work) < len(work) * most / 2  # and most fits only add a few trees
