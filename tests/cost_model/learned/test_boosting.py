"""Trees that go on growing."""

import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from tilesmith.cost_model.learned.boosting import XGBoost, import_slowly
from tilesmith.tuner.effort import LEARNING


def drawn(rows: int = 300) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    features = rng.random((rows, 12)).astype(np.float32)
    features[::7, 3] = np.nan  # parameters that an arm does not have
    return features, features[:, 0] * 3 + features[:, 1] ** 2 + rng.normal(size=rows) * 0.4


def test_more_trees_for_what_is_new_leave_the_old_ones_as_they_are() -> None:
    features, target = drawn()
    model = XGBoost(LEARNING, 5).fit(features[:100], target[:100])
    model.trees = 20  # as if no more had been of use
    before = model.predict(features)
    model.fit_more(features[:200], target[:200], (features[200:], target[200:], None))
    assert 20 < model.trees <= 20 + LEARNING.more
    np.testing.assert_array_equal(model.booster.inplace_predict(features, iteration_range=(0, 20)), before)
    held = slice(200, 300)
    assert np.mean((model.predict(features)[held] - target[held]) ** 2) < np.mean((before[held] - target[held]) ** 2)


def test_nothing_to_predict_is_no_error() -> None:
    features, target = drawn()
    assert XGBoost(LEARNING, 0).fit(features, target).predict(features[:0]).shape == (0,)


def test_others_have_their_turn_while_a_package_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in (("__init__", "from . import one, two"), ("one", ""), ("two", ""), ("of_a_turn", "")):
        (tmp_path / "slow_package").mkdir(exist_ok=True)
        (tmp_path / "slow_package" / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    finders, turns = list(sys.meta_path), list[str]()

    def turn() -> None:
        turns.append("turn")
        import_module("slow_package.of_a_turn" if len(turns) > 1 else "json")  # which gives no turn of its own

    import_slowly("slow_package", turn, 0.0)
    assert len(turns) == 3, "before the package, and before each of its modules"
    assert sys.meta_path == finders
    assert {"slow_package.one", "slow_package.two", "slow_package.of_a_turn"} <= set(sys.modules)
