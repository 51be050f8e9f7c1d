"""Callbacks of a search: what they hear, that they cost it nothing, and the ready ones."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import tilesmith
from helpers.command_line.at_once import AtOnce
from tilesmith.codegen.backends.cpu import builder_version
from tilesmith.common.errors import ArgumentError, MissingExtra
from tilesmith.measure.result import Failure, Job, Measurement, Status
from tilesmith.tuner.callbacks import Callback, CsvLog, MLflowLog, TensorBoardLog, TrialEvent

PROGRAM = tilesmith.ops.matmul(m=48, n=48, k=48)
TRIALS = 8


def falling() -> Callable[[Job], Measurement]:
    """Each third trial crashes, each other one takes a time of its own."""
    times = iter([5.0, 4.0, 0.0, 6.0, 3.0, 0.0, 2.0, 7.0])

    def ended(job: Job) -> Measurement:
        seconds = next(times, 9.0)
        if not seconds:
            return Measurement(Status.CRASH, failure=Failure("time", "signal 11\nmore"))
        return Measurement(Status.OK, (seconds * 1e-3,), builder=builder_version())

    return ended


def tune(path: Path, **options: Any) -> tilesmith.TuneResult:
    return tilesmith.tune(
        PROGRAM, runner=AtOnce(falling()), strategy="random", trials=TRIALS, threads=1, progress=False, db=path / "a.sqlite",
        **options,
    )  # fmt: skip


def test_functions_hear_of_each_trial_and_of_each_best_one(tmp_path: Path) -> None:
    trials: list[TrialEvent] = []
    best: list[TrialEvent] = []
    result = tune(tmp_path, on_trial=trials.append, on_best=best.append)
    assert [event.number for event in trials] == list(range(1, TRIALS + 1))
    assert best == [event for event in trials if event.is_best] and len(best) == 4
    assert all(later.seconds < earlier.seconds for earlier, later in pairwise(best))
    failed = [event for event in trials if not event.measurement.ok]
    assert len(failed) == 2 and all(event.seconds == float("inf") for event in failed)
    searched = [record for record in result.records if record.trial.purpose == "search"]
    assert [dict(event.config) for event in trials] == [record.config for record in searched]
    assert trials[-1].best == best[-1].seconds and trials[0].task == "matmul_f32_48x48x48"


class Broken(Callback):
    calls = 0

    def on_trial(self, event: TrialEvent) -> None:
        Broken.calls += 1
        raise OSError("the disk is full")


class Ended(Callback):
    def __init__(self) -> None:
        self.heard: list[str] = []

    def on_trial(self, event: TrialEvent) -> None:
        self.heard.append("trial")

    def close(self) -> None:
        self.heard.append("end")


def test_what_one_raises_is_told_once_and_the_search_and_the_others_go_on(tmp_path: Path) -> None:
    other = Ended()
    with pytest.warns(RuntimeWarning, match="the callback Broken raised OSError: the disk is full") as caught:
        result = tune(tmp_path, callbacks=[Broken(), other])
    assert len([one for one in caught if "Broken" in str(one.message)]) == 1 and Broken.calls == 1
    assert other.heard == ["trial"] * TRIALS + ["end"] and result.best is not None
    assert sum(record.trial.purpose == "search" for record in result.records) == TRIALS


def test_what_is_no_callback_is_refused_before_anything_runs(tmp_path: Path) -> None:
    for wrong in ({"callbacks": [print]}, {"on_trial": 3}):
        with pytest.raises(ArgumentError):
            tune(tmp_path, **wrong)
    assert not (tmp_path / "a.sqlite").exists()


def test_csv_has_a_line_for_each_trial_and_goes_on_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "trials.csv"
    tune(tmp_path, callbacks=[CsvLog(path)])
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["trial"] for row in rows] == [str(number) for number in range(1, TRIALS + 1)]
    assert [row["status"] for row in rows].count("crash") == 2 and {"signal 11"} == {
        r["message"] for r in rows if r["message"]
    }
    assert float(rows[-1]["best_seconds"]) == min(float(row["seconds"]) for row in rows if row["seconds"])
    CsvLog(path).on_trial(TrialEvent("t", "k", 9, "", {}, Measurement(Status.OK, (1.0,))))
    assert len(path.read_text().splitlines()) == TRIALS + 2


class Notes(SimpleNamespace):
    """A module that notes its calls."""

    def __init__(self, **given: Any) -> None:
        super().__init__(calls=[], **given)

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *given, **named: self.calls.append((name, *given, *named.values()))


def test_tensorboard_gets_curves_and_the_best_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notes, module = Notes(), ModuleType("tensorboardX")
    module.SummaryWriter = lambda folder: notes  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tensorboardX", module)
    tune(tmp_path, callbacks=[TensorBoardLog(tmp_path)])
    names = [call[0] for call in notes.calls]
    assert names.count("add_text") == 4 and names[-1] == "close"
    assert ("add_scalar", "matmul_f32_48x48x48/best_seconds", 0.002, 8) in notes.calls


@pytest.mark.parametrize("active", [None, "a run of the caller"])
def test_mlflow_logs_into_the_active_run_or_one_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, active: str | None
) -> None:
    notes = Notes(active_run=lambda: active)
    monkeypatch.setitem(sys.modules, "mlflow", notes)  # type: ignore[arg-type]
    tune(tmp_path, callbacks=[MLflowLog(run_name="mine")])
    names = [call[0] for call in notes.calls]
    assert names.count("log_metrics") == TRIALS and names.count("set_tag") == 4
    assert (names[0] == "start_run" and names[-1] == "end_run") is (active is None)


def test_real_packages_take_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tensorboardX")
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    tune(tmp_path, callbacks=[TensorBoardLog(tmp_path / "board"), MLflowLog(run_name="mine")])
    assert any((tmp_path / "board").glob("events*")) and any((tmp_path / "runs").rglob("best_seconds"))


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("tensorboardX", "torch.utils.tensorboard", "mlflow"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtra, match=r"tensorboardX") as caught:
        TensorBoardLog(tmp_path)
    assert "pip install 'tilesmith[tensorboard]'" in str(caught.value)
    with pytest.raises(MissingExtra, match="mlflow"):
        MLflowLog()
