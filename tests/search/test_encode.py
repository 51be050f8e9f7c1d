"""Raw parameters as numbers: what a model can tell apart, and what it sees as alike."""

from __future__ import annotations

import numpy as np
import pytest

from tilesmith.schedules.space import Arm, Parameter, Population, Space
from tilesmith.tuner.search.encode import Encoding


class OneArm:
    """A space of these parameters in which everything is valid."""

    def __init__(self, *parameters: Parameter) -> None:
        self.arms = (Arm("arm", "arm", parameters),)

    def valid(self, population: Population) -> np.ndarray:
        return np.ones(len(population), dtype=np.bool_)

    def prior(self, population: Population) -> None:
        return None

    def features(self, population: Population) -> np.ndarray:
        return population.choices.astype(np.float32)


def points(*values: int | str, ordered: bool = True) -> np.ndarray:
    space: Space = OneArm(Parameter("p", values, default=0, ordered=ordered))
    rows = np.arange(len(values), dtype=np.int32)[:, None]
    return Encoding(space, paired=4).points(Population(0, rows))


def test_powers_of_two_are_alike_in_their_odd_divisor_and_others_are_not() -> None:
    table = points(16, 32, 48, 64, 80, 96)
    assert table.shape == (6, 2)
    assert table[:, 1] == pytest.approx(np.log([1, 1, 3, 1, 5, 3]) / np.log(5))
    assert np.all(np.diff(table[:, 0]) > 0)


@pytest.mark.parametrize("values", [(16, 32, 64), (1, 3, 5), (0, 1, 2), (0, 1)])
def test_an_odd_divisor_that_tells_nothing_new_is_no_column(values: tuple[int, ...]) -> None:
    assert points(*values).shape == (len(values), 1)


def test_an_option_has_a_column_for_each_value() -> None:
    assert points("a", "b", "c", ordered=False) == pytest.approx(np.eye(3))
