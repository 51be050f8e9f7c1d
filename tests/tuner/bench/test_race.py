"""Contenders in processes of their own: who takes part, who differs, and what is told of it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from helpers.command_line.records import Call
from tilesmith import ops
from tilesmith.graph.model import Model
from tilesmith.measure.compare.contender import MissingContender
from tilesmith.measure.compare.method import Method
from tilesmith.tuner.bench import race
from tilesmith.tuner.bench.child import prepare
from tilesmith.tuner.bench.subject import Subject, arrays_of

MODEL_PROGRAM = ops.matmul(4, 5, 6, constants=["B"])


class Still:
    """Noise that is none."""

    def start(self) -> None:
        pass

    def stop(self) -> tuple[float, float]:
        return 0.0, 1.0


class Played(race.BenchPeer):
    """A contender without a process: `samples` says what each computes."""

    samples: dict[str, float]

    def __init__(self, name: str, threads: int, folder: Path) -> None:
        self.name, self.process, self.how, self.sample = name, 0, "played", []

    def prepare(self, folder: Path, database: str | None) -> None:
        pass

    def prepared(self) -> None:
        if self.name not in self.samples:
            raise MissingContender("not installed: pip install it")
        self.sample = [[self.samples[self.name], 1.0]]

    def run(self, seconds: float) -> float:
        return {"tilesmith": 1.0}.get(self.name, 3.0)

    def close(self) -> None:
        pass


def played(monkeypatch: pytest.MonkeyPatch, samples: dict[str, float]) -> race.Comparison:
    monkeypatch.setattr(race, "BenchPeer", Played)
    monkeypatch.setattr(Played, "samples", samples, raising=False)
    return race.compare(Path(), ["numpy", "torch"], 1, Method(rounds=3), None, lambda threads, processes: Still())


def test_ours_is_held_against_each_in_the_same_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, numpy, torch = played(monkeypatch, {"tilesmith": 0.5, "numpy": 0.5001}).contenders
    assert ours.ratio is None and ours.seconds is not None and ours.seconds.middle == 1.0
    assert numpy.ratio is not None and numpy.ratio.middle == 3.0 and numpy.difference == pytest.approx(1e-4)
    assert torch.missing == "not installed: pip install it" and torch.seconds is None


def test_who_computes_something_else_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    found = played(monkeypatch, {"tilesmith": 0.5, "numpy": 0.6, "torch": 0.5})
    assert [one.agrees for one in found.contenders] == [True, False, True] and not found.agrees
    assert set(found.rounds.seconds) == {"tilesmith", "torch"}


def test_the_command_compares_tells_and_says_what_to_install(call: Call, tmp_path: Path) -> None:
    words = (
        "row_sum",
        "rows=24",
        "columns=40",
        "--against",
        "numpy,tvm",
        "--rounds",
        "2",
        "--seconds",
        "0.002",
        "--json",
    )
    answer = call("bench", *words)
    assert answer.code == 0, answer.err
    told = json.loads(answer.out)
    ours, numpy, tvm = told["contenders"]
    assert ours["how"].startswith("analytic") and ours["seconds"]["middle"] > 0
    assert numpy["agrees"] and numpy["difference"] < 1e-5 and numpy["ours_is_faster"]["middle"] > 0
    assert "pip install" in tvm["missing"]
    assert len(told["rounds"]["numpy"]) == 2 and told["machine"]["libraries"]["numpy"]


def test_an_unknown_peer_is_named_before_anything_runs(call: Call) -> None:
    answer = call("bench", "row_sum", "rows=24", "columns=40", "--against", "nunpy")
    assert answer.code == 2 and "did you mean numpy?" in answer.err


def test_a_model_goes_to_all_contenders_with_its_weights(tmp_path: Path) -> None:
    weights = np.random.default_rng(1).random((6, 5), np.float32)
    Subject(MODEL_PROGRAM, Model(MODEL_PROGRAM, {"B": weights})).write(tmp_path)
    request = {"folder": str(tmp_path), "threads": 1, "database": str(tmp_path / "none.sqlite")}
    _, answer, _ = prepare({**request, "library": "tilesmith"})
    made = arrays_of(tmp_path)["A"] @ weights
    values = answer["sample"][0]  # type: ignore[index]
    assert max(values) == pytest.approx(float(made.max()), rel=1e-5) and len(values) == 512
    with pytest.raises(MissingContender, match="runs no models"):
        prepare({**request, "library": "numpy"})
