"""A machine that changes its speed: what is timed in a good moment must not lead."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tilesmith.measure.timing.drift import KEPT, LARGEST, MOST_TURNS, PROOF, RECENT, TURNS, Drift
from tilesmith.measure.timing.method import Timing, undisturbed

RUNS = 4  # of a kernel of 1 ms in one turn


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

        return undisturbed(repeat)

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


def test_a_clock_that_goes_up_and_down_a_step_is_taken_out() -> None:
    """3% from one tenth of a second to the next: more than what the leaders differ by."""
    machine = Machine()
    drift = machine.drift()
    for number in range(40):
        machine.slow = 1.0 + 0.03 * (number % 3)
        assert machine.timed(drift, 1e-3).seconds == pytest.approx(1e-3)


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
    assert machine.runs - before == 4 + TURNS * 2 * RUNS, "of the new control, often enough to be timed"


def test_what_seems_to_be_the_best_takes_more_turns() -> None:
    machine = Machine()
    drift = machine.drift()
    machine.timed(drift, 1e-3)
    before = machine.runs
    machine.timed(drift, 0.98e-3)
    assert machine.runs - before == 4 + PROOF * 2 * RUNS
    before = machine.runs
    machine.timed(drift, 0.99e-3)
    assert machine.runs - before == 4 + TURNS * 2 * RUNS


def test_a_turn_of_the_control_tells_for_a_while() -> None:
    machine = Machine()
    drift = machine.drift()
    assert not drift.knows("p")
    machine.timed(drift, 1e-3)
    assert drift.knows("p") and not drift.knows("other")
    machine.slow = 1.1
    machine.timed(drift, 1.02e-3)
    before = machine.runs
    assert machine.timed(drift, 3e-3).seconds == pytest.approx(3e-3)
    assert machine.runs - before == 4, "what is clearly slower takes no turns, and is divided by what is known"
    machine.time += RECENT + 1.0
    assert machine.timed(drift, 3e-3).seconds == pytest.approx(3.3e-3), "and if nothing is known, it is not"


def test_a_machine_that_slowed_down_meanwhile_still_finds_the_best() -> None:
    """All look clearly slower than a best that was timed before: without a new look at the control none would lead again."""
    machine = Machine()
    drift = machine.drift()
    machine.timed(drift, 1e-3)
    machine.slow = 0.99 * LARGEST
    machine.time += RECENT + 1.0
    assert machine.timed(drift, 0.99e-3).seconds == pytest.approx(0.99e-3)


def test_a_second_child_goes_on_in_the_units_of_the_first() -> None:
    machine = Machine()
    first = machine.drift()
    machine.timed(first, 1e-3)
    machine.slow, second, other = 1.6, machine.drift(), machine.kernel(1e-3)
    assert second.begin("p", other, Timing((other(4) / 4,)), 1e-3, 0.9e-3)
    assert machine.timed(second, 1.1e-3).seconds == pytest.approx(1.1e-3)
    before = machine.runs
    assert machine.timed(second, 0.95e-3).seconds == pytest.approx(0.95e-3)
    assert machine.runs - before == 4 + TURNS * (2 + 3), "it is known that it is not the best"


@pytest.mark.parametrize(("seconds", "then"), [(1e-3, 1e-3 / LARGEST / 1.1), (1e-3, 1.1e-3 * LARGEST), (0.2, 0.2)])
def test_what_no_drift_explains_is_no_standard(seconds: float, then: float) -> None:
    machine = Machine()
    drift, repeat = machine.drift(), machine.kernel(seconds)
    assert not drift.begin("p", repeat, Timing((repeat(1),)), then, 1.0) and not drift.knows("p")


def test_a_moment_that_disturbs_the_control_is_no_drift() -> None:
    machine = Machine()
    drift = machine.drift()
    for _ in range(4):
        machine.timed(drift, 1e-3)
    repeat = machine.kernel(1.05e-3)
    timing = Timing((repeat(4) / 4,) * 3)
    machine.slow = 1.1 * LARGEST  # only while turns are taken
    assert drift.corrected("p", repeat, timing).seconds == pytest.approx(1.05e-3)


def test_a_slow_moment_is_seen_before_anything_is_abandoned() -> None:
    machine = Machine()
    drift = machine.drift()
    machine.timed(drift, 1e-3)
    assert drift.pace("p") == 1.0
    for slow, pace in ((1.2, 1.2), (1.0, 1.2), (3.0, LARGEST)):
        machine.slow = slow
        assert drift.pace("p") == pytest.approx(pace), "the slowest of late"
    machine.slow = 0.9
    machine.time += RECENT + 1.0
    assert drift.pace("p") == 1.0


def test_neighbours_that_share_a_core() -> None:
    """All is a third slower or not, for some milliseconds: turns that disagree are followed by more."""
    rng, state = np.random.default_rng(3), [1.0]
    drift = Drift(1e-3)

    def kernel(seconds: float) -> Callable[[int], float]:
        def repeat(count: int) -> float:
            if rng.random() < 0.25:
                state[0] = float(rng.choice([1.0, 1.35]))
            return float(count * seconds * state[0] * rng.normal(1.0, 0.02))

        return repeat

    found = []
    for number in range(90):
        kind = (1.0, 1.06, 1.12)[number % 3]
        repeat = kernel(1e-3 * kind)
        found.append(drift.corrected("p", repeat, Timing(tuple(repeat(1) for _ in range(3)))).seconds / kind)
    assert np.std(np.log(found[1:])) < 0.03


def test_what_does_not_lead_needs_fewer_turns_than_what_might() -> None:
    """Its time is wanted to 2.5%, that of a contender to 1.2%."""

    def turns(kind: float) -> float:
        rng, asked = np.random.default_rng(5), 0
        drift = Drift(4e-3)

        def kernel(seconds: float) -> Callable[[int], float]:
            def repeat(count: int) -> float:
                nonlocal asked
                asked += 1
                return float(count * seconds * rng.normal(1.0, 0.02))

            return repeat

        drift.corrected("p", kernel(1e-3), Timing((1e-3,) * 3))
        for _ in range(40):
            drift.corrected("p", kernel(1e-3 * kind), Timing((1e-3 * kind,) * 3))
        return asked / 40 / 2

    assert TURNS <= turns(1.1) < 0.75 * turns(1.01)


def test_a_moment_that_disturbs_only_the_control_makes_no_leader() -> None:
    drift, calls = Drift(4e-3), []

    def control(count: int) -> float:
        calls.append(count)
        return count * (1e-3 if len(calls) > 3 else 1.5e-3)  # disturbed when it is asked for the first time

    assert drift.corrected("p", control, Timing((1e-3,) * 3)).seconds == pytest.approx(1e-3)
    near = drift.corrected("p", lambda count: count * 1.1e-3, Timing((1.1e-3,) * 3))
    assert TURNS <= len(calls) < MOST_TURNS and near.seconds == pytest.approx(1.1e-3)
    other = drift.corrected("p", lambda count: count * 1.1e-3, Timing((1.1e-3,) * 3))
    assert other.seconds == pytest.approx(1.1e-3)


def test_a_proof_whose_control_was_disturbed_most_of_the_time() -> None:
    """The control takes a fifth longer but for one turn in four: what is timed beside it is no faster for that."""
    drift, calls = Drift(4e-3), []

    def control(count: int) -> float:
        calls.append(count)
        return count * (1e-3 if len(calls) % 4 == 0 else 1.2e-3)

    drift.corrected("p", control, Timing((1e-3,) * 3))
    better = drift.corrected("p", lambda count: count * 0.95e-3, Timing((0.95e-3,) * 3))
    assert PROOF <= len(calls) < MOST_TURNS and better.seconds == pytest.approx(0.95e-3)


def test_what_a_change_of_kernels_costs_is_not_counted() -> None:
    """The control, more than others, pays for caches that another kernel has filled."""
    machine, last = Machine(), [""]
    drift = machine.drift()

    def kernel(name: str, seconds: float, cold: float) -> Callable[[int], float]:
        def repeat(count: int) -> float:
            first, last[0] = last[0] != name, name
            return count * seconds * (cold if first else 1.0)

        return undisturbed(repeat)

    def timed(repeat: Callable[[int], float]) -> float:
        repeat(4)
        return drift.corrected("p", repeat, Timing(tuple(repeat(4) / 4 for _ in range(3)))).seconds

    timed(kernel("control", 1e-3, 1.2))
    assert timed(kernel("other", 0.97e-3, 1.02)) == pytest.approx(0.97e-3)


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
    assert not drift.knows("p")


def test_a_machine_that_became_very_slow_is_not_looked_at_for_ever() -> None:
    machine = Machine()
    drift = machine.drift()
    machine.timed(drift, 10e-3)
    machine.slow = 100.0
    before = machine.runs
    assert machine.timed(drift, 0.1e-3).seconds == pytest.approx(10e-3)  # no turn says anything of the machine
    assert machine.runs < before + 4 + PROOF * (40 + 2) + 1


def test_a_control_at_half_its_speed_says_nothing_of_the_machine() -> None:
    machine = Machine()
    drift = machine.drift()

    def control(count: int) -> float:
        machine.time += count * 1e-3
        return count * (1e-3 if machine.time < 10e-3 else 1.1e-3 * LARGEST)  # others have filled the caches since

    drift.corrected("p", control, Timing((control(4) / 4,) * 3))
    machine.time = 1.0
    for seconds in (1.02e-3, 0.98e-3):  # no contender for the best, and one that has to prove it
        assert machine.timed(drift, seconds).seconds == pytest.approx(seconds)
