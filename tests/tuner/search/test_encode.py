"""Raw parameters as numbers: what a model can tell apart, and what it sees as alike."""

from __future__ import annotations

import numpy as np
import pytest

from tilesmith.schedules.space import ConfigSpace, Parameter, Population, Space
from tilesmith.tuner.search.encode import Encoding
from tilesmith.tuner.search.surrogate import Surrogate


class OneSketch:
    """A space of these parameters in which everything is valid."""

    def __init__(self, *parameters: Parameter) -> None:
        self.config_spaces = (ConfigSpace("only", "only", parameters),)

    def valid(self, population: Population) -> np.ndarray:
        return np.ones(len(population), dtype=np.bool_)

    def prior(self, population: Population) -> None:
        return None

    def features(self, population: Population) -> np.ndarray:
        return population.choices.astype(np.float32)


def points(*values: int | str, ordered: bool = True) -> np.ndarray:
    space: Space = OneSketch(Parameter("p", values, default=0, ordered=ordered))
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


def test_trees_see_which_sizes_are_equal_and_which_divide() -> None:
    first, second = (
        Parameter("a", (2, 3, 4), default=0, ordered=True),
        Parameter("b", (2, 4, 8), default=0, ordered=True),
    )
    rows = np.array([[i, j] for i in range(3) for j in range(3)], dtype=np.int32)
    relations = Encoding(OneSketch(first, second), paired=4).features(Population(0, rows))[:, -3:]
    pairs = [(first.values[i], second.values[j]) for i, j in rows]
    assert relations.tolist() == [[float(a == b), float(a % b == 0), float(b % a == 0)] for a, b in pairs]


@pytest.mark.parametrize("values", [("x", "y", "z"), (-3, -2, -1)])
def test_what_is_no_size_divides_nothing(values: tuple[int | str, ...]) -> None:
    """Such columns would say nothing: there are the points and the two columns of the pair alone."""
    sketch = Parameter("a", values, default=0, ordered=True), Parameter("b", (5, 7, 11), default=0, ordered=True)
    rows = np.zeros((1, 2), dtype=np.int32)
    encoding = Encoding(OneSketch(*sketch), paired=4)
    assert encoding.features(Population(0, rows)).shape == (1, encoding.dimensions + 2)


def test_sizes_are_plain_where_all_that_can_be_are_powers_of_two() -> None:
    parameters = (
        Parameter("a", (32, 48, 64), default=0, ordered=True),
        Parameter("b", (15,), default=0, ordered=True),  # there is no other
        Parameter("c", ("x", "y"), default=0, ordered=False),
    )
    rows = np.array([[0, 0, 0], [1, 0, 0], [2, 0, 1]], dtype=np.int32)
    assert Encoding(OneSketch(*parameters), paired=4).plain(Population(0, rows)).tolist() == [True, False, True]


def test_half_of_the_first_trials_have_plain_sizes_and_the_others_any() -> None:
    sizes = tuple(range(1, 33))
    space: Space = OneSketch(*(Parameter(name, sizes, default=0, ordered=True) for name in "ab"))
    asked = [Surrogate(space, seed).ask(8) for seed in range(10)]
    powers = [[all(sizes[c] & (sizes[c] - 1) == 0 for c in one.choices) for one in trials] for trials in asked]
    assert all(all(batch[:4]) for batch in powers)
    assert sum(map(sum, powers)) < 10 * 6
    assert all(len(set(trials)) == 8 for trials in asked)
