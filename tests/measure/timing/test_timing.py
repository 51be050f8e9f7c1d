"""The timing method on kernels that are only a clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, count, repeat

import pytest

from tilesmith.measure.timing.method import PIECE, SEARCH_PLAN, Timing, relative_spread, time_kernel, undisturbed


class Clock:
    """A kernel that takes `seconds` a run, times a factor for each repeat; counts what was asked of it."""

    def __init__(self, seconds: float, factors: Iterator[float] | None = None) -> None:
        self.seconds, self.factors = seconds, factors or repeat(1.0)
        self.counts: list[int] = []
        self.spent = 0.0

    def __call__(self, count: int) -> float:
        self.counts.append(count)
        total = self.seconds * count * next(self.factors)
        self.spent += total
        return total


def measured(clock: Callable[[int], float], first: float, limit: float | None = None) -> Timing:
    return time_kernel(clock, first, limit)


@pytest.mark.parametrize("seconds", [1e-7, 2e-6, 3e-4, 6e-3, 5e-2])
def test_the_time_of_one_run(seconds: float) -> None:
    clock = Clock(seconds)
    timing = measured(clock, seconds)
    assert timing.seconds == pytest.approx(seconds) and timing.trusted and not timing.abandoned
    assert len(timing.times) >= 3
    assert clock.counts[-1] * seconds >= SEARCH_PLAN.shortest * 0.75
    assert clock.spent < 0.16


def test_a_kernel_of_six_milliseconds_costs_about_fifty() -> None:
    clock = Clock(6e-3)
    measured(clock, 6e-3)
    assert clock.spent <= 0.05


def test_a_very_slow_kernel_is_not_run_again() -> None:
    """The warm-up run says enough: what it pays for a cold start is small beside seconds, and another run costs as much."""
    clock = Clock(2.0)
    assert measured(clock, 2.0).times == (2.0,)
    assert sum(clock.counts) == 0


def test_clearly_slower_is_abandoned_after_two_repeats() -> None:
    clock = Clock(9e-3)
    timing = measured(clock, 9e-3, limit=6e-3)
    assert timing.abandoned and timing.seconds == 9e-3
    assert sum(clock.counts) == 2


def test_what_is_no_contender_is_repeated_less_often() -> None:
    contender, behind = Clock(6.2e-3), Clock(7e-3)
    assert len(measured(contender, 6e-3, limit=6e-3).times) == SEARCH_PLAN.repeats
    timing = measured(behind, 7e-3, limit=6e-3)
    assert not timing.abandoned and timing.seconds == 7e-3
    assert sum(behind.counts) == SEARCH_PLAN.few_repeats


def test_what_is_no_contender_and_does_not_agree_with_itself_is_repeated_as_often() -> None:
    clock = Clock(7e-3, chain([1.0, 1.2, 1.05], repeat(1.0)))
    assert len(measured(clock, 7e-3, limit=6e-3).times) > SEARCH_PLAN.few_repeats


def test_far_slower_is_abandoned_after_one_run_more_than_the_warm_up() -> None:
    clock = Clock(40e-3)
    assert measured(clock, 41e-3, limit=6e-3) == Timing((40e-3,), abandoned=True)
    assert clock.counts == [1]


def test_far_slower_and_very_long_is_abandoned_after_the_warm_up() -> None:
    clock = Clock(2.0)
    assert measured(clock, 2.0, limit=6e-3) == Timing((2.0,), abandoned=True)
    assert clock.counts == []


def test_a_first_run_that_was_disturbed_abandons_nothing() -> None:
    """As seen on a busy machine: 13 ms to wake the threads of a kernel of 0.2 ms."""
    timing = measured(Clock(1.5e-4), first=13e-3, limit=1.5e-4)
    assert not timing.abandoned and timing.seconds == pytest.approx(1.5e-4)


def test_a_cold_warm_up_alone_abandons_nothing() -> None:
    timing = measured(Clock(1e-5), first=9e-4, limit=1e-5)
    assert not timing.abandoned and timing.seconds == pytest.approx(1e-5)


def test_cold_caches_are_no_part_of_a_short_kernels_time() -> None:
    """As seen of softmax of 4096x1024 after its check."""
    timing = measured(Clock(6e-4, chain([2.3, 2.0], repeat(1.0))), first=1.5e-3, limit=6e-4)
    assert not timing.abandoned and timing.times == pytest.approx((6e-4,) * SEARCH_PLAN.repeats)


def test_one_disturbed_repeat_abandons_nothing() -> None:
    clock = Clock(6e-3, chain([3.0], repeat(1.0)))
    timing = measured(clock, 6e-3, limit=6e-3)
    assert not timing.abandoned and timing.seconds == pytest.approx(6e-3)


def test_noise_asks_for_more_repeats_and_settles() -> None:
    clock = Clock(5e-3, chain([1.0, 1.5, 1.0, 1.6, 1.0, 1.4, 1.5], repeat(1.0)))
    timing = measured(clock, 5e-3)
    assert len(timing.times) > SEARCH_PLAN.repeats and timing.trusted
    assert timing.seconds == pytest.approx(5e-3)


def test_a_machine_that_is_busy_half_of_the_time() -> None:
    timing = measured(Clock(5e-3, iter([2.1, 1.0, 2.0, 2.2, 1.01, 2.1, 1.02] * 100)), 5e-3)
    assert timing.trusted and timing.seconds == pytest.approx(5e-3, rel=0.03)
    assert len(timing.times) >= 3 and max(timing.times) < 6e-3


def test_noise_without_end_is_not_trusted_and_not_endless() -> None:
    clock = Clock(5e-3, (1.0 + (i * 8 % 21) for i in count()))
    timing = measured(clock, 5e-3)
    assert not timing.trusted and timing.spread > SEARCH_PLAN.unstable
    assert len(clock.counts) <= SEARCH_PLAN.most_repeats and clock.spent < 1.0


def test_spread() -> None:
    assert relative_spread([1.0, 9.0]) == 0.0
    assert relative_spread([1.0, 2.0, 3.0, 4.0, 5.0]) == pytest.approx(2 / 3)


def test_a_core_that_another_process_had_most_of_the_time() -> None:
    """Alike times say little where one repeat shows that the kernel is twice as fast."""
    clock = Clock(3e-4, chain([1.0, 2.0, 1.0, 2.0, 2.0, 2.02], repeat(1.0)))
    timing = measured(clock, 3e-4)
    assert timing.seconds == pytest.approx(3e-4) and timing.trusted


def test_interruptions_of_less_than_half_of_the_pieces_do_not_count() -> None:
    clock = Clock(3e-4, chain([4.0], [1.0, 1.8, 1.0, 1.1, 1.0, 1.5, 1.0]))
    assert undisturbed(clock)(8) == pytest.approx(8 * 3e-4)
    assert clock.counts == [1] * 8


@pytest.mark.parametrize(("seconds", "count"), [(1e-6, 2000), (1e-5, 200), (6e-4, 4), (3e-3, 1)])
def test_pieces_last_as_long_as_asked_and_make_up_the_whole(seconds: float, count: int) -> None:
    clock = Clock(seconds)
    assert undisturbed(clock)(count) == pytest.approx(count * seconds)
    assert sum(clock.counts) == count
    assert all(runs * seconds >= 0.75 * PIECE for runs in clock.counts[1:-1])
    assert all(runs * seconds <= 1.5 * PIECE for runs in clock.counts if runs > 1)
