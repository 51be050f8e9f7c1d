"""`tune run`: a whole search from the command line, what it leaves, ctrl-C, and one clear error for each mistake."""

import os
import re
import signal
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Self

import numpy as np
import pytest

import tilesmith
from helpers.command_line.records import Answer, Call
from helpers.warm.client import WarmPython, run_python
from tilesmith.measure.result import Failure, Job, Measurement, Status
from tilesmith.targets.host import host_kind
from tilesmith.tuner.cli.report import sketch_title
from tilesmith.tuner.records.database import Database

MATMUL = ("matmul", "m=24", "n=40", "k=33")


def tune(cache: Path, *words: object) -> Answer:
    done = run_python("-m", "tilesmith", *words, env={**os.environ, "TILESMITH_CACHE": str(cache)})
    return Answer(done.returncode, done.stdout, done.stderr)


def test_a_search_leaves_records_that_every_command_and_compile_use(
    kept_ceilings: Path, tmp_path: Path, call: Call
) -> None:
    db = tmp_path / "records.sqlite"
    answer = tune(kept_ceilings, "run", *MATMUL, "--trials", 5, "--effort", "quick", "--threads", 1, "--db", db)
    assert answer.code == 0, answer.err
    assert re.search(
        r"matmul_f32_24x40x33: 5/5 trials, best [\d.]+ GFLOP/s \([\d.]+% of the (?:ceiling|FMA peak)\)", answer.err
    )
    assert re.search(r"^trials +5 trials: ", answer.out, re.M)
    found = re.search(r"^record (\d+) ", answer.out, re.M)
    assert found, answer.out
    (line,) = [line for line in answer.out.splitlines() if line.startswith("kernel = ")]

    names: dict[str, object] = {}
    exec(f"import tilesmith\n{line}", names)
    kernel = names["kernel"]
    assert isinstance(kernel, tilesmith.Kernel) and kernel.provenance.tier == "exact"  # type: ignore[attr-defined]
    a, b = np.ones((24, 33), np.float32), np.full((33, 40), 2, np.float32)
    np.testing.assert_array_equal(kernel(a, b), a @ b)

    assert found[1] in call("show", *MATMUL, "--db", db).out
    assert "a-peak@batch" in call("show", *MATMUL, "--model", "--db", db).out
    explained = call("explain", found[1], "--db", db).out
    assert "where the time goes" in explained
    assert re.search(r"^stage +arithmetic +loads +stores +instructions +chains +matrix unit *$", explained, re.M)
    again = tune(
        kept_ceilings, "run", *MATMUL, "--trials", 2, "--effort", "quick", "--threads", 1, "--db", db, "--no-progress"
    )
    assert again.code == 0 and again.err == ""
    with Database(db, read_only=True) as database:
        (task,) = database.tasks()
        assert [run.trials for run in database.runs(task.key)] == [2, 5]


def test_ctrl_c_ends_with_the_best_so_far_and_loses_nothing(kept_ceilings: Path, tmp_path: Path) -> None:
    db = tmp_path / "records.sqlite"
    words = ["run", *MATMUL, "--trials", 500, "--threads", 1, "--db", db]
    process = WarmPython("-m", "tilesmith", *words, env={**os.environ, "TILESMITH_CACHE": str(kept_ceilings)})
    try:
        wait_for_records(db, 3)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 130, err
    assert "interrupted: the same command continues it" in out and re.search(r"^record \d+ ", out, re.M)
    assert "Traceback" not in err
    with Database(db, read_only=True) as database:
        (run,) = database.runs(database.tasks()[0].key)
    assert run.state == "interrupted" and 3 <= run.trials < 500


def wait_for_records(db: Path, count: int, limit: float = 60.0) -> None:
    end = time.monotonic() + limit
    while time.monotonic() < end:
        try:
            with closing(sqlite3.connect(f"{db.as_uri()}?mode=ro", uri=True)) as connection:
                (found,) = connection.execute("SELECT count(*) FROM record WHERE status = 'ok'").fetchone()
        except sqlite3.Error:
            found = 0
        if found >= count:
            return
        time.sleep(0.05)
    pytest.fail("no records appeared")


