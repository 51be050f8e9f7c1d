"""The comparison method, on contenders and noise that are made up."""

from __future__ import annotations

import importlib.util
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


def load(name: str) -> ModuleType:
    """A module of the benchmarks, which are scripts and no package."""
    spec = importlib.util.spec_from_file_location(f"benchmarks_{name}", FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


method = load("method")
workloads = load("workloads")


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
    found = method.Method(rounds=3).compare([ours, peer], Quiet())
    ratio = found.ratio("ours", "peer")
    assert (ratio.low, ratio.middle, ratio.high) == (1.5, 2.0, 2.5)
    assert found.median("ours") == 1.0


def test_in_each_round_every_contender_runs_once_and_the_order_changes() -> None:
    log: list[str] = []
    contenders = [Scripted(name, [1.0] * 20, log) for name in "abc"]
    method.Method(rounds=20).compare(contenders, Quiet())
    rounds = [tuple(log[i : i + 3]) for i in range(0, 60, 3)]
    assert all(sorted(r) == ["a", "b", "c"] for r in rounds)
    assert len(set(rounds)) > 3


@pytest.mark.parametrize("noise", [(0.03, 1.0), (0.0, 1.04), (0.0, 0.96)])
def test_a_disturbed_round_is_repeated_and_does_not_count(noise: tuple[float, float]) -> None:
    log: list[str] = []
    contender = Scripted("a", [1.0, 99.0, 2.0, 3.0], log)
    found = method.Method(rounds=3).compare([contender], Quiet([(0.0, 1.0), noise]))
    assert found.seconds["a"] == [1.0, 2.0, 3.0]
    assert (found.repeated, found.noisy) == (1, 0)


def test_a_round_within_the_limits_counts() -> None:
    contender = Scripted("a", [1.0, 2.0], [])
    found = method.Method(rounds=2).compare([contender], Quiet([(0.02, 1.029), (0.01, 0.971)]))
    assert (found.repeated, found.noisy) == (0, 0)


def test_when_it_is_never_quiet_rounds_are_kept_and_counted() -> None:
    contender = Scripted("a", [float(i) for i in range(9)], [])
    found = method.Method(rounds=3, patience=2).compare([contender], Quiet([(0.5, 2.0)] * 9))
    assert found.seconds["a"] == [2.0, 3.0, 4.0]
    assert (found.repeated, found.noisy) == (2, 3)


def test_the_best_peer_has_the_smallest_median() -> None:
    found = method.Rounds({"ours": [1.0] * 3, "a": [1.0, 5.0, 5.0], "b": [4.0, 4.0, 4.0]})
    assert found.fastest(["a", "b"]) == "b"


def test_every_row_is_a_program_and_names_are_unique_in_a_group() -> None:
    for row in workloads.ROWS:
        assert row.program().outputs
    names = [(row.group, row.name) for row in workloads.ROWS]
    assert len(set(names)) == len(names)


def test_drawn_rows_come_from_their_seed_and_stay_near_their_models() -> None:
    first, again, other = (workloads.drawn("ragged", seed) for seed in (1, 1, 2))
    assert [r.name for r in first] == [r.name for r in again]
    assert [r.name for r in first] != [r.name for r in other]
    assert len(first) == 5
    largest = max(max(row.sizes.values()) for row in workloads.ROWS if row.group == "ragged")
    assert all(8 < size <= 4 / 3 * largest for row in first for size in row.sizes.values())


def test_drawn_rows_have_their_bar_less_five_hundredths() -> None:
    bars = {row.operator: row.bar for row in workloads.ROWS if row.group == "first"}
    for row in workloads.drawn("first", 3):
        assert row.bar == (None if bars[row.operator] is None else bars[row.operator] - 0.05)


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(FOLDER))
    return load("peers")


def test_a_contender_process_prepares_runs_and_ends(peers: ModuleType) -> None:
    peer = peers.Peer("numpy", 1)
    try:
        for row in (workloads.matmul("matmul", 16, 24, 32), workloads.batch_matmul("batch", 2, 8, 8, 8)):
            peer.prepare(row)
            peer.prepared()
            assert len(peer.sample) == peers.SAMPLES
            assert 0 < peer.run(0.01) < 0.01
    finally:
        peer.close()
    assert peer._child.returncode == 0


def test_a_library_without_a_way_is_missing_not_an_error(peers: ModuleType) -> None:
    peer = peers.Peer("numpy", 1)
    try:
        peer.prepare(workloads.rows_and_columns("memory", "softmax", 8, 8))
        with pytest.raises(peers.Missing, match="numpy has no softmax"):
            peer.prepared()
    finally:
        peer.close()


def test_short_calls_are_timed_several_at_a_time(peers: ModuleType) -> None:
    count = 0

    def call() -> None:
        nonlocal count
        count += 1

    seconds, calls = peers.time_calls(call, 0.02)
    assert 0 < seconds < 50e-6
    assert 100 < calls < count


def test_arrays_begin_at_a_cache_line(peers: ModuleType) -> None:
    for shape in ((3,), (5, 7), (1, 1)):
        array = peers.aligned(shape, np.dtype(np.float32), np.ones(shape, np.float32))
        assert array.ctypes.data % 64 == 0 and array.shape == shape and (array == 1).all()


def test_the_machine_is_described_in_plain_data() -> None:
    machine = load("machine")
    assert {"model", "features", "cores", "libraries"} <= set(json.loads(json.dumps(machine.describe())))


def test_noise_of_the_machine_sees_foreign_work() -> None:
    machine = load("machine")
    noise = machine.MachineNoise(1, [])
    noise.start()
    others, drift = noise.stop()
    assert 0 <= others <= 1 and 0.01 < drift < 100
