"""The kernels of a model are timed inside of it, and what is the fastest there is served."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tilesmith as ts
from tilesmith.codegen.artifact import Artifact
from tilesmith.codegen.rows import ArgumentRows
from tilesmith.common.errors import ScheduleError
from tilesmith.graph.executor.provenance import ModelProvenance
from tilesmith.graph.model import Model
from tilesmith.measure.local import LocalRunner
from tilesmith.measure.process.builder import Built
from tilesmith.measure.result import Job, Measurement, Purpose, Status
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tuner.apply.pick import Pick
from tilesmith.tuner.kernels import Kernels, parts_of
from tilesmith.tuner.racing import race, racer
from tilesmith.tuner.racing.race import ModelRace, races_of
from tilesmith.tuner.racing.racer import Chosen, Race, Racer, lineups
from tilesmith.tuner.records.database import Database
from tilesmith.tuner.watching.watch import Silent

HOST = parse_target("host")
WIDTHS = (20, 24, 24, 17)


def model() -> Model:
    lines, previous, constants = ["input x: f32[6, 20]"], "x", {}
    rng = np.random.default_rng(0)
    for number, (inside, outside) in enumerate(pairwise(WIDTHS)):
        lines += [
            f"constant w{number}: f32[{inside}, {outside}]",
            f"m{number}[i: 6, j: {outside}] = sum[k: {inside}]({previous}[i, k] * w{number}[k, j])",
            f"y{number}[i: 6, j: {outside}] = max(m{number}[i, j], 0)",
        ]
        previous = f"y{number}"
        constants[f"w{number}"] = rng.normal(0, 0.3, (inside, outside)).astype(np.float32)
    return Model(ts.parse("\n".join([*lines, f"return {previous}"])), constants, "layers")


def expected(x: np.ndarray) -> np.ndarray:
    for weight in model().constants.values():
        x = np.maximum(x @ np.asarray(weight), 0)
    return x


def kernels() -> Kernels:
    parts = parts_of(model().program, HOST)
    assert parts is not None
    return Kernels.of(parts, HOST, 1, "default")


def test_what_was_chosen_inside_of_the_model_is_served(tmp_path: Path) -> None:
    db = tmp_path / "a.sqlite"
    ts.tune(model(), trials=18, threads=1, progress=False, db=db)
    keys = [task.key for task in kernels().tasks]
    with Database(db) as database:
        chosen = [[r for r in database.records(key) if r.trial.purpose is Purpose.MODEL] for key in keys]
        assert [len(records) for records in chosen] == [1] * len(keys)
        assert all(r.trial.measurement.builder and len(r.trial.measurement.times) >= 10 for (r,) in chosen)
        assert [database.best(key)[0].id for key in keys] == [record.id for (record,) in chosen]
    kernel = ts.compile(model(), threads=1, db=db)
    assert isinstance(kernel.provenance, ModelProvenance)
    served = [call.provenance for call in kernel.provenance.calls]
    assert {one.record for one in served} == {record.id for (record,) in chosen}  # type: ignore[attr-defined]
    x = np.random.default_rng(1).normal(0, 1, (6, 20)).astype(np.float32)
    np.testing.assert_allclose(kernel(x), expected(x), rtol=1e-5, atol=1e-6)
    again = ts.tune(model(), trials=24, threads=1, progress=False, db=db)
    assert all(task.best is not None and task.best.trial.purpose is Purpose.MODEL for task in again.tasks)


class Hearing(Silent):
    """A watcher that notes what it hears when trials are over."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, int]] = []

    def racing(self, doing: str, percent: int) -> None:
        self.heard.append((doing, percent))


def test_those_who_watch_hear_how_far_it_is(tmp_path: Path) -> None:
    watcher = Hearing()
    ts.tune(model(), trials=9, threads=1, progress=watcher, db=tmp_path / "a.sqlite")
    stages = (racer.BUILDING, racer.TIMING, racer.COMPARING)
    assert tuple(dict.fromkeys(doing for doing, _ in watcher.heard)) == stages
    for stage in stages:
        percents = [percent for doing, percent in watcher.heard if doing == stage]
        assert percents == sorted(percents) and percents[0] == 0 and 50 < percents[-1] < 100


