"""What a comparison of whole models says of its times, and what it keeps."""

from __future__ import annotations

import json
from pathlib import Path

import model_peers
import numpy as np
import pytest
import zoo.report
from peers import OURS
from zoo.report import ModelResult, mean_of, save, table_of

from tilesmith.measure.compare.method import ContestRounds


def result(name: str, ours: float, peer: float) -> ModelResult:
    about = {"ready_seconds": 1.0, "error": 1e-6, "beyond_weights": 5_000_000}
    mine = {**about, "calls": 3, "kernels": 2}
    rounds = ContestRounds({OURS: [ours] * 3, "torch": [peer] * 3, "openvino": [2 * peer] * 3})
    facts = {"stages": 9, "import_seconds": 0.5, "weight_bytes": 100}
    return ModelResult(name, facts, {OURS: mine, "torch": about, "openvino": about}, rounds, {"onnxruntime": "absent"})


def test_the_ratio_is_to_the_fastest_peer() -> None:
    found = result("one", 0.002, 0.003)
    assert found.best == "torch"
    assert found.ratio is not None
    assert found.ratio.middle == pytest.approx(1.5)
    assert mean_of([found, result("two", 0.002, 0.006)]) == pytest.approx(4.5**0.5)
    cells = [list(column.cells) for column in table_of([found], [OURS, "torch", "onnxruntime"], 2, 0).columns]
    assert [column[0] for column in cells[:5]] == ["one", "2.00", "3.00*", "", "1.50x"]


def test_a_file_gathers_the_models_of_one_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zoo.report, "results_folder", lambda: tmp_path)
    monkeypatch.setattr(zoo.report, "describe", lambda: {"model": "a"})
    save([result("one", 0.002, 0.003)], 2, 0, 0)
    path = save([result("two", 0.002, 0.004), result("one", 0.001, 0.004)], 2, 0, 0)
    kept = json.loads(path.read_text())
    assert [(row["name"], row["ratios"]["torch"]["middle"]) for row in kept["rows"]] == [("one", 4.0), ("two", 2.0)]
    assert kept["geomean"] == pytest.approx(8**0.5)
    monkeypatch.setattr(zoo.report, "describe", lambda: {"model": "b"})
    save([result("three", 0.002, 0.004)], 2, 0, 0)
    assert [row["name"] for row in json.loads(path.read_text())["rows"]] == ["three"]


def test_an_error_is_of_the_largest_value_of_its_result() -> None:
    right = [np.array([0.0, 4.0]), np.array([100.0])]
    assert model_peers._error([np.array([1.0, 4.0]), np.array([100.0])], right) == 0.25
    assert model_peers._error([np.array([[0.0, 4.0]]), np.array([100.0])], right) == np.inf
    assert np.isnan(model_peers._error([np.array([0.0, 4.0]), np.array([np.nan])], right))
