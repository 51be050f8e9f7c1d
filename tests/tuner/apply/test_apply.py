"""compile(program): which record serves, by tiers, and that the kernel is right whoever served it."""

import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilesmith
from tilesmith.codegen.artifact import Artifact
from tilesmith.codegen.backends.cpu import builder_version
from tilesmith.common.errors import ArgumentError, DatabaseError, InternalError, NoRecordError
from tilesmith.measure.checking import verify
from tilesmith.measure.machine import machine_identity, machine_key
from tilesmith.measure.result import Measurement, Purpose, Status
from tilesmith.runtime.kernel import STAGES, Kernel
from tilesmith.schedules.sketch import Sketch
from tilesmith.schedules.space import ConfigValue, Population
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor.printing import print_program
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.canonical import family_key, program_key
from tilesmith.tensor.text.parse import parse
from tilesmith.tuner.apply import first_built, tiers
from tilesmith.tuner.apply.pick import Pick, Provenance
from tilesmith.tuner.apply.tiers import analytic_pick
from tilesmith.tuner.records import sources
from tilesmith.tuner.records.data import Machine, StoredSketch, TaskIdentity, Trial, canonical_config
from tilesmith.tuner.records.database import Database
from tilesmith.tuner.records.log import export_log
from tilesmith.tuner.task_space import TaskSpace

HERE = machine_key(machine_identity())
NEST: tuple[str, str, dict[str, ConfigValue]] = ("", "", {})  # the unscheduled nest: key, text and config


@pytest.fixture(autouse=True)
def own_cache(cache_with_drafts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "shipped_logs", tuple)


def product(m: int = 24, n: int = 40, k: int = 33) -> Program:
    return parse(
        f"input left: f32[{m}, {k}]\ninput right: f32[{k}, {n}]\n"
        f"both[i: {m}, j: {n}] = sum[k: {k}](left[i, k] * right[k, j])\nreturn both\n"
    )


def drafted(program: Program, threads: int = 1) -> tuple[str, str, Mapping[str, ConfigValue]]:
    """A candidate that is no nest: its sketch's key and text, its config."""
    pick = analytic_pick(Task.of(program, parse_target("host"), threads))
    assert pick.config
    return pick.sketch.key, pick.sketch.text, pick.config


def remember(
    path: Path,
    program: Program,
    candidate: tuple[str, str, Mapping[str, ConfigValue]],
    seconds: float,
    threads: int = 1,
    *,
    target: str = "host",
    machine: str = HERE,
    builder: str | None = None,
    purpose: Purpose = Purpose.SEARCH,
) -> None:
    key, text, config = candidate
    task = Task.of(program, parse_target(target), threads)
    identity = TaskIdentity(
        program_key(task.program), family_key(task.program), task.text, print_program(program),
        task.target.key, task.target.text, threads,
    )  # fmt: skip
    assert identity.key == task.key
    with Database(path) as database:
        database.add_task(identity)
        database.add_machine(Machine(machine, "a machine"))
        database.add_sketches([StoredSketch(key, text)])
        run = database.begin_run(identity.key, f"{seconds}").id
        measurement = Measurement(Status.OK, (seconds,), builder=builder or builder_version())
        trial = Trial(identity.key, key, canonical_config(config), machine, run, purpose, measurement, seconds)
        database.add(trial)
        database.end_run(run, finished=True, spent=0.0)


def served(path: Path, program: Program, threads: int = 1, *, strict: bool = False) -> Provenance:
    """Who served; the kernel's result is checked."""
    kernel = tilesmith.compile(program, db=path, threads=threads, strict=strict)
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(i.shape).astype(np.float32) for i in program.dynamic_inputs)
    np.testing.assert_allclose(kernel(a, b), a @ b, rtol=1e-4, atol=1e-4)
    assert isinstance(kernel.provenance, Provenance)
    return kernel.provenance


def test_without_records_the_analytic_model_decides(tmp_path: Path) -> None:
    found = served(tmp_path / "none.sqlite", product())
    assert (found.tier, found.record, found.seconds) == ("analytic", None, None)
    assert found.config and "analytic" in str(found)
    assert not (tmp_path / "none.sqlite").exists()


def test_the_best_record_of_the_task_serves(tmp_path: Path) -> None:
    db = tmp_path / "a.sqlite"
    remember(db, product(), drafted(product()), 2e-3)
    remember(db, product(), NEST, 1e-3)
    found = served(db, product(), strict=True)
    assert (found.tier, found.record, found.seconds, dict(found.config)) == ("exact", 2, 1e-3, {})
    assert "record 2, 1 ms when tuned" in str(found)


