"""Rows of the benchmarks, and the processes that serve them."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

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


workloads = load("workloads")


def test_every_row_is_a_program_and_names_are_unique_in_a_group() -> None:
    rows = (*workloads.ROWS, *workloads.NARROW)
    assert all(row.program().outputs for row in rows)
    names = [(row.group, row.name) for row in rows]
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
        with pytest.raises(peers.MissingContender, match="numpy has no softmax"):
            peer.prepared()
    finally:
        peer.close()
