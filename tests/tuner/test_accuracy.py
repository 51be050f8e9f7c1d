"""Strict accuracy: nothing but orders of sums changes, wherever the kernel comes from, and its records are kept apart."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import pytest

import tilesmith
from tilesmith import ops
from tilesmith.codegen.backends.cpu import builder_version
from tilesmith.common.errors import ArgumentError, TemplateError
from tilesmith.measure.result import Measurement, Purpose, Status
from tilesmith.schedules.auto import derive
from tilesmith.schedules.schedule import Schedule
from tilesmith.schedules.sketch import Sketch
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor.accuracy import Accuracy
from tilesmith.tensor.printing import print_program
from tilesmith.tensor.program import Program
from tilesmith.tensor.rewrites.registry import REWRITES, is_allowed
from tilesmith.tensor.text.canonical import family_key, program_key
from tilesmith.tuner.apply import tiers
from tilesmith.tuner.apply.pick import Pick
from tilesmith.tuner.apply.tiers import picks
from tilesmith.tuner.records import data as records
from tilesmith.tuner.records import schema, sources
from tilesmith.tuner.records.data import Machine, TaskIdentity, Trial, canonical_config
from tilesmith.tuner.records.database import Database
from tilesmith.tuner.records.log import export_log, import_log

HOST = parse_target("host")
AMX = parse_target("x86:avx512+amx")
CONVOLUTION = ops.conv2d(1, 16, 12, 12, 16, kernel=3, padding=1)
ATTENTION = ops.attention(1, 512, 512, 32)
PROGRAMS = {"convolution": CONVOLUTION, "attention": ATTENTION, "product": ops.matmul(64, 64, 64)}
LOOSE = {
    "winograd", "winograd_taps", "bf16_products", "bf16_dots", "bf16_tile_dots", "block_softmax", "factor_sums",
    "online_softmax", "pin_reductions", "trim_reductions",
}  # fmt: skip


@pytest.fixture(autouse=True)
def own_cache(cache_with_drafts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "shipped_logs", tuple)


def best_pick(task: Task, db: Path) -> Pick:
    return next(picks(task, db))


def names(sketches: tuple[Sketch, ...]) -> set[str]:
    return {rewrite.name for sketch in sketches for rewrite in sketch.rewrites}


def identity(program: Program, accuracy: Accuracy, threads: int = 1) -> TaskIdentity:
    task = Task.of(program, HOST, threads, accuracy)
    found = TaskIdentity(
        program_key(task.program), family_key(task.program), task.text, print_program(program),
        HOST.key, HOST.text, threads, accuracy,
    )  # fmt: skip
    assert found.key == task.key
    return found


def remember(path: Path, program: Program, accuracy: Accuracy, sketch: Sketch, seconds: float) -> None:
    """A record of some valid config of a sketch."""
    task, owner = Task.of(program, HOST, 1, accuracy), identity(program, accuracy)
    parameters = sketch.config_space(task.body, HOST).parameters
    config = {t.name: p.values[0] for t, p in zip(sketch.tunables, parameters, strict=True)}
    with Database(path) as database:
        database.add_task(owner)
        database.add_machine(Machine("m", "a machine"))
        database.add_sketches([records.StoredSketch(sketch.key, sketch.text)])
        run = database.begin_run(owner.key, "{}").id
        measurement = Measurement(Status.OK, (seconds,), builder=builder_version())
        database.add(
            Trial(owner.key, sketch.key, canonical_config(config), "m", run, Purpose.SEARCH, measurement, seconds)
        )


def with_rewrite(program: Program, name: str) -> Sketch:
    return next(s for s in Task.of(program, HOST, 1).sketches if any(r.name == name for r in s.rewrites))


def without_rewrites(program: Program) -> Sketch:
    return next(s for s in Task.of(program, HOST, 1, "strict").sketches[1:])


def test_each_rewrite_says_whether_it_only_reorders() -> None:
    assert {name for name, one in REWRITES.items() if not one.only_reorders} == LOOSE
    assert all(is_allowed(name, "default") for name in REWRITES)
    assert not is_allowed("of a later version", "strict")


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_strict_space_holds_nothing_else(name: str) -> None:
    body = Task.of(PROGRAMS[name], HOST, 1).body
    strict = derive(body, AMX, accuracy="strict")
    assert len(strict) > 1 and all(REWRITES[found].only_reorders for found in names(strict))
    assert names(derive(body, AMX)) & LOOSE  # there is something to refuse


def test_a_template_keeps_what_is_strict() -> None:
    def perhaps(s: Schedule) -> None:
        if s.variant("online", [True, False]):
            s.rewrite("online_softmax", stage=next(x.name for x in s.program.stages if x.combiner == "max"))

    def always(s: Schedule) -> None:
        s.rewrite("online_softmax", stage=next(x.name for x in s.program.stages if x.combiner == "max"))

    task = Task.of(ops.softmax(8, 64), HOST, 1, "strict")
    assert [s.title for s in task.sketches_of(perhaps)] == ["default", "perhaps(online=false)"]
    with pytest.raises(TemplateError, match="'always' has no sketch of strict accuracy"):
        task.sketches_of(always)


def test_default_keys_are_what_they_were_and_strict_ones_differ() -> None:
    default, strict = (identity(CONVOLUTION, accuracy) for accuracy in ("default", "strict"))
    assert default.key == records.task_key(default.program_key, default.target_key, 1)
    assert records.task_key("p", "t", 1, "default").startswith("6541e3b673afca22")  # stored everywhere
    assert records.task_key("p", "t", 1, "strict").startswith("19aa237c83b5")  # so is this now
    assert strict.key != default.key


def test_records_of_both_kinds_are_kept_apart_and_serve_where_they_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiers, "CLEARLY", float("inf"))  # the configs are not good ones
    db = tmp_path / "a.sqlite"
    fast, plain = with_rewrite(CONVOLUTION, "winograd"), without_rewrites(CONVOLUTION)
    remember(db, CONVOLUTION, "default", fast, 1e-3)
    strict, default = (Task.of(CONVOLUTION, HOST, 1, accuracy) for accuracy in ("strict", "default"))
    assert best_pick(default, db).sketch.key == fast.key
    assert best_pick(strict, db).provenance.tier == "analytic" and best_pick(strict, db).sketch.keeps("strict")
    remember(db, CONVOLUTION, "default", plain, 2e-3)
    near = best_pick(strict, db)
    assert (near.provenance.tier, near.provenance.record, near.sketch.key) == ("near", 2, plain.key)
    remember(db, CONVOLUTION, "strict", plain, 3e-3)
    assert (best_pick(strict, db).provenance.tier, best_pick(strict, db).provenance.record) == ("exact", 3)
    assert best_pick(default, db).provenance.record == 1

    other = ops.conv2d(1, 16, 13, 13, 16, kernel=3, padding=1)
    assert best_pick(Task.of(other, HOST, 1), db).provenance.tier == "family"
    assert best_pick(Task.of(other, HOST, 1, "strict"), db).sketch.keeps("strict")


def test_a_record_that_lies_about_its_accuracy_does_not_serve(tmp_path: Path) -> None:
    remember(tmp_path / "a.sqlite", CONVOLUTION, "strict", with_rewrite(CONVOLUTION, "winograd"), 1e-3)
    assert best_pick(Task.of(CONVOLUTION, HOST, 1, "strict"), tmp_path / "a.sqlite").provenance.tier == "analytic"


def test_a_kernel_says_its_accuracy(tmp_path: Path) -> None:
    program = ops.row_sum(8, 40)
    strict = tilesmith.compile(program, db=tmp_path / "none.sqlite", threads=1, accuracy="strict")
    plain = tilesmith.compile(program, db=tmp_path / "none.sqlite", threads=1)
    assert "strict accuracy" in str(strict.provenance) and "accuracy" not in str(plain.provenance)
    data = np.ones((8, 40), np.float32)
    np.testing.assert_array_equal(strict(data), plain(data))
    with pytest.raises(ArgumentError, match="unknown accuracy 'exact'"):
        tilesmith.compile(program, accuracy="exact")  # type: ignore[arg-type]


def test_a_log_carries_it_and_lines_of_the_default_do_not(tmp_path: Path) -> None:
    plain = without_rewrites(CONVOLUTION)
    remember(tmp_path / "a.sqlite", CONVOLUTION, "strict", plain, 1e-3)
    remember(tmp_path / "a.sqlite", CONVOLUTION, "default", plain, 2e-3)
    with Database(tmp_path / "a.sqlite") as first, Database(tmp_path / "b.sqlite") as second:
        export_log(first, tmp_path / "a.jsonl")
        assert import_log(tmp_path / "a.jsonl", second).new == 2
        assert {task.key for task in second.tasks()} == {identity(CONVOLUTION, a).key for a in ("strict", "default")}
    lines = (tmp_path / "a.jsonl").read_text().splitlines()
    assert sorted('"accuracy":"strict"' in line for line in lines) == [False, True]
    assert sum("accuracy" in line for line in lines) == 1


def test_a_database_of_before_is_read_as_it_is_and_written_after_one_step(tmp_path: Path) -> None:
    path = tmp_path / "old.sqlite"
    with sqlite3.connect(path) as connection:
        connection.executescript((Path(__file__).parents[1] / "data" / "schema_1.sql").read_text())
        connection.executescript(schema.MIGRATIONS[1])
        connection.execute("PRAGMA user_version = 2")
    with Database(path, read_only=True) as database:
        (task,) = database.tasks()
        assert task.accuracy == "default" and database.best(task.key)
    with Database(path) as database:
        assert database.tasks() == [task] and database.best(task.key)