class FailingRunner:
    """A runner in which no candidate works."""

    name, capacity = "failing", 4

    def __init__(self, *_: object, **__: object) -> None:
        self._jobs: list[Job] = []

    def submit(self, job: Job) -> None:
        self._jobs.append(job)

    def collect(self, timeout: float | None = None) -> Sequence[tuple[int, Measurement]]:
        ends = [Measurement(Status.CRASH, failure=Failure("time", "signal 11")),
                Measurement(Status.COMPILE_ERROR, failure=Failure("compile", "cannot select"))]  # fmt: skip
        jobs, self._jobs = self._jobs, []
        return [(job.number, ends[job.number % 3 == 0]) for job in jobs]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def test_all_candidates_failing_names_the_reasons_and_how_to_see_them(
    kept_ceilings: Path, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tilesmith.measure.local.LocalRunner", FailingRunner)
    monkeypatch.setenv("TILESMITH_CACHE", str(kept_ceilings))
    db = tmp_path / "records.sqlite"
    answer = call("run", *MATMUL, "--trials", 9, "--effort", "quick", "--threads", 1, "--db", db)
    assert answer.code == 2
    assert "none of the 9 candidates of matmul_f32_24x40x33 could be used" in answer.err
    assert "crash in time: signal 11" in answer.err and "compile_error in compile: cannot select" in answer.err
    (number, *_) = re.findall(r"tune replay (\d+)", answer.err)
    assert "signal 11" in call("explain", number, "--db", db).out


TEMPLATES = """
def rows(s):
    stage = s.stage("t0")
    i0, i1 = s.split(stage.axes[0], s.factor("rows", at_most=8))
    s.unroll(i1)

def broken(s):
    s.split(s.stage("t0").axes[0], s.factor("rows"))
    raise KeyError("no such thing")
"""


def test_a_template_of_a_persons_own_is_searched(
    kept_ceilings: Path, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "schedules_of_mine.py").write_text(TEMPLATES)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("TILESMITH_CACHE", str(kept_ceilings))
    db = tmp_path / "records.sqlite"
    words = ("run", *MATMUL, "--trials", 4, "--effort", "quick", "--threads", 1, "--db", db, "--template")
    answer = call(*words, "schedules_of_mine:rows")
    assert answer.code == 0, answer.err
    with Database(db, read_only=True) as database:
        records = database.records(database.tasks()[0].key)
        assert {sketch_title(database, record.trial.sketch) for record in records} == {"unscheduled nest", "rows"}

    wrong = call(*words, "schedules_of_mine:broken")
    assert wrong.code == 2 and "template 'broken' failed: KeyError: 'no such thing'" in wrong.err
    assert "for t0.a0.p0" in wrong.err  # the outline of what it had done


ELSEWHERE = "riscv64:v" if host_kind().name != "riscv64" else "x86:avx2"
TENSOR = "input A: f32[4, 8]\nB[i: 4] = sum[k: 8](A[i, k])\nreturn B\n"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((*MATMUL, "--trials", 0), "a budget of 0"),
        ((*MATMUL, "--trials", -3), "a budget of -3"),
        ((*MATMUL, "--time", "0"), "a budget of 0"),
        ((*MATMUL, "--time", "soon"), "is no time"),
        ((*MATMUL, "--threads", 0), "threads"),
        ((*MATMUL, "--target", ELSEWHERE), f"cannot run code for {ELSEWHERE}"),
        ((*MATMUL, "--target", "x86:avx9"), "unknown target"),
        ((*MATMUL, "--strategy", "luck"), "strategy"),
        ((*MATMUL, "--runner", "cloud"), "unknown runner"),
        ((*MATMUL, "--effort", "heroic"), "unknown effort"),
        (("matmul", "m=24", "n=40"), "needs k"),
        (("matmul", "m=24", "n=40", "k=0"), "positive integer"),
        (("matmul", "m=24", "n=40", "k=1.5"), "integer"),
        (("matmull", "m=24"), "unknown operator"),
        (("matmul", "m=24", "n=40", "k=8", "--constant", "Q"), "no operand is called 'Q'"),
        ((("A[i, k]", "A[i]"),), "rank"),
        ((("A[i, k]", "Z[i, k]"),), "unknown tensor 'Z'"),
        ((("A[i, k]", "A[i, k + 1]"),), "out of bounds"),
        ((("A[i, k]", "A[i, k] + i"),), "dtype"),
        ((("return B", "return"),), "expected"),
    ],
)
def test_mistakes_end_with_one_message_and_nothing_written(
    call: Call, tmp_path: Path, words: tuple[object, ...], problem: str
) -> None:
    file = tmp_path / "program.tensor"
    given = []
    for word in words:
        if isinstance(word, tuple):  # a program with something replaced
            file.write_text(TENSOR.replace(*word))
        given.append(file if isinstance(word, tuple) else word)
    db = tmp_path / "records.sqlite"
    answer = call("run", *given, "--db", db)
    assert answer.code == 2
    assert problem in answer.err and "Traceback" not in answer.err and answer.out == ""
    if file.exists():
        assert "^" in answer.err  # the place is marked
    assert not db.exists() or not Database(db, read_only=True).tasks()


def test_a_newer_or_foreign_database_is_left_alone(call: Call, tmp_path: Path) -> None:
    newer, foreign = tmp_path / "newer.sqlite", tmp_path / "foreign.sqlite"
    Database(newer).close()
    for path, statement in ((newer, "PRAGMA user_version = 99"), (foreign, "CREATE TABLE songs (name TEXT)")):
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(statement)
    for path in (newer, foreign, tmp_path, tmp_path / "no" / "folder.sqlite"):
        before = path.read_bytes() if path.is_file() else b""
        answer = call("run", *MATMUL, "--trials", 2, "--db", path)
        assert answer.code == 2 and str(tmp_path) in answer.err, answer.err
        assert not path.is_file() or path.read_bytes() == before


def test_several_programs_share_one_budget_and_end_in_one_table(kept_ceilings: Path, tmp_path: Path) -> None:
    db, file = tmp_path / "records.sqlite", tmp_path / "a.tensor"
    file.write_text("input A: f32[64, 48]\nB[i: 64] = sum[k: 48](A[i, k])\nreturn B\n")
    answer = tune(kept_ceilings, "run", file, *MATMUL, "--trials", 10, "--weights", "1,5", "--threads", 1, "--db", db)
    assert answer.code == 0, answer.err
    assert answer.out.count("kernel = tilesmith.compile(") == 2
    table = answer.out.partition("all together")[2]
    assert "B[64] sum[48]" in table and "C[24, 40] sum[33]" in table
    with Database(db, read_only=True) as database:
        runs = [database.runs(task.key)[0] for task in database.tasks()]
    assert sum(run.trials for run in runs) == 10 and {run.state for run in runs} == {"finished"}
    assert "no weights" in tune(kept_ceilings, "run", file, *MATMUL, "--weights", "1,x", "--db", db).err
