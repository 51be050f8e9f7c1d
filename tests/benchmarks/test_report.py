"""What the benchmarks say of a comparison, on times that are made up."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import cpu
import pytest
import report
import workloads
from method import Rounds
from rich.console import Console

from tilesmith.measure.calibrate import ceilings
from tilesmith.targets.target import parse_target


def result(row: Any, ours: list[float], peer: list[float], loop: float) -> Any:
    rounds = Rounds({"tilesmith": ours, "torch": peer, "ceiling": [loop] * len(ours)}, 2, 1)
    names = ["tilesmith", "torch", "ceiling"]
    return cpu.summary(
        row, names, rounds, ceilings(parse_target("host"), 1), {"openvino": "not installed"}, "exact: record 7", "copy"
    )


def written(results: list[Any]) -> str:
    console = Console(width=250, record=True, file=io.StringIO())
    console.print(report.table_of("rows", results, ["tilesmith", "torch", "openvino", "ceiling"]))
    return console.export_text()


def test_a_row_is_held_against_what_is_asked_of_it() -> None:
    row = workloads.matmul("matmul", 64, 64, 64, bar=1.5, share=0.9)
    slow = result(row, [1.0, 1.0, 1.0, 1.0, 1.0], [1.4, 1.4, 1.4, 1.6, 1.6], 0.8)
    assert slow.ratio.middle == pytest.approx(1.4) and slow.share == pytest.approx(0.8)
    assert slow.verdicts() == [(">= 1.50x", True), (">= 90%", False)], "of a ratio the upper quartile counts"
    text = written([slow])
    assert ">= 1.50x met, >= 90% missed" in text and "5 (2 repeated, 1 noisy)" in text and "1.40x" in text


def test_the_mean_leaves_out_what_stands_apart() -> None:
    two, eight = (result(workloads.matmul("ragged", m, 8, 8), [1.0], [float(m)], 1.0) for m in (2, 8))
    apart = result(workloads.matmul("ragged", 1, 8, 8, apart=True), [1.0], [100.0], 1.0)
    line = report.mean_line("ragged", [two, eight, apart])
    assert line == "geometric mean over the best peers (without matmul 1x8x8): 4.00x, asked 1.15x: met"
    close = [result(workloads.matmul("ragged", 2, 8, 8), [1.0], [1.12], 1.0)]
    assert report.mean_line("ragged", close).endswith("asked 1.15x: missed")
    assert report.mean_line("ragged", close, less=0.05).endswith("asked 1.10x: met")


def test_groups_that_ask_for_a_mean_exist() -> None:
    assert set(workloads.MEANS) <= set(workloads.groups())


def test_all_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    found = result(workloads.matmul("matmul", 8, 8, 8), [1.0, 2.0], [3.0, 4.0], 1.0)
    path = report.save("matmul", [found], 1, 3, ceilings(parse_target("host"), 1))
    kept = json.loads(path.read_text())
    assert path.name == "cpu-matmul-1t.json" and kept["machine"] and kept["seed"] == 3
    (row,) = kept["rows"]
    assert row["name"] == "matmul 8x8x8" and row["seconds"]["torch"] == [3.0, 4.0]
    assert row["missing"] == {"openvino": "not installed"} and row["provenance"] == "exact: record 7"
