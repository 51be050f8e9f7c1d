"""Trials that tell what options are worth."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from contracts.spaces import ManyOptions, ToySpace
from tilesmith.schedules.space import Population
from tilesmith.schedules.space_ops import sample
from tilesmith.tuner.effort import NORMAL
from tilesmith.tuner.search.options import missing, mixed, telling
from tilesmith.tuner.search.prior_guided import PriorGuided

SPACE = ManyOptions()
FLAGS = (6, 7, 8, 9)
MOST = NORMAL.rounds.options


def members(*flags: tuple[int, int, int, int]) -> Population:
    rows = [(5, 4, 6, 2, 0, 0, *of_one) for of_one in flags]
    return Population(0, np.array(rows, dtype=np.int32).reshape(len(rows), 10))


def test_missing_are_the_options_of_small_parameters_that_nobody_has() -> None:
    tried = [(5, 4, 6, 2, 0, 0, 0, 0, 1, 0), (5, 4, 6, 2, 0, 0, 0, 0, 0, 0)]
    found = missing(SPACE.config_spaces[0], tried, MOST, 1)
    assert {option for option in found if option[0] in FLAGS} == {(6, 1), (7, 1), (9, 1)}
    assert all(len(SPACE.config_spaces[0].parameters[place].values) <= MOST for place, _ in found)
    everything = sum(len(p.values) for p in SPACE.config_spaces[0].parameters if len(p.values) <= MOST)
    assert len(missing(SPACE.config_spaces[0], [], MOST, 1)) == everything


def test_an_option_can_be_wanted_several_times() -> None:
    tried = [(5, 4, 6, 2, 0, 0, 0, 0, 1, 0), (5, 4, 6, 2, 0, 0, 0, 1, 0, 0)]
    found = missing(SPACE.config_spaces[0], tried, MOST, times=2)
    assert {option for option in found if option[0] in FLAGS} == {(6, 1), (7, 0), (7, 1), (8, 0), (8, 1), (9, 1)}


@given(seed=st.integers(0, 2**32 - 1))
def test_mixed_keeps_sizes_has_an_option_and_is_valid(seed: int) -> None:
    rng = np.random.default_rng(seed)
    parents = sample(SPACE, rng, 0, 8)
    found = mixed(SPACE, rng, parents, [(7, 1), (9, 0)], 64, MOST)
    assert len(found) and SPACE.valid(found).all()
    assert ((found.choices[:, 7] == 1) | (found.choices[:, 9] == 0)).all()
    large = [place for place, p in enumerate(SPACE.config_spaces[0].parameters) if len(p.values) > MOST]
    sizes = {tuple(row) for row in parents.choices[:, large]}
    assert {tuple(row) for row in found.choices[:, large]} <= sizes
    assert len({tuple(row) for row in found.choices}) == len(found)


def test_the_dearest_option_comes_first_and_brings_others_with_it() -> None:
    rows = members((0, 0, 0, 0), (1, 0, 0, 0), (1, 1, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1))
    prior = np.array([1.0, 2.0, 2.1, 1.1, 9.0, 1.2])
    options = [(6, 1), (7, 1), (8, 1), (9, 1)]
    assert telling(rows, prior, options, price=3.0, close=1.1) == [2, 5]
    assert telling(rows, prior, options, price=3.0, close=1.01) == [1, 5, 3]
    assert telling(rows, prior, options, price=10.0, close=1.1) == [4, 2, 5]
    assert telling(rows, prior, [], price=3.0, close=1.1) == []
    assert telling(members(), np.zeros(0), options, price=np.inf, close=1.1) == []


class Wrong(ManyOptions):
    """The prior is sure that two flags together are dear. They are worth most."""

    def prior(self, p: Population) -> np.ndarray:
        told = ToySpace.prior(self, p)
        assert told is not None
        return np.asarray(told * (1.4 ** p.choices[:, 6:8].sum(axis=1) if p.sketch == 0 else 1.0))


def test_the_first_trials_have_options_that_the_prior_is_wrong_about() -> None:
    for seed in range(5):
        first = PriorGuided(Wrong(), seed, NORMAL).ask(NORMAL.draft.first)
        of_sketch = [c for c in first if c.sketch == 0]
        assert len(first) == NORMAL.draft.first and len(set(first)) == len(first)
        assert first[0] == of_sketch[0] and not any(first[0].choices[6:8])
        assert not missing(SPACE.config_spaces[0], (c.choices for c in of_sketch), MOST, 1)
