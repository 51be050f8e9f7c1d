"""Every regressor that is offered keeps the contract of cost models."""

from __future__ import annotations

from contracts.cost_model import CostModelContract
from tilesmith.cost_model.learned.boosting import XGBoost
from tilesmith.cost_model.learned.model import Regressor
from tilesmith.tuner.effort import LEARNING


class TestXGBoost(CostModelContract):
    def make(self, seed: int) -> Regressor:
        return XGBoost(LEARNING, seed)


class TestForest(CostModelContract):
    def make(self, seed: int) -> Regressor:
        from sklearn.ensemble import RandomForestRegressor

        return RandomForestRegressor(30, random_state=seed)


class TestRidge(CostModelContract):
    """Not clever, but any regressor will do."""

    def make(self, seed: int) -> Regressor:
        from sklearn.linear_model import Ridge

        return Ridge()