def test_trials_of_a_model_are_cold(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen: list[bool] = []

    def submitted(self: LocalRunner, job: Job, built: Built | None = None) -> None:
        seen.append(job.cold)
        original(self, job, built)

    original = LocalRunner.submit
    monkeypatch.setattr(LocalRunner, "submit", submitted)
    ts.tune(model().program, trials=4, threads=1, progress=False, db=tmp_path / "a.sqlite")
    assert seen and all(seen)
    seen.clear()
    ts.tune(ts.ops.matmul(8, 9, 10, constants=("B",)), trials=2, threads=1, progress=False, db=tmp_path / "b.sqlite")
    assert seen and not any(seen)


def test_the_child_chooses_one_of_the_candidates_for_each_kernel(tmp_path: Path) -> None:
    model().save(tmp_path / "saved")
    tasks, link = kernels().tasks, SimpleNamespace(stage=lambda name, item: None)
    given = {task.key: [("", {}), (task.sketches[1].text, {})] for task in tasks[:1]}
    found = Racer().handle(Race(str(tmp_path / "saved"), HOST.text, 1, "default", {}), link)  # type: ignore[arg-type]
    assert isinstance(found, dict) and set(found) == {task.key for task in tasks}
    assert all(one.times and min(one.times) > 0 for one in found.values())
    more = Racer().handle(Race(str(tmp_path / "saved"), HOST.text, 1, "default", given), link)  # type: ignore[arg-type]
    assert isinstance(more, dict)  # a sketch with tunables that nobody set cannot be built
    missing = Racer().handle(Race(str(tmp_path / "none"), HOST.text, 1, "default", {}), link)  # type: ignore[arg-type]
    assert isinstance(missing, str) and "none" in missing


def test_lineups_take_what_is_the_fastest_at_each_price() -> None:
    assert racer.PRICES == (0.0, 0.35, 0.7, 1.0)
    seconds = [[5.5, 4.0, 3.0], [2.0, 1.9, float("inf")], [1.0]]
    kept = [[0.0, 2.0, 4.0], [0.0, 7.0, 0.0], [9.0]]
    assert lineups(seconds, kept, (1, 1, 0)) == [(0, 0, 0), (1, 1, 0), (2, 1, 0), (2, 0, 0), (1, 0, 0)]


def test_what_cannot_be_built_costs_itself_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = kernels()
    unscheduled = ("", {})

    def broken(task: Task, pick: Pick, rows: ArgumentRows) -> Artifact:
        if pick.sketch.steps:
            raise ScheduleError("it cannot be built")
        return original(task, pick, rows)

    original = racer.built
    monkeypatch.setattr(racer, "built", broken)
    (found,) = racer._buildable(whole, 0, [unscheduled])
    assert not found.pick.sketch.steps and found.kept == 4 * 20 * 24
    assert racer._leader([found], [unscheduled]) == 0
    with pytest.raises(ScheduleError):
        racer._buildable(whole, 0, [])


def test_the_fastest_lineup_is_that_of_the_whole_model() -> None:
    whole = kernels()
    assert whole.number == (0, 1, 2)
    runs = [((0, 0, 0), [1.0, 1.0, 1.0]), ((1, 0, 0), [0.5, 1.0, 2.0]), ((0, 0, 0), [1.0, 1.0, 1.2])]
    best, calls = racer._fastest(runs, whole)
    assert best == (0, 0, 0) and calls == [[1.0, 1.0, 1.0], [1.0, 1.0, 1.2]]


def test_only_models_of_several_kernels_are_raced() -> None:
    whole = model()
    found = races_of([whole, whole.program, whole], [kernels(), kernels(), None])
    assert [one.model for one in found] == [whole]


def test_a_race_that_fails_costs_nothing_but_a_warning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(race, "Racer", SimpleNamespace(__module__="tilesmith.nowhere", __qualname__="Nobody"))
    with pytest.warns(UserWarning, match="not timed inside"):
        result = ts.tune(model(), trials=9, threads=1, progress=False, db=tmp_path / "a.sqlite")
    assert all(task.best is not None for task in result.tasks)
    assert not any(record.trial.purpose is Purpose.MODEL for record in result.records)


@pytest.mark.parametrize("status", [Status.OK, Status.WRONG_RESULT])
def test_what_had_no_trial_is_checked_before_it_counts(status: Status) -> None:
    """As the analytic model's own pick may be."""
    recorded: list[tuple[str, Purpose]] = []
    session = SimpleNamespace(
        problem=SimpleNamespace(candidate=lambda sketch, config: "drafted", builder="b"),
        leaders=lambda: ["known"],
        job=lambda candidate, number, purpose: (candidate, purpose),
        record=lambda candidate, measurement, purpose: recorded.append((candidate, purpose)),
    )
    runner = SimpleNamespace(confirm=lambda jobs: [(0, Measurement(status, (1e-3,)))])
    lane: Any = SimpleNamespace(session=session)
    race._record(lane, Chosen("", {}, (1e-3,)), runner)  # type: ignore[arg-type]
    right = [("drafted", Purpose.MODEL)] if status is Status.OK else []
    assert recorded == [("drafted", Purpose.CONFIRM), *right]
    session.leaders = lambda: ["drafted"]
    recorded.clear()
    race._record(lane, Chosen("", {}, (1e-3,)), runner)  # type: ignore[arg-type]
    assert recorded == [("drafted", Purpose.MODEL)]


def test_a_runner_elsewhere_runs_no_model() -> None:
    ModelRace(model(), kernels().tasks).run([], SimpleNamespace())  # type: ignore[arg-type]
