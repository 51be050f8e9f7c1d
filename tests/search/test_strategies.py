"""Every strategy keeps the contract."""

from __future__ import annotations

import pytest
from contracts.spaces import ToySpace
from contracts.strategy import StrategyContract
from tilesmith.common.errors import ArgumentError
from tilesmith.tuner.search.strategy import make_strategy


class TestRandom(StrategyContract):
    name = "random"


class TestGrid(StrategyContract):
    name = "grid"


class TestEvolution(StrategyContract):
    name = "evolution"


class TestAnnealing(StrategyContract):
    name = "annealing"


def test_an_unknown_strategy_is_refused() -> None:
    with pytest.raises(ArgumentError, match="unknown strategy") as caught:
        make_strategy("gradient", ToySpace())
    assert "guided" in str(caught.value)
