"""What the benchmarks say of a comparison, on times that are made up."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

import cpu
import peers
import pytest
import report
import workloads
from results_folder import results_folder
from rich.console import Console

from tilesmith.measure.calibrate.calibrate import ceilings
from tilesmith.measure.compare.method import ContestRounds, Method
from tilesmith.targets.target import parse_target


def result(row: Any, ours: list[float], peer: list[float], loop: float) -> Any:
    rounds = ContestRounds({"tilesmith": ours, "torch": peer, "ceiling": [loop] * len(ours)}, 2, 1)
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


def beside(ours: list[float], other: list[float]) -> Any:
    """A row of half the work of the one that it is measured beside."""
    row = workloads.matmul("ragged", 8, 16, 16, beside=workloads.Beside(workloads.matmul("ragged", 16, 16, 16), 0.93))
    rounds = ContestRounds({"tilesmith": ours, "torch": [1.0] * len(ours), "beside": other})
    return cpu.summary(row, list(rounds.seconds), rounds, ceilings(parse_target("host"), 1), {}, "", "")


def test_a_row_is_held_against_the_rate_of_the_row_beside_it() -> None:
    close = beside([1.0, 1.0, 2.0], [1.9, 1.8, 3.2])
    assert close.beside.middle == pytest.approx(0.9), "round by round, by the work of each"
    assert "beside" not in close.speeds and close.best == "torch", "it is no rival"
    (line,) = report.beside_lines([close])
    assert line.startswith("matmul 8x16x16: share of the rate of matmul 16x16x16: 90.0% (")
    assert line.endswith("asked 93%: missed)")
    assert close.verdicts() == [(">= 93% of matmul 16x16x16", False)]
    near = beside([1.0], [1.86])
    assert near.holds_beside and report.beside_lines([near])[0].endswith("asked 93%: met)")
    assert report.beside_lines([result(workloads.matmul("ragged", 8, 8, 8), [1.0], [1.0], 1.0)]) == []


def test_our_kernel_of_the_row_beside_runs_in_the_same_rounds() -> None:
    asked = workloads.matmul("ragged", 8, 16, 16, beside=workloads.Beside(workloads.matmul("ragged", 16, 16, 16), 0.93))
    rows: list[str] = []

    class Contender:
        threads, process, sample, truth, provenance = 1, os.getpid(), (1.0,), (), ""

        def __init__(self, name: str) -> None:
            self.name = name

        def prepare(self, row: Any, database: str | None) -> None:
            rows.append(row.name)
            self.sample = (float(row.sizes["m"]),)

        def prepared(self) -> None:
            pass

        def run(self, seconds: float) -> float:
            return 2.0 if self.name == "beside" else 1.0

    team: Any = [Contender("tilesmith"), Contender("beside")]
    peak, method = ceilings(parse_target("host"), 1), Method(rounds=2, patience=0)
    found = cpu.race(asked, team, peak, method, None)
    assert rows == ["matmul 8x16x16", "matmul 16x16x16"] and found.beside is not None
    assert found.beside.middle == pytest.approx(1.0) and found.rounds.seconds["beside"] == [2.0, 2.0]
    alone = cpu.race(workloads.matmul("ragged", 8, 8, 8), team, peak, method, None)
    assert rows[2:] == ["matmul 8x8x8"] and alone.beside is None


def test_groups_that_ask_for_a_mean_exist() -> None:
    assert set(workloads.MEANS) <= set(workloads.groups())


def test_all_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "results_folder", lambda: tmp_path)
    found = result(workloads.matmul("matmul", 8, 8, 8), [1.0, 2.0], [3.0, 4.0], 1.0)
    path = report.save("matmul", [found, beside([1.0], [1.86])], 1, 3, ceilings(parse_target("host"), 1))
    kept = json.loads(path.read_text())
    assert path.name == "cpu-matmul-1t.json" and kept["machine"] and kept["seed"] == 3
    row, held = kept["rows"]
    assert row["name"] == "matmul 8x8x8" and row["seconds"]["torch"] == [3.0, 4.0]
    assert row["missing"] == {"openvino": "not installed"} and row["provenance"] == "exact: record 7"
    assert row["beside"] is None and held["beside"]["row"] == "matmul 16x16x16"
    assert held["beside"]["asked"] == 0.93 and held["beside"]["share_of_rate"]["middle"] == pytest.approx(0.93)


@pytest.mark.parametrize(
    ("target", "folder"),
    [("x86:avx512", "avx512"), ("x86:avx512+amx", ""), ("x86:avx2", "avx2"), ("aarch64:neon", "neon")],
)
def test_figures_of_each_kind_of_processor_stand_apart(
    target: str, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("results_folder.RESULTS", tmp_path)
    found = results_folder(parse_target(target))
    assert found == tmp_path / folder and found.is_dir()


class _Answered:
    """A contender that has computed."""

    def __init__(self, name: str, sample: list[float], truth: list[float] | None = None) -> None:
        self.name, self.sample, self.truth = name, sample, truth or []


BYTES = workloads.narrow("int8", 8, 8, 8, "u8", "i8")


def test_sums_of_bytes_that_saturate_are_left_out() -> None:
    ours, other = _Answered("tilesmith", [40000.0, -3.0], [40000.0, -3.0]), _Answered("numpy", [40000.0, -3.0])
    wrong = cpu.check_agreement(BYTES, [ours, _Answered("torch.onednn", [32767.0, -3.0]), other])
    assert wrong == {"torch.onednn": "differs by 7.23e+03 at values of 4e+04"}


def test_our_own_sums_must_be_the_definition() -> None:
    ours = _Answered("tilesmith", [32767.0, -3.0], [40000.0, -3.0])
    with pytest.raises(ValueError, match=r"tilesmith differs by 7.23e.03 .* beside the definition"):
        cpu.check_agreement(BYTES, [ours, _Answered("torch.onednn", [32767.0, -3.0])])


def test_others_must_agree_where_the_definition_is_not_asked() -> None:
    row = workloads.matmul("matmul", 8, 8, 8)
    with pytest.raises(ValueError, match="torch differs by 1 at values of 2, beside tilesmith"):
        cpu.check_agreement(row, [_Answered("tilesmith", [2.0, 1.0]), _Answered("torch", [2.0, 2.0])])


def test_the_definition_is_sampled_where_results_are() -> None:
    peer = peers.Peer("tilesmith", 1)
    try:
        peer.prepare(BYTES)
        peer.prepared()
        assert peer.sample == peer.truth and max(map(abs, peer.truth)) > 2**15
    finally:
        peer.close()