def test_what_no_search_has_confirmed_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trials of large programs are checked at some points only; those of small ones at all."""
    db, program = tmp_path / "a.sqlite", product()
    remember(db, program, drafted(program), 1e-3)
    assert served(db, program).note == ""
    monkeypatch.setattr(verify, "WHOLE_WORK", 0)
    assert "checked at some points only" in served(db, program).note
    remember(db, program, drafted(program), 2e-3, purpose=Purpose.CONFIRM)
    assert served(db, program).note == ""
    remember(db, program, NEST, 1e-4)  # an unconfirmed one that is faster than all that were confirmed
    assert "checked at some points only" in str(served(db, program))


def test_names_do_not_matter(tmp_path: Path) -> None:
    remember(tmp_path / "a.sqlite", product(), NEST, 1e-3)
    assert served(tmp_path / "a.sqlite", tilesmith.ops.matmul(m=24, n=40, k=33), strict=True).record == 1


@pytest.mark.parametrize("elsewhere", [{"machine": "m1"}, {"builder": "codegen 0"}])
def test_a_time_of_elsewhere_never_beats_one_of_here(tmp_path: Path, elsewhere: dict[str, str]) -> None:
    db = tmp_path / "a.sqlite"
    remember(db, product(), NEST, 1e-6, **elsewhere)  # type: ignore[arg-type]
    found = served(db, product(), strict=True)
    assert (found.tier, found.record, found.seconds) == ("exact", 1, None)  # a config serves, its time does not
    assert "elsewhere" in found.note
    remember(db, product(), drafted(product()), 1.0)
    assert served(db, product()).record == 2


def test_another_number_of_threads_is_near_and_the_nearest_comes_first(tmp_path: Path) -> None:
    db = tmp_path / "a.sqlite"
    remember(db, product(), NEST, 1e-6, threads=16)
    remember(db, product(), drafted(product(), 2), 1e-3, threads=2)
    remember(db, product(), NEST, 1e-7, target="x86:sse2")
    found = served(db, product())
    assert (found.tier, found.record, found.seconds) == ("near", 2, None)
    assert "threads=2" in found.note
    with pytest.raises(NoRecordError, match="strict"):
        tilesmith.compile(product(), db=db, threads=1, strict=True)


def test_strict_says_what_the_records_that_there_are_differ_in(tmp_path: Path) -> None:
    db = tmp_path / "a.sqlite"
    with pytest.raises(NoRecordError, match="found: none of this program"):
        tilesmith.compile(product(), db=db, threads=1, strict=True)
    remember(db, product(64, 64, 64), NEST, 1e-3)
    with pytest.raises(NoRecordError, match=r"found: .*other sizes, 64x64x64 for 24x40x33"):
        tilesmith.compile(product(), db=db, threads=1, strict=True)
    remember(db, product(), NEST, 1e-3, threads=2, target="x86:sse2")
    remember(db, product(), NEST, 1e-3, threads=2)
    with pytest.raises(NoRecordError) as caught:
        tilesmith.compile(product(), db=db, threads=1, strict=True)
    text = str(caught.value)
    assert "with threads=2 for threads=1 / " in text and "target x86:sse2 for x86:" in text
    assert text.index("threads=2 for threads=1 /") < text.index("x86:sse2")  # the nearest first


def test_the_nearest_shape_of_the_family_gives_its_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "CLEARLY", math.inf)  # how the model of this machine ranks them is not asked here
    db = tmp_path / "a.sqlite"
    far, close = product(128, 128, 128), product(24, 40, 33)
    remember(db, far, drafted(far), 1e-6)
    remember(db, close, drafted(close), 1e-3)
    found = served(db, product(25, 37, 30))
    assert (found.tier, found.record, found.seconds) == ("family", 2, None)
    assert "24x40x33" in found.note
    assert served(db, product(100, 130, 99)).record == 1


def test_a_record_that_is_not_valid_any_more_is_passed_over(tmp_path: Path) -> None:
    db = tmp_path / "a.sqlite"
    key, text, config = drafted(product())
    remember(db, product(), (key, text, {"another.name": 3}), 1e-6)
    assert served(db, product()).tier == "analytic"
    remember(db, product(), (key, text, config), 1e-3)
    assert served(db, product()).record == 2


def test_a_kernel_shows_every_stage(tmp_path: Path) -> None:
    program = product()
    kernel = tilesmith.compile(program, db=tmp_path / "none.sqlite", threads=1)
    assert isinstance(kernel, Kernel)
    texts = {stage: kernel.text(stage) for stage in STAGES}
    assert set(texts) == {"program", "sketch", "outline", "loops", "llvm", "asm"}
    assert parse(texts["program"]) == program
    for stage, part in {"sketch": "step split(", "outline": "both: sum", "loops": "for ", "llvm": "define "}.items():
        assert part in texts[stage], texts[stage]
    assert kernel.artifact.name in texts["asm"]  # the machine code's symbol is named from the program
    with pytest.raises(ArgumentError, match="no stage 'tree'"):
        kernel.text("tree")
    assert "left: f32[24, 33], right: f32[33, 40]) -> both" in repr(kernel)
    assert 0 < kernel.time() < 0.1


def test_constants_are_given_when_compiling(tmp_path: Path) -> None:
    program = tilesmith.ops.matmul(m=8, n=20, k=12, constants=["B"])
    a, b = np.arange(96, dtype=np.float32).reshape(8, 12), np.arange(240, dtype=np.float32).reshape(12, 20)
    for constants in ([b], {"B": b}):
        kernel = tilesmith.compile(program, db=tmp_path / "none.sqlite", threads=1, constants=constants)
        np.testing.assert_allclose(kernel(a), a @ b, rtol=1e-5)
    with pytest.raises(ArgumentError, match="constants do not fit") as caught:
        tilesmith.compile(program, db=tmp_path / "none.sqlite", threads=1)
    assert "['B']" in str(caught.value)


@pytest.mark.parametrize("call", [tilesmith.compile, tilesmith.tune])
def test_what_is_no_program_is_refused(call: Callable[[object], object]) -> None:
    with pytest.raises(ArgumentError, match="that is no program") as caught:
        call("matmul")
    assert "tilesmith.ops.matmul" in caught.value.expected
    assert "from_onnx" in caught.value.advice


def test_who_wants_to_see_how_it_is_built_sees_it_every_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, db = product(), tmp_path / "none.sqlite"
    tilesmith.compile(program, db=db, threads=1)
    for folder in (tmp_path / "first", tmp_path / "second"):
        monkeypatch.setenv("TILESMITH_DUMP", str(folder))
        tilesmith.compile(program, db=db, threads=1)
        kinds = {path.name.split("-")[1] for path in folder.iterdir()}
        assert {"outline", "loops", "llvm", "assembly"} <= kinds, "not silent because the artifact is in the cache"


def as_log(path: Path, db: Path) -> Path:
    with Database(db, read_only=True) as database:
        export_log(database, path)
    return path


def test_a_log_serves_like_a_database(tmp_path: Path) -> None:
    db = tmp_path / "a.sqlite"
    remember(db, product(), NEST, 1e-3)
    log = as_log(tmp_path / "team.jsonl", db)
    found = served(log, product(), strict=True)
    assert (found.tier, found.log) == ("exact", "team.jsonl")
    assert "record 1 of team.jsonl" in str(found)
    made = sorted((tmp_path / "cache" / "logs").glob("*.sqlite"))
    served(log, product(), strict=True)
    assert sorted((tmp_path / "cache" / "logs").glob("*.sqlite")) == made and len(made) == 1, "a log is read once"


def test_wrong_lines_of_a_log_are_skipped_with_a_warning(tmp_path: Path) -> None:
    db = tmp_path / "a.sqlite"
    remember(db, product(), NEST, 1e-3)
    log = as_log(tmp_path / "team.jsonl", db)
    with log.open("a") as lines:
        lines.write('{"format":1,"program":"input"}\n')
    with pytest.warns(UserWarning, match=r"1 lines of the log were skipped: .*team\.jsonl:2"):
        assert served(log, product()).tier == "exact"


def test_shipped_logs_serve_behind_the_own_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    db = tmp_path / "shipped.sqlite"
    remember(db, product(), drafted(product()), 1e-3)
    log = as_log(tmp_path / "shipped.jsonl", db)
    monkeypatch.setattr(sources, "shipped_logs", lambda: (log,))
    monkeypatch.setenv("TILESMITH_SHIPPED", "1")
    own = tmp_path / "own.sqlite"
    assert served(own, product()).log == "shipped.jsonl"
    remember(own, product(48, 40, 33), NEST, 1e-3)
    assert served(own, product()).log == "shipped.jsonl", "an exact record stands before one of another shape"
    remember(own, product(), NEST, 1.0)
    assert served(own, product()).log == ""
    monkeypatch.setenv("TILESMITH_SHIPPED", "0")
    assert served(tmp_path / "none.sqlite", product()).log == ""


def test_a_shipped_log_for_other_registers_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    db, none = tmp_path / "shipped.sqlite", tmp_path / "none.sqlite"
    remember(db, product(), NEST, 1e-3)
    log = as_log(tmp_path / "shipped.jsonl", db)
    monkeypatch.setattr(sources, "shipped_logs", lambda: (log,))
    monkeypatch.setenv("TILESMITH_SHIPPED", "1")
    host = parse_target("host")
    other = parse_target("x86:sse2" if host.vector_bits > 128 else "x86:avx2")
    assert sources.sources(none, host) == sources.sources(none)
    assert [one.log for one in sources.sources(none)] == ["shipped.jsonl"]
    assert sources.sources(none, other) == ()
    log.write_text("no record\n")
    with pytest.warns(UserWarning, match="1 lines of the log were skipped"):
        assert len(sources.sources(none, other)) == 1


def test_what_the_rules_fail_on_runs_unscheduled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object, **options: object) -> None:
        raise ZeroDivisionError("a planted defect")

    monkeypatch.setattr("tilesmith.schedules.auto.automatic", broken)
    program = product(7, 9, 11)
    with pytest.warns(UserWarning, match="runs unscheduled.*ZeroDivisionError: a planted defect"):
        kernel = tilesmith.compile(program, db=tmp_path / "none.sqlite", threads=1)
    assert isinstance(kernel.provenance, Provenance)
    assert str(kernel.provenance).startswith("default: unscheduled nest (the rules or the code generator failed")
    a, b = np.random.default_rng(0).random((2, 99), np.float32)
    a, b = a[:77].reshape(7, 11), b.reshape(11, 9)
    np.testing.assert_allclose(kernel(a, b), a @ b, rtol=1e-5)


@pytest.mark.parametrize("error", [IndexError("planted"), MemoryError("planted"), RecursionError("planted")])
def test_whatever_a_draft_fails_with_runs_unscheduled(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: object, **options: object) -> None:
        raise error

    monkeypatch.setattr(tiers, "best_choices", broken)
    with pytest.warns(UserWarning, match=f"runs unscheduled.*{type(error).__name__}: planted"):
        assert served(tmp_path / "none.sqlite", product(7, 9, 11)).tier == "default"


def test_a_structure_that_fails_in_a_draft_costs_itself_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, real = product(), TaskSpace.prior
    best = served(tmp_path / "none.sqlite", program).sketch

    def prior(space: TaskSpace, population: Population) -> np.ndarray:
        if space.sketches[population.sketch].title == best:
            raise FloatingPointError("planted")
        return real(space, population)

    monkeypatch.setattr(TaskSpace, "prior", prior)
    assert served(tmp_path / "none.sqlite", program).sketch == best  # as it was drafted, and kept
    monkeypatch.setenv("TILESMITH_CACHE", str(tmp_path / "another"))
    found = served(tmp_path / "none.sqlite", program)
    assert found.tier == "analytic" and found.sketch not in (best, "unscheduled nest")
    assert f"{best} failed in the draft: FloatingPointError: planted" in found.note


def test_a_tier_that_fails_gives_way_to_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object) -> Iterator[Pick]:
        raise KeyError("planted")
        yield

    remember(tmp_path / "a.sqlite", product(), NEST, 1e-3)
    broken.__name__ = "_exact"
    monkeypatch.setattr(tiers, "_exact", broken)
    found = served(tmp_path / "a.sqlite", product())
    assert found.tier == "analytic" and "the tier exact failed: KeyError: 'planted'" in found.note
    with pytest.raises(KeyError):
        served(tmp_path / "a.sqlite", product(), strict=True)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), DatabaseError("it has gone away")])
def test_what_no_candidate_is_to_blame_for_ends_compile(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: object) -> Iterator[Pick]:
        raise error

    monkeypatch.setattr(tiers, "_near", broken)
    remember(tmp_path / "a.sqlite", product(8, 8, 8), NEST, 1e-3)
    with pytest.raises(type(error)):
        served(tmp_path / "a.sqlite", product())


def test_what_code_generation_fails_on_runs_unscheduled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scheduled = first_built.build

    def broken(program: Program, candidate: Sketch, *rest: Any, **options: Any) -> Artifact:
        if candidate.steps:
            raise InternalError("a planted defect")
        return scheduled(program, candidate, *rest, **options)

    monkeypatch.setattr(first_built, "build", broken)
    with pytest.warns(UserWarning, match="a planted defect"):
        kernel = tilesmith.compile(product(5, 6, 7), db=tmp_path / "none.sqlite", threads=1)
    assert isinstance(kernel.provenance, Provenance) and kernel.provenance.tier == "default"
    np.testing.assert_array_equal(kernel(np.ones((5, 7), np.float32), np.ones((7, 6), np.float32)), 7)
