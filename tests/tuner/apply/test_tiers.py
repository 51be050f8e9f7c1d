"""Which records may serve a task: of near targets, not predicted clearly slower; and what follows where one does not build."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilesmith
from tilesmith.codegen.artifact import Artifact
from tilesmith.codegen.backends.cpu import builder_version
from tilesmith.common.errors import NoRecordError, ScheduleError
from tilesmith.measure.result import Measurement, Purpose, Status
from tilesmith.runtime.kernel import Kernel
from tilesmith.schedules.sketch import Sketch
from tilesmith.schedules.space import ConfigValue
from tilesmith.schedules.task import Task
from tilesmith.targets.host import missing_here
from tilesmith.targets.nearness import distance
from tilesmith.targets.target import Target, parse_target
from tilesmith.tensor.printing import print_program
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.canonical import family_key, program_key
from tilesmith.tensor.text.parse import parse
from tilesmith.tuner.apply import first_built, tiers
from tilesmith.tuner.apply.pick import Provenance
from tilesmith.tuner.apply.tiers import analytic_pick, picks
from tilesmith.tuner.effort import Draft
from tilesmith.tuner.records import sources
from tilesmith.tuner.records.data import Machine, StoredSketch, TaskIdentity, Trial, canonical_config
from tilesmith.tuner.records.database import Database

GPUS = ("cuda:sm_80", "cuda:sm_90a", "cuda:emulator")
Candidate = tuple[Sketch, Mapping[str, ConfigValue]]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILESMITH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sources, "shipped_logs", tuple)
    monkeypatch.setattr(tiers, "UNTUNED", Draft(population=600, generations=1, children=200))


def product(m: int = 64, n: int = 96, k: int = 48) -> Program:
    return parse(
        f"input a: f32[{m}, {k}]\ninput b: f32[{k}, {n}]\nc[i: {m}, j: {n}] = sum[k: {k}](a[i, k] * b[k, j])\nreturn c\n"
    )


def candidate(program: Program, target: str, threads: int = 1) -> Candidate:
    pick = analytic_pick(Task.of(program, parse_target(target), threads))
    return pick.sketch, pick.config


def remember(path: Path, program: Program, target: str, threads: int, found: Candidate, seconds: float = 1e-3) -> None:
    task = Task.of(program, parse_target(target), threads)
    identity = TaskIdentity(
        program_key(task.program), family_key(task.program), task.text, print_program(program),
        task.target.key, task.target.text, threads,
    )  # fmt: skip
    sketch, config = found
    with Database(path) as database:
        database.add_task(identity)
        database.add_machine(Machine("m", "a machine"))
        database.add_sketches([StoredSketch(sketch.key, sketch.text)])
        run = database.begin_run(identity.key, f"{seconds}").id
        measurement = Measurement(Status.OK, (seconds,), builder=builder_version())
        database.add(
            Trial(identity.key, sketch.key, canonical_config(config), "m", run, Purpose.SEARCH, measurement, seconds)
        )
        database.end_run(run, finished=True, spent=0.0)


def provenance_of(kernel: Kernel) -> Provenance:
    assert isinstance(kernel.provenance, Provenance)
    return kernel.provenance


def processors() -> list[str]:
    """Targets that run here, of different vectors."""
    named = ("host", "x86:avx512", "x86:avx2", "x86:sse2")
    return [name for name in named if not missing_here(parse_target(name))]


def test_distances_of_targets() -> None:
    targets = [parse_target(name) for name in ("x86:avx512", "x86:avx2", "x86:sse2", "aarch64:neon", *GPUS)]
    for a in targets:
        assert distance(a, a) == 0
        for b in targets:
            assert distance(a, b) == distance(b, a)
            if a.kind != b.kind or a.vector_bits != b.vector_bits:
                assert distance(a, b) is None
    far = {name: distance(parse_target("cuda:sm_90a"), parse_target(name)) for name in GPUS}
    assert far["cuda:sm_90a"] == 0 and far["cuda:sm_80"] is None and far["cuda:emulator"] is None
    usual, larger, other = (parse_target(f"x86:avx512;l2={size}") for size in ("1M", "2M", "8M"))
    near, further = distance(usual, larger), distance(usual, other)
    assert near is not None and further is not None and 0 < near < further


def check_all_served_by_their_own_kind(db: Path, tasks: list[tuple[str, int]], asked: list[tuple[str, int]]) -> None:
    """Remembers candidates of a program for some tasks; what compiles of others pick can be built, none runs unscheduled."""
    program, beside = product(), product(60, 96, 48)
    for number, (target, threads) in enumerate(tasks):
        remember(db, program, target, threads, candidate(program, target, threads), 1e-3 * (1 + number))
    targets: dict[int | None, Target] = {}
    with Database(db, read_only=True) as database:
        for one in database.tasks():
            targets |= dict.fromkeys((r.id for r in database.records(one.key)), parse_target(one.target))
    for number, (target, threads) in enumerate(asked):
        wanted, shape = parse_target(target), beside if number % 2 else program
        for pick in picks(Task.of(shape, wanted, threads), db):
            served = targets.get(pick.provenance.record)
            assert served is None or distance(wanted, served) is not None, pick.provenance
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            kernel = tilesmith.compile(shape, db=db, target=target, threads=threads)
        assert provenance_of(kernel).tier != "default"
        if wanted.kind != "cuda":
            a, b = (np.ones(spec.shape, np.float32) for spec in shape.dynamic_inputs)
            np.testing.assert_allclose(kernel(a, b), a @ b)


def test_of_records_of_many_tasks_each_target_is_served_by_its_own_kind(tmp_path: Path) -> None:
    tasks = [("host", 1), (processors()[-1], 1), ("cuda:sm_90a", 1), ("cuda:emulator", 1)]
    asked = [("cuda:sm_90a", 1), ("cuda:sm_80", 1), ("host", 2)]
    check_all_served_by_their_own_kind(tmp_path / "a.sqlite", tasks, asked)


@pytest.mark.slow
def test_of_all_pairs_of_targets(tmp_path: Path) -> None:
    tasks = [(name, threads) for name in processors() for threads in (1, 4)] + [(name, 1) for name in GPUS]
    for gone in range(len(tasks)):
        rest = tasks[:gone] + tasks[gone + 1 :]
        check_all_served_by_their_own_kind(tmp_path / f"{gone}.sqlite", rest, [tasks[gone]] * 2 + [("host", 2)])


def test_records_of_processors_never_serve_gpus(tmp_path: Path) -> None:
    db, program = tmp_path / "a.sqlite", product(512, 512, 512)
    remember(db, program, "host", 2, candidate(program, "host", 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kernel = tilesmith.compile(program, db=db, target="cuda:sm_90a")
    assert provenance_of(kernel).tier == "analytic"


def breaking(monkeypatch: pytest.MonkeyPatch, *broken: Sketch) -> None:
    """Candidates of these sketches cannot be built any more."""
    right = first_built.build

    def build(program: Program, sketch: Sketch, *rest: Any, **options: Any) -> Artifact:
        if sketch in broken:
            raise KeyError("a planted defect")
        return right(program, sketch, *rest, **options)

    monkeypatch.setattr(first_built, "build", build)


def two_structures(program: Program) -> tuple[Candidate, Candidate]:
    """Two good candidates of different sketches."""
    first, second, *_ = picks(Task.of(program, parse_target("host"), 1), Path("nowhere.sqlite"))
    return (first.sketch, first.config), (second.sketch, second.config)


def test_what_does_not_build_gives_way_to_the_next_record_and_then_to_the_next_tier(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db, program = tmp_path / "a.sqlite", product()
    best, second = two_structures(program)
    remember(db, program, "host", 1, best, 1e-3)
    remember(db, program, "host", 1, second, 2e-3)
    breaking(monkeypatch, best[0])
    served = provenance_of(tilesmith.compile(program, db=db, threads=1))
    assert (served.tier, served.record) == ("exact", 2)
    assert "exact record 1 failed: KeyError: 'a planted defect'" in served.note

    monkeypatch.setenv("TILESMITH_CACHE", str(tmp_path / "empty"))  # nothing is built already
    breaking(monkeypatch, best[0], second[0])
    served = provenance_of(tilesmith.compile(program, db=db, threads=1))
    assert served.tier == "analytic" and "record 2 failed" in served.note
    with pytest.raises(KeyError, match="planted"):
        tilesmith.compile(program, db=db, threads=1, strict=True)

    monkeypatch.setenv("TILESMITH_CACHE", str(tmp_path / "as empty"))
    breaking(monkeypatch, *Task.of(program, parse_target("host"), 1).sketches[1:])
    with pytest.warns(UserWarning, match=r"unscheduled.*exact record 1 failed.*analytic.*failed"):
        served = provenance_of(tilesmith.compile(program, db=db, threads=1))
    assert served.tier == "default"


def test_many_records_that_do_not_build_cost_a_few_tries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, tried = product(), []

    def build(program: Program, sketch: Sketch, *rest: Any, **options: Any) -> Artifact:
        tried.append(sketch)
        raise ScheduleError("a planted defect")

    monkeypatch.setattr(first_built, "build", build)
    offered = list(picks(Task.of(program, parse_target("host"), 1), Path("nowhere.sqlite"))) * 20
    monkeypatch.setattr(first_built, "picks", lambda *arguments, **options: (pick for pick in offered))
    with pytest.warns(UserWarning, match="unscheduled"), pytest.raises(ScheduleError):
        tilesmith.compile(program, threads=1)
    assert len(tried) == first_built.FAILURES + 1


def slow(program: Program, threads: int) -> Candidate:
    """A valid candidate that is predicted far slower than the best."""
    return Sketch("default", ()), {}


def test_a_record_of_one_thread_is_compared_with_the_analytic_pick_before_it_serves_two(tmp_path: Path) -> None:
    db, program = tmp_path / "a.sqlite", product(256, 256, 256)
    remember(db, program, "host", 1, slow(program, 1))
    served = provenance_of(tilesmith.compile(program, db=db, threads=2))
    assert served.tier == "analytic" and served.record is None
    assert "record 1 is not served: tuned for x86" in served.note and "threads=1; predicted" in served.note
    assert provenance_of(tilesmith.compile(program, db=db, threads=1)).record == 1  # measured for this: never doubted

    remember(db, program, "host", 1, candidate(program, "host", 2))
    served = provenance_of(tilesmith.compile(program, db=db, threads=2))
    assert (served.tier, served.record) == ("near", 2)
    assert "predicted" in served.note and "the analytic pick" in served.note


def test_a_moved_config_that_is_predicted_clearly_slower_does_not_serve(tmp_path: Path) -> None:
    db, shape, program = tmp_path / "a.sqlite", product(256, 256, 256), product(260, 256, 256)
    remember(db, shape, "host", 1, slow(shape, 1))
    served = provenance_of(tilesmith.compile(program, db=db, threads=1))
    assert served.tier == "analytic" and "record 1 is not served" in served.note
    remember(db, shape, "host", 1, candidate(shape, "host"))
    served = provenance_of(tilesmith.compile(program, db=db, threads=1))
    assert (served.tier, served.record) == ("family", 2) and "the analytic pick" in served.note


def test_strict_takes_no_other_tier(tmp_path: Path) -> None:
    db, program = tmp_path / "a.sqlite", product()
    remember(db, program, "host", 2, candidate(program, "host", 2))
    with pytest.raises(NoRecordError):
        tilesmith.compile(program, db=db, threads=1, strict=True)
