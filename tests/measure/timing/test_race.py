"""A confirmation: contenders in rounds, who is out, and how many rounds there are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import chain, cycle, repeat
from math import inf
from statistics import median

import numpy as np
import pytest

from tests.measure.timing.test_timing import Clock
from tilesmith.measure.timing.method import SEARCH_PLAN as PLAN
from tilesmith.measure.timing.race import evened, race


def test_a_drift_touches_all_alike() -> None:
    now = [0.0]

    def kernel(seconds: float) -> Callable[[int], float]:
        def run(count: int) -> float:
            slow = 2.0 if now[0] > 0.09 else 1.0  # the machine slows down half way
            now[0] += seconds * count * slow
            return seconds * count * slow

        return run

    fast, slow = race([kernel(8e-3), kernel(8.1e-3)], cycle([[0, 1], [1, 0]]), PLAN)
    assert len(fast) == len(slow) == PLAN.rounds
    # One kernel a bit faster stays faster although the machine halved its speed in between, and in each round by as much.
    assert [b / a for a, b in zip(fast, slow, strict=True)] == pytest.approx([8.1 / 8] * PLAN.rounds)
    assert fast == pytest.approx([median(fast)] * PLAN.rounds)


def test_a_turn_begins_with_the_kernels_own_memory_in_the_caches() -> None:
    last: list[object] = [None]

    def kernel(seconds: float) -> Callable[[int], float]:
        def run(count: int) -> float:
            cold, last[0] = last[0] is not run, run
            return seconds * (count + 4 * cold)  # its first run after another kernel's takes five times as long

        return run

    orders = [[0, 1, 2], [2, 0, 1]] * 3
    small, other, large = race([kernel(2e-4), kernel(3e-4), kernel(1.1e-2)], orders, replace(PLAN, lost=inf))
    assert small == pytest.approx([2e-4] * 6) and other == pytest.approx([3e-4] * 6)
    assert max(large) > 2e-2  # what lasts long has the share in it, and costs no second run


def test_who_is_behind_in_a_race_runs_no_more() -> None:
    slow = iter([1.0] * 15 + [1.2] * 64)  # the machine slows down when the last one is out
    lasting = [Clock(seconds, slow) for seconds in (1.00e-2, 1.02e-2, 1.08e-2)]
    orders = [[0, 1, 2], [2, 1, 0]] * 4 + [[0, 1, 2]]
    first, second, third = race(lasting, orders, PLAN)
    assert len(first) == len(second) == 9 and len(third) == PLAN.race
    assert median(first) < median(second) < median(third), (
        "in a good moment the last one was faster than the first is now"
    )
    assert median(third) == pytest.approx(1.08 * median(first))
    assert len(lasting[2].counts) == 1 + PLAN.race
    everyone = race([Clock(1e-2), Clock(3e-2)], orders[:6], replace(PLAN, lost=inf))
    assert [len(times) for times in everyone] == [6, 6]


def test_a_disturbed_contender_stays_in_the_race() -> None:
    disturbed = Clock(1e-2, chain([1.0, 2.0, 2.0, 2.0, 1.0], repeat(1.0)))
    times, _ = race([disturbed, Clock(1.01e-2)], [[0, 1]] * 9, PLAN)
    assert len(times) == 9 and median(times) == pytest.approx(1e-2)
    disturbed = Clock(1e-2, chain([1.0, 2.0, 1.6, 2.0, 1.6], repeat(1.0)))
    times, _ = race([disturbed, Clock(1.01e-2)], [[0, 1]] * 9, PLAN)
    assert len(times) == 9 and median(times) == pytest.approx(1e-2), "four bad rounds of its own, and none to compare"


def noisy(seconds: float, rng: np.random.Generator, share: float) -> Clock:
    """A kernel on a core that a neighbour uses, too: from one repeat to the next it takes up to `share` longer."""
    return Clock(seconds, iter(1.0 + share * rng.random(4000)))


def test_rounds_that_disagree_are_followed_by_more() -> None:
    rng = np.random.default_rng(0)
    calm = race([noisy(1e-2, rng, 0.01), noisy(1.01e-2, rng, 0.01)], cycle([[0, 1]]), PLAN)
    assert [len(times) for times in calm] == [PLAN.rounds] * 2
    lasting = replace(PLAN, patience=inf)
    shared = race([noisy(1e-2, rng, 0.5), noisy(1.01e-2, rng, 0.5)], cycle([[0, 1]]), lasting)
    assert [len(times) for times in shared] == [PLAN.most_rounds] * 2
    hasty = race([noisy(1e-2, rng, 0.5), noisy(1.01e-2, rng, 0.5)], cycle([[0, 1]]), replace(PLAN, patience=0.0))
    assert [len(times) for times in hasty] == [PLAN.rounds + 1] * 2


def test_more_rounds_are_nearer_to_the_truth() -> None:
    def error(most: int) -> float:
        plan = replace(PLAN, most_rounds=most, patience=inf, lost=inf)
        draws = (np.random.default_rng(seed) for seed in range(60))
        found = (race([noisy(1e-2, rng, 0.35), noisy(1.02e-2, rng, 0.35)], cycle([[0, 1]]), plan) for rng in draws)
        return float(np.std([np.log(median(slow) / median(fast)) for fast, slow in found]))

    assert error(PLAN.most_rounds) < 0.85 * error(PLAN.rounds)


def test_who_is_far_behind_is_out_however_noisy_the_machine() -> None:
    rng = np.random.default_rng(1)
    contenders = [noisy(seconds, rng, 0.5) for seconds in (1e-2, 2e-2, 1.01e-2)]
    first, second, _ = race(contenders, cycle([[0, 1, 2]]), replace(PLAN, patience=inf))
    assert len(first) == PLAN.most_rounds and len(second) == PLAN.rounds
    assert median(second) == pytest.approx(2 * median(first), rel=0.15)


def test_rounds_of_a_slow_machine_and_of_a_fast_one_are_evened() -> None:
    """The machine is a third slower from the middle of the middle round on: medians are of one kind or of the other."""
    rng = np.random.default_rng(2)
    usual = np.array([1.00, 1.05, 1.10, 1.02])
    slow = np.ones((4, 9))
    slow[2:, 4], slow[:, 5:] = 1.33, 1.33
    times = usual[:, None] * slow * rng.normal(1.0, 0.004, (4, 9))
    times[1, 3] *= 2.0  # what disturbs one of them is no matter of the round
    even = [median(of_one) for of_one in evened(times.tolist())]
    assert np.array(even) / even[0] == pytest.approx(usual, rel=0.01)
    raw = np.median(times, axis=1)
    assert raw[2] / raw[0] > 1.3, "by medians"
    assert 1.0 <= even[0] <= 1.34


def test_who_ran_no_more_is_evened_by_the_rounds_that_it_ran() -> None:
    leader, out = evened([[1.0, 1.0, 1.5, 1.5, 1.5], [1.2, 1.2]])
    assert median(out) / median(leader) == pytest.approx(1.2)
    assert evened([[1.0, 2.0]]) == [(1.0, 2.0)], "one alone has nothing to be compared with"
    assert evened([]) == []
