"""A machine that changes its speed: what is timed in a good moment must not lead."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tilesmith.measure.drift import KEPT, RECENT, Drift
from tilesmith.measure.timing import Timing


class Machine:
    """Kernels take so many seconds, times how slow the machine is at the moment."""

    def __init__(self) -> None:
        self.slow = 1.0
        self.runs = 0
        self.time = 0.0

    def kernel(self, seconds: float) -> Callable[[int], float]:
        def repeat(count: int) -> float:
            self.runs += count
            self.time += count * seconds * self.slow
            return count * seconds * self.slow

        return repeat

    def drift(self) -> Drift:
        return Drift(4e-3, lambda: self.time)

    def timed(self, drift: Drift, seconds: float, program: str = "p", *, abandoned: bool = False) -> Timing:
        repeat = self.kernel(seconds)
        return drift.corrected(program, repeat, Timing((repeat(4) / 4,) * 3, abandoned))


def test_a_slower_moment_is_taken_out() -> None:
    machine = Machine()
    drift = machine.drift()
    assert machine.timed(drift, 1e-3).seconds == pytest.approx(1e-3)
    machine.slow = 1.12
    assert machine.timed(drift, 0.95e-3).seconds == pytest.approx(0.95e-3)  # it leads although its clock said 1.064 ms
    machine.slow = 0.9
    assert machine.timed(drift, 0.97e-3).seconds == pytest.approx(0.97e-3)


def test_the_order_is_right_on_a_machine_that_never_rests() -> None:
    machine = Machine()
    drift = machine.drift()
    kernels = [1e-3 * (1.0 - 0.02 * number) for number in range(12)]
    found = []
    for seconds in kernels:
        for slower in (1.0, 1.04, 1.08, 1.12, 1.08, 1.04):  # each kernel meets the machine in another mood, and alone
            machine.slow = slower
            machine.timed(drift, 1.05 * seconds)
        found.append(machine.timed(drift, seconds).seconds)
    assert found == sorted(found, reverse=True)


def test_luck_does_not_add_up() -> None:
    """Many kernels that are all alike, on a clock that is noisy: the last ones look no faster than the first ones."""
    rng, drift = np.random.default_rng(0), Drift(4e-3)

    def repeat(count: int) -> float:
        return float(count * 1e-3 * rng.normal(1.0, 0.03))

    found = [drift.corrected("p", repeat, Timing(tuple(repeat(4) / 4 for _ in range(3)))).seconds for _ in range(400)]
    assert np.median(found[-100:]) == pytest.approx(np.median(found[:100]), rel=0.015)


def test_a_much_faster_kernel_becomes_the_control_without_a_proof() -> None:
    machine = Machine()
    drift = machine.drift()
    machine.timed(drift, 8e-3)
    before = machine.runs
    assert machine.timed(drift, 1e-3).seconds == pytest.approx(1e-3)
    assert machine.runs - before == 4  # its own: however slow the machine is, it is faster
    machine.slow, before = 1.1, machine.runs
    assert machine.timed(drift, 1.03e-3).seconds == pytest.approx(1.03e-3)
    assert machine.runs - before == 4 + 3 * 2 * 4  # of the new control, which has to run often enough to be timed


def test_a_look_at_the_control_tells_for_a_while() -> None:
    machine = Machine()
    drift = machine.drift()
    machine.timed(drift, 1e-3)
    machine.slow = 1.1
    machine.timed(drift, 1.02e-3)
    assert drift.limit("p", 1e-3) == pytest.approx(1.1e-3) and drift.limit("other", 1e-3) == 1e-3
    before = machine.runs
    assert machine.timed(drift, 1.05e-3).seconds == pytest.approx(1.05e-3)
    assert machine.runs - before == 4 + 2 * 4, "one more look is enough"
    before = machine.runs
    assert machine.timed(drift, 1.3e-3).seconds == pytest.approx(1.3e-3)
    assert machine.runs - before == 4, "what is clearly slower costs none, and is divided by what is known"
    machine.time += RECENT + 1.0
    assert drift.limit("p", 1e-3) == 1e-3


def test_one_disturbed_look_is_no_drift() -> None:
    machine = Machine()
    drift = machine.drift()
    for _ in range(4):
        machine.timed(drift, 1e-3)
    repeat = machine.kernel(1.05e-3)
    timing = Timing((repeat(4) / 4,) * 3)
    machine.slow = 2.0  # only while the control is looked at
    assert drift.corrected("p", repeat, timing).seconds == pytest.approx(1.05e-3)


def test_a_moment_that_disturbs_only_the_control_makes_no_leader() -> None:
    drift, calls = Drift(4e-3), []

    def control(count: int) -> float:
        calls.append(count)
        return count * (1e-3 if len(calls) > 3 else 1.5e-3)  # disturbed when it is asked for the first time

    assert drift.corrected("p", control, Timing((1e-3,) * 3)).seconds == pytest.approx(1e-3)
    near = drift.corrected("p", lambda count: count * 1.1e-3, Timing((1.1e-3,) * 3))
    assert len(calls) > 3 and near.seconds == pytest.approx(1.1e-3)
    other = drift.corrected("p", lambda count: count * 1.2e-3, Timing((1.2e-3,) * 3))
    assert other.seconds == pytest.approx(1.2e-3)


def test_a_proof_whose_control_was_disturbed_most_of_the_time() -> None:
    """The control takes three times as long but for one run in nine: what is timed beside it is no faster for that."""
    drift, calls = Drift(4e-3), []

    def control(count: int) -> float:
        calls.append(count)
        return count * (1e-3 if len(calls) < 7 or len(calls) % 9 == 0 else 3e-3)

    drift.corrected("p", control, Timing((1e-3,) * 3))
    better = drift.corrected("p", lambda count: count * 0.95e-3, Timing((0.95e-3,) * 3))
    assert better.seconds == pytest.approx(0.95e-3)


def test_what_a_change_of_kernels_costs_is_not_counted() -> None:
    """The control, more than others, pays for caches that another kernel has filled."""
    machine, last = Machine(), [""]
    drift = machine.drift()

    def kernel(name: str, seconds: float, cold: float) -> Callable[[int], float]:
        def repeat(count: int) -> float:
            first, last[0] = last[0] != name, name
            return count * seconds * (cold if first else 1.0)

        return repeat

    def timed(repeat: Callable[[int], float]) -> float:
        repeat(4)
        return drift.corrected("p", repeat, Timing(tuple(repeat(4) / 4 for _ in range(3)))).seconds

    timed(kernel("control", 1e-3, 1.2))
    assert timed(kernel("other", 0.97e-3, 1.02)) == pytest.approx(0.97e-3)


def test_small_differences_are_noise() -> None:
    machine = Machine()
    drift = machine.drift()
    machine.timed(drift, 1e-3)
    machine.slow = 1.01
    assert machine.timed(drift, 1e-3).seconds == pytest.approx(1.01e-3)


def test_what_was_dropped_or_is_not_trusted_costs_no_runs_of_the_control() -> None:
    machine = Machine()
    drift = machine.drift()
    machine.timed(drift, 1e-3)
    machine.slow, before = 1.5, machine.runs
    dropped = machine.timed(drift, 2e-3, abandoned=True)
    assert dropped.seconds == pytest.approx(3e-3) and machine.runs == before + 4
    wild = Timing((1e-3, 9e-3), trusted=False)
    assert drift.corrected("p", machine.kernel(1e-3), wild) is wild


def test_each_program_has_its_own_control_and_old_ones_go() -> None:
    machine = Machine()
    drift = machine.drift()
    machine.timed(drift, 1e-3, "first")
    for number in range(KEPT):
        machine.timed(drift, 5e-3, f"other {number}")
    machine.slow = 1.1
    assert machine.timed(drift, 1e-3, "first").seconds == pytest.approx(1.1e-3)  # its control is gone: a new beginning
    assert machine.timed(drift, 5e-3, f"other {KEPT - 1}").seconds == pytest.approx(5e-3)


def test_what_takes_long_has_no_control() -> None:
    machine = Machine()
    drift = machine.drift()
    machine.timed(drift, 0.5)
    machine.slow, before = 1.1, machine.runs
    assert machine.timed(drift, 0.5).seconds == pytest.approx(0.55) and machine.runs == before + 4
    assert drift.limit("p", 0.5) == 0.5


def test_a_machine_that_became_very_slow_is_not_looked_at_for_ever() -> None:
    machine = Machine()
    drift = machine.drift()
    machine.timed(drift, 10e-3)
    machine.slow = 100.0
    before = machine.runs
    assert machine.timed(drift, 0.1e-3).seconds == pytest.approx(10e-3)  # each look is old when it is over
    assert machine.runs < before + 20


def test_a_control_at_half_its_speed_says_nothing_of_the_machine() -> None:
    machine = Machine()
    drift = machine.drift()

    def control(count: int) -> float:
        machine.time += count * 1e-3
        return count * (1e-3 if machine.time < 10e-3 else 2.2e-3)  # others have filled the caches since

    drift.corrected("p", control, Timing((control(4) / 4,) * 3))
    machine.time = 1.0
    for seconds in (1.02e-3, 0.98e-3):  # no contender for the best, and one that has to prove it
        assert machine.timed(drift, seconds).seconds == pytest.approx(seconds)
    assert drift.limit("p", 1e-3) == 1e-3
