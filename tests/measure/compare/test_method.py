"""The comparison method, on contenders and noise that are made up; and the machine under it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import numpy as np
import pytest

from tilesmith.measure.compare import noise as machine
from tilesmith.measure.compare.method import ContestRounds, Method
from tilesmith.measure.compare.serving import aligned, time_calls


@dataclass
class Scripted:
    """A contender whose calls take what a list says; it writes down when it ran."""

    name: str
    times: list[float]
    log: list[str]

    def run(self, seconds: float) -> float:
        self.log.append(self.name)
        return self.times.pop(0)


@dataclass
class Quiet:
    """Noise that a list gives round by round; then silence."""

    rounds: list[tuple[float, float]] = field(default_factory=list)

    def start(self) -> None:
        pass

    def stop(self) -> tuple[float, float]:
        return self.rounds.pop(0) if self.rounds else (0.0, 1.0)


def test_a_ratio_is_the_median_of_the_ratios_within_rounds() -> None:
    log: list[str] = []
    ours, peer = Scripted("ours", [1.0, 2.0, 1.0], log), Scripted("peer", [2.0, 6.0, 1.0], log)
    found = Method(rounds=3).compare([ours, peer], Quiet())
    ratio = found.ratio("ours", "peer")
    assert (ratio.low, ratio.middle, ratio.high) == (1.5, 2.0, 2.5)
    assert found.median("ours") == 1.0


def test_in_each_round_every_contender_runs_once_and_the_order_changes() -> None:
    log: list[str] = []
    contenders = [Scripted(name, [1.0] * 20, log) for name in "abc"]
    Method(rounds=20).compare(contenders, Quiet())
    rounds = [tuple(log[i : i + 3]) for i in range(0, 60, 3)]
    assert all(sorted(r) == ["a", "b", "c"] for r in rounds)
    assert len(set(rounds)) > 3


@pytest.mark.parametrize("noise", [(0.03, 1.0), (0.0, 1.04), (0.0, 0.96)])
def test_a_disturbed_round_is_repeated_and_does_not_count(noise: tuple[float, float]) -> None:
    log: list[str] = []
    contender = Scripted("a", [1.0, 99.0, 2.0, 3.0], log)
    found = Method(rounds=3).compare([contender], Quiet([(0.0, 1.0), noise]))
    assert found.seconds["a"] == [1.0, 2.0, 3.0]
    assert (found.repeated, found.noisy) == (1, 0)


def test_a_round_within_the_limits_counts() -> None:
    contender = Scripted("a", [1.0, 2.0], [])
    found = Method(rounds=2).compare([contender], Quiet([(0.02, 1.029), (0.01, 0.971)]))
    assert (found.repeated, found.noisy) == (0, 0)


def test_when_it_is_never_quiet_rounds_are_kept_and_counted() -> None:
    contender = Scripted("a", [float(i) for i in range(9)], [])
    found = Method(rounds=3, patience=2).compare([contender], Quiet([(0.5, 2.0)] * 9))
    assert found.seconds["a"] == [2.0, 3.0, 4.0]
    assert (found.repeated, found.noisy) == (2, 3)


def test_the_best_peer_has_the_smallest_median() -> None:
    found = ContestRounds({"ours": [1.0] * 3, "a": [1.0, 5.0, 5.0], "b": [4.0, 4.0, 4.0]})
    assert found.fastest(["a", "b"]) == "b"


def test_short_calls_are_timed_several_at_a_time() -> None:
    count = 0

    def call() -> None:
        nonlocal count
        count += 1

    seconds, calls = time_calls(call, 0.02)
    assert 0 < seconds < 50e-6
    assert 100 < calls < count


def test_arrays_begin_at_a_cache_line() -> None:
    for shape in ((3,), (5, 7), (1, 1)):
        array = aligned(shape, np.dtype(np.float32), np.ones(shape, np.float32))
        assert array.ctypes.data % 64 == 0 and array.shape == shape and (array == 1).all()


def test_the_machine_is_described_in_plain_data() -> None:
    assert {"model", "features", "cores", "libraries"} <= set(json.loads(json.dumps(machine.describe())))


def test_noise_of_the_machine_sees_foreign_work() -> None:
    noise = machine.MachineNoise(1, [])
    noise.start()
    others, drift = noise.stop()
    assert 0 <= others <= 1 and 0.01 < drift < 100
