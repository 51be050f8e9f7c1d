"""Operations on populations: distinct, valid, uniform, the same for the same generator."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.spaces import ToySpace
from tilesmith.schedules import space_ops as ops
from tilesmith.schedules.space import Candidate, ConfigSpace, Parameter, Population


def config_space_of(extents: list[int]) -> ConfigSpace:
    return ConfigSpace("a", "a", tuple(Parameter(f"p{i}", tuple(range(n))) for i, n in enumerate(extents)))


@given(st.lists(st.integers(1, 7), min_size=1, max_size=5))
@settings(max_examples=50, deadline=None)
def test_codes_number_the_configs_of_a_sketch(extents: list[int]) -> None:
    config_space = config_space_of(extents)
    numbers = np.arange(config_space.size, dtype=np.uint64)
    rows = ops.decode(config_space, numbers)
    assert np.array_equal(ops.codes(config_space, rows), numbers)
    assert {tuple(r) for r in rows.tolist()} == set(np.ndindex(*extents))


def test_codes_of_a_sketch_beyond_64_bits_tell_rows_apart() -> None:
    config_space = config_space_of([1000] * 10)
    rows = np.random.default_rng(0).integers(0, 1000, (20_000, 10)).astype(np.int32)
    rows[1:10_000:2] = rows[0:10_000:2]
    rows[1:10_000:2, 9] = (rows[1:10_000:2, 9] + 1) % 1000  # pairs that differ in the last gene alone
    assert len(np.unique(ops.codes(config_space, rows))) == len(rows)
    assert np.array_equal(ops.codes(config_space, rows), ops.codes(config_space, rows.copy()))


@pytest.mark.parametrize("values", [5, 40])  # counted through; drawn by rejection
def test_samples_are_distinct_and_valid(values: int) -> None:
    space = ToySpace(values=values)
    drawn = ops.sample(space, np.random.default_rng(0), 0, 700)
    assert len(drawn) == 700
    assert len(ops.unique(space, drawn)) == 700
    assert space.valid(drawn).all()


def test_sampling_more_than_there_is_gives_all() -> None:
    space = ToySpace(values=3)
    drawn = ops.sample(space, np.random.default_rng(0), 0, 100_000)
    everything = ops.concatenate(list(ops.enumerate_configs(space, 0)))
    assert sorted(map(tuple, drawn.choices.tolist())) == sorted(map(tuple, everything.choices.tolist()))


def test_samples_are_uniform() -> None:
    space = ToySpace(values=40)
    drawn = ops.sample(space, np.random.default_rng(0), 0, 40_000)
    counts = np.bincount(drawn.choices[:, 2], minlength=40)  # no `require` speaks of k.block
    assert counts.min() > 850 and counts.max() < 1150  # 1000 expected, 5 standard deviations are 158


def test_a_sketch_where_nothing_is_valid_ends() -> None:
    class Nothing(ToySpace):
        def valid(self, p: Population) -> np.ndarray:
            return np.zeros(len(p), dtype=np.bool_)

    assert len(ops.sample(Nothing(values=40), np.random.default_rng(0), 0, 10)) == 0


def test_mutation_changes_every_row_and_stays_in_the_domain() -> None:
    space = ToySpace()
    parents = ops.sample(space, np.random.default_rng(0), 0, 5_000)
    children = ops.mutate(space, np.random.default_rng(1), parents, 1.5)
    changed = children.choices != parents.choices
    assert changed.any(axis=1).all()
    assert 1.3 < changed.sum(axis=1).mean() < 1.7
    assert (children.choices >= 0).all() and (children.choices < ops.sizes(space.config_spaces[0])).all()
    assert not changed[:, 5].any()  # a parameter of one value
    steps = np.abs(children.choices - parents.choices)[:, 0]
    assert (steps == 1).sum() > (steps == 2).sum() > (steps == 5).sum() > 0


def test_children_have_their_parents_genes() -> None:
    space = ToySpace()
    rng = np.random.default_rng(0)
    mothers, fathers = ops.sample(space, rng, 0, 1000), ops.sample(space, rng, 0, 1000)
    children = ops.crossover(rng, mothers, fathers)
    assert ((children.choices == mothers.choices) | (children.choices == fathers.choices)).all()
    assert (children.choices != mothers.choices).any() and (children.choices != fathers.choices).any()


def test_neighbours_are_all_valid_single_moves() -> None:
    space = ToySpace(values=5)
    near = ops.neighbours(space, Candidate(0, (0, 2, 4, 1, 0, 0)))
    expected = {(1, 2, 4, 1, 0, 0), (0, 1, 4, 1, 0, 0), (0, 3, 4, 1, 0, 0), (0, 2, 3, 1, 0, 0), (0, 2, 4, 0, 0, 0),
                (0, 2, 4, 2, 0, 0), (0, 2, 4, 1, 1, 0), (0, 2, 4, 1, 2, 0)}  # fmt: skip
    assert {tuple(r) for r in near.choices.tolist()} == expected


def test_swaps_move_two_ordered_parameters() -> None:
    space = ToySpace(values=5)
    base = np.array((2, 2, 2, 2, 1, 0))
    moved = ops.swaps(space, Candidate(0, tuple(base.tolist())))
    assert (np.abs(moved.choices - base).sum(axis=1) == 2).all()
    assert ((moved.choices != base).sum(axis=1) == 2).all()
    assert space.valid(moved).all() and len(moved) == len(ops.unique(space, moved))
    assert (moved.choices[:, 4:] == base[4:]).all()


def test_the_set_of_seen_candidates() -> None:
    space = ToySpace(values=6)
    some = ops.sample(space, np.random.default_rng(0), 0, 50)
    seen = ops.Seen(space)
    assert seen.missing(some).all()
    assert seen.add(ops.concatenate([some, some])).sum() == 50
    assert not seen.missing(some).any()
    assert len(seen) == 50
    assert seen.add_one(Candidate(1, (0, 0))) and not seen.add_one(Candidate(1, (0, 0)))


def test_groups_keep_positions() -> None:
    space = ToySpace()
    mixed = [Candidate(1, (3, 0)), Candidate(0, (1, 1, 1, 1, 0, 0)), Candidate(1, (4, 2))]
    groups = {p.sketch: (rows.tolist(), p.choices.tolist()) for rows, p in ops.group(space, mixed)}
    assert groups == {0: ([1], [[1, 1, 1, 1, 0, 0]]), 1: ([0, 2], [[3, 0], [4, 2]])}


def test_shares_add_up_and_leave_none_out() -> None:
    parts = ops.shares(ToySpace(values=40), 1000)
    assert sum(parts) == 1000
    assert parts[0] > parts[1] > 20


class Wide:
    """A space of one sketch of many parameters, in which hardly any row is valid. It counts the rows that it is asked about."""

    def __init__(self, parameters: int) -> None:
        self.config_spaces = (config_space_of([8] * parameters),)
        self.rows = 0

    def valid(self, population: Population) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """About one row in 4,096 is valid."""
        self.rows += len(population)
        return (population.choices[:, :4] == 0).all(axis=1)


def test_of_sketches_with_many_parameters_fewer_rows_are_drawn() -> None:
    narrow, wide = Wide(ops.WIDE), Wide(4 * ops.WIDE)
    found = [len(ops.sample(space, np.random.default_rng(0), 0, 1000)) for space in (narrow, wide)]  # type: ignore[arg-type]
    assert found[0] == 1000
    assert 0 < found[1] < 1000
    assert wide.rows <= ops.MAX_DRAWS / 4 + ops.CHUNK


def test_a_sketch_of_more_configs_than_floats_count_has_its_share() -> None:
    space = Wide(2000)
    assert ops.shares(space, 100) == [100]  # type: ignore[arg-type]
