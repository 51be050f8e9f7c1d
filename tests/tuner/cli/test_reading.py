"""What the command line tells of a database: show, best, explain, env; and its errors."""

import io
import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

import tilesmith
from helpers.command_line.records import PROGRAM, SKETCH, Call, fill, identity
from tilesmith.codegen.backends.cpu import builder_version
from tilesmith.common.errors import ArgumentError
from tilesmith.measure.result import Failure, Measurement, Purpose, Status
from tilesmith.schedules.sketch import parse_sketch
from tilesmith.tuner.cli import report
from tilesmith.tuner.cli.about import commands_on_path, environment_facts, is_ours
from tilesmith.tuner.cli.report import paste_lines
from tilesmith.tuner.cli.run import read_time
from tilesmith.tuner.outcome import Spent, TaskResult
from tilesmith.tuner.records.data import Record, Trial
from tilesmith.tuner.records.database import Database
from tilesmith.tuner.units import time_text


@pytest.fixture
def db(tmp_path: Path) -> Path:
    path = tmp_path / "records.sqlite"
    fill(path)
    return path


def test_show_lists_tasks_with_their_best(call: Call, db: Path) -> None:
    answer = call("show", "--db", db)
    assert answer.code == 0 and answer.err == ""
    (row,) = [line for line in answer.out.splitlines() if line.startswith(identity().key[:8])]
    # 24 * 40 additions in 1 ms; the ceiling is memory: 4 * (24 * 40 + 24) bytes
    assert re.search(r"\[24\] sum\[40\] .* 6 +1 ms +0\.0 GB/s +0\.\d% +2$", row.rstrip())


@pytest.mark.parametrize("words", [("row_sum", "rows=24", "columns=40"), (identity().key[:6],)])
def test_show_ranks_records_and_counts_failures(
    call: Call, db: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILESMITH_DB", str(db))
    answer = call("show", *words)
    assert answer.code == 0
    assert "6 trials: 3 ok, 2 crash, 1 invalid" in answer.out
    rows = [line.split() for line in answer.out.splitlines()]
    ranked = [row[0] for row in rows if len(row) > 5 and row[2] in ("ms", "us")]
    assert ranked == ["2", "1", "6"]
    assert re.search(r"^ *2 +1 ms .* search +1 +i\.tile=2", answer.out, re.M)
    assert re.search(r"^sketch 1 +rows\(inner=true\)", answer.out, re.M)
    assert "unscheduled nest" in answer.out
    assert re.search(r"^ *2 +crash +time +signal 11 +tune replay 3", answer.out, re.M)
    assert re.search(r"^ *1 +invalid +lower +too many registers +tune replay 5", answer.out, re.M)


def test_show_has_the_order_of_best(call: Call, db: Path) -> None:
    """A confirmed candidate stands before a rival that looked faster only than its confirmed time."""
    with Database(db) as database:
        (task,) = database.tasks()
        made = database.records(task.key)[1].trial  # the best one, 1 ms, is confirmed at 3 ms; the next has 2 ms
        again = replace(made, purpose=Purpose.CONFIRM, measurement=replace(made.measurement, times=(3e-3,)))
        database.add_task(task)
        database.add(again)
    out = call("show", identity().key, "--db", db).out
    assert "6 trials: 3 ok, 2 crash, 1 invalid; 1 measured again" in out
    rows = [line.split() for line in out.splitlines()]
    assert [row[0] for row in rows if len(row) > 5 and row[2] in ("ms", "us")] == ["7", "1", "6"]
    assert "record 7" in call("best", identity().key, "--db", db).out


def test_failures_come_with_a_command_for_this_database(
    call: Call, db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "b"
    folder.mkdir()
    monkeypatch.chdir(folder)  # a short name: tables fold long ones
    shutil.copy(db, "r.db")
    assert "tune replay 3 --db r.db" in call("show", identity().key, "--db", "r.db").out
    monkeypatch.setenv("TILESMITH_DB", str(db))
    out = call("show", identity().key).out
    assert "tune replay 3" in out and "--db" not in out


def test_show_obeys_its_limit(call: Call, db: Path) -> None:
    out = call("show", identity().key, "--limit", 1, "--db", db).out
    assert "i.tile=2" in out and "i.tile=1" not in out


def test_best_gives_lines_that_compile_the_program(call: Call, db: Path) -> None:
    short = call("best", "row_sum", "rows=24", "columns=40", "--db", db)
    assert (
        short.code == 0 and "record 2" in short.out and re.search(r"rows\(inner=true\) *\nconfig +i\.tile=2", short.out)
    )
    assert f"tilesmith.compile(tilesmith.ops.row_sum(rows=24, columns=40), threads=1, db={str(db)!r})" in short.out
    assert "tilesmith.parse(" in call("best", "--db", db).out


def test_pasted_lines_mean_the_same_program_and_task(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[object, dict[str, object]]] = []
    monkeypatch.setitem(vars(tilesmith), "compile", lambda program, **options: seen.append((program, options)))
    exec(paste_lines(identity(2), None, None), {})
    exec(paste_lines(identity(2, "x86:sse2"), None, Path("a b.sqlite")), {})
    (program, options), (_, other) = seen
    assert program == PROGRAM and options == {"threads": 2}
    assert other == {"threads": 2, "target": tilesmith.parse_target("x86:sse2").text, "db": "a b.sqlite"}


def test_explain_tells_program_schedule_and_bounds(call: Call, db: Path) -> None:
    answer = call("explain", 2, "--db", db)
    assert answer.code == 0
    parts = (str(PROGRAM), "rows(inner=true)", SKETCH.key[:8], "i.tile=2", "split(out.i0, i.tile)",
                 "1 ms, median of 3", "900 us to 1.2 ms", "compile 50 ms, measure 100 ms", "960 operations",
             "3,936 bytes", "predicted", "arithmetic", "into L1")  # fmt: skip
    for part in parts:
        assert part in answer.out, part
    assert "signal 11" in call("explain", 3, "--db", db).out


def test_explain_says_why(call: Call, db: Path) -> None:
    """Records 1 (2 ms), 2 (1 ms) and 6 (4 ms, unscheduled) ran, of six."""
    said = " ".join(call("explain", 2, "--db", db).out.split())
    assert "* The roof is moving its bytes: no kernel does it in less than" in said
    assert "* The model expects" in said and "* What binds it, in the model, is " in said
    assert "has a reason which the model does not see" in said
    assert "* The best of the schedule unscheduled nest (record 6) took 4.00 times as long" in said
    assert "* With another i.tile than 2 it took longer or less: 1 (x 2.00)." in said
    assert "3 trials of this task failed (2 crash, 1 invalid)" in said
    untried = said.partition("with the time that the model expects: i.tile = ")[2].partition(". *")[0]
    assert "8 (x " in untried and not any(untried.startswith(f"{n} (") or f"; {n} (" in untried for n in range(1, 6))
    assert "* Never tried: " in said and "Of 17 ways to set the numbers of this schedule, 5 were tried." in said
    worse = " ".join(call("explain", 6, "--db", db).out.split())
    assert "It is not the best of its task: record 2 is 4.00 times as fast." in worse
    assert "took 0.25 times as long" in worse and "why it is" not in call("explain", 3, "--db", db).out


def test_explain_tells_what_was_measured_of_a_sketch_that_no_longer_applies(call: Call, tmp_path: Path) -> None:
    """A log may come from a version whose steps this one refuses: here an axis that is split twice."""
    old = parse_sketch(SKETCH.text + "step split(t0.a0.p0, i.tile)\n")
    fill(tmp_path / "old.sqlite", old)
    answer = call("explain", 3, "--db", tmp_path / "old.sqlite")
    assert answer.code == 0
    assert "cannot make the loops" in answer.out and "split once" in answer.out and "signal 11" in answer.out


@pytest.mark.usefixtures("compiles_again")
def test_explain_tells_where_compiling_takes_its_time(call: Call, db: Path) -> None:
    answer = call("explain", 2, "--compile-time", "--db", db)
    assert answer.code == 0
    parts = "apply, lower, emit, parse, optimize, code, all, LLVM pass, Instruction Selection, others"
    for part in parts.split(", "):
        assert part in answer.out, part


def test_explain_shows_the_code(call: Call, db: Path) -> None:
    answer = call("explain", 2, "--code", "--db", db)
    assert answer.code == 0
    assert ".text" in answer.out and "ret" in answer.out


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("show", "--db", "nowhere.sqlite"), "there is no such database"),
        (("show",), "there is no such database"),
        (("explain", 99, "--db", "DB"), "there is no record 99"),
        (("replay", 99, "--db", "DB"), "there is no record 99"),
        (("explain", 3, "--compile-time", "--db", "DB"), "the trial of record 3 failed"),
        (("explain", 3, "--code", "--db", "DB"), "the trial of record 3 failed"),
        (("show", "matmul", "m=8", "n=8", "k=8", "--db", "DB"), "no records of matmul m=8 n=8 k=8"),
        (("show", "ffffff", "--db", "DB"), "no records of ffffff"),
        (("show", "matmull", "--db", "DB"), "unknown operator"),
        (("explain", "two", "--db", "DB"), "unknown operator 'two'"),
        (("nonsense",), "No such command"),
    ],
)
def test_mistakes_end_with_one_message_and_code_2(
    call: Call, db: Path, words: tuple[object, ...], problem: str
) -> None:
    before = db.read_bytes()
    answer = call(*(db if word == "DB" else word for word in words))
    assert answer.code == 2
    assert problem in answer.err and "Traceback" not in answer.err and answer.out == ""
    assert db.read_bytes() == before


def test_a_file_that_is_no_database_is_told(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("no database " * 100)
    answer = call("show", "--db", path)
    assert answer.code == 2 and "not a" in answer.err
    assert path.read_text() == "no database " * 100


def test_env_tells_versions_machine_database_and_commands(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILESMITH_DEBGU", "1")
    monkeypatch.setenv("PATH", "")
    facts = environment_facts(db)
    assert facts["versions"]["tilesmith"] == tilesmith.__version__
    assert facts["machine"]["host target"] == tilesmith.parse_target("host").text
    assert facts["database"] == {"place": str(db), "tasks": "1", "size": facts["database"]["size"]}
    assert "misspelt" in facts["settings"]["TILESMITH_DEBGU"]
    assert "not on PATH" in facts["commands"]["tune"]


def test_version_is_one_line(call: Call) -> None:
    """With what decides whether two kernels are of the same code."""
    answer = call("--version")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out == f"tilesmith {tilesmith.__version__}, {builder_version()}\n"
    assert re.search(r"codegen \d+, llvm \d+\.\d+", answer.out)


def test_the_first_tune_on_the_path_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ray, ours = tmp_path / "ray", tmp_path / "ours"
    for folder, text in ((ray, "from ray.tune.cli import cli"), (ours, "from tilesmith.tuner.cli.main import main")):
        folder.mkdir()
        (folder / "tune").write_text(f"#!/usr/bin/python\n{text}\n")
        (folder / "tune").chmod(0o755)
    assert list(commands_on_path("tune", f"{ray}:{tmp_path}:{ours}")) == [ray / "tune", ours / "tune"]
    assert is_ours(ours / "tune") and not is_ours(ray / "tune")
    monkeypatch.setenv("PATH", f"{ray}:{ours}")
    assert "another program" in environment_facts(tmp_path / "none")["commands"]["tune"]
    monkeypatch.setenv("PATH", f"{ours}:{ray}")
    assert environment_facts(tmp_path / "none")["commands"]["tune"] == str(ours / "tune")


def test_python_m_tilesmith_is_the_same_program(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tilesmith", "env", "--db", tmp_path / "none.sqlite"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "does not exist yet" in done.stdout and "host target" in done.stdout


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90.0), ("90s", 90.0), ("2m", 120.0), ("1.5h", 5400.0), (".5", 0.5)]
)
def test_times_are_read_with_their_unit(text: str, seconds: float) -> None:
    assert read_time(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-3", "1d", "1 2", "m", "nan"])
def test_what_is_no_time_is_told(text: str) -> None:
    with pytest.raises(ArgumentError, match="is no time"):
        read_time(text)


def test_times_are_written_in_the_unit_that_suits() -> None:
    assert [time_text(s) for s in (2.5, 0.0012345, 3.2e-6, 4e-9)] == ["2.5 s", "1.234 ms", "3.2 us", "4 ns"]


@pytest.mark.parametrize("width", [80, 120])
def test_tables_keep_headings_and_numbers_whole_in_a_narrow_terminal(db: Path, width: int) -> None:
    config = {f"t{stage}.{name}": 16 for stage in range(3) for name in ("column_blocks", "row_blocks", "unroll")}
    trial = Trial(
        identity().key, "", json.dumps(config), "here", "run", Purpose.SEARCH, Measurement(Status.OK, (9.876e-3,)), 0.0
    )
    many = [Record(number, trial) for number in range(100_000, 100_003)]
    file = io.StringIO()
    console = Console(file=file, width=width, force_terminal=True, color_system=None)
    with Database(db, read_only=True) as database:
        console.print(report.task_tables(database, database.tasks()))
        console.print(report.record_table(database, identity(), many))
    shown = file.getvalue()
    for heading in (
        "task program trials best speed ceiling record",
        "record time speed ceiling measured sketch config",
    ):
        assert heading in [" ".join(line.split()) for line in shown.splitlines()]
    assert len(re.findall(r"^100000 +9\.876 ms +0\.0 GB/s +0\.\d% +search +1 +t0\.column_blocks=16", shown, re.M)) == 1
    assert all(f"{name}=16" in shown for name in config), "a setting is never cut in two"


def test_what_has_no_room_beside_the_numbers_goes_below_them(db: Path) -> None:
    """In 60 columns the numbers alone take 56: programs and configs had one column, or none."""
    trial = Trial(
        identity().key, "", '{"t0.rows": 6}', "here", "run", Purpose.SEARCH, Measurement(Status.OK, (9.876e-3,)), 0.0
    )
    failed = Measurement(Status.CRASH, failure=Failure("time", "signal 11"))
    file = io.StringIO()
    console = Console(file=file, width=60, force_terminal=True, color_system=None)
    with Database(db, read_only=True) as database:
        console.print(report.task_tables(database, database.tasks()))
        console.print(report.record_table(database, identity(), [Record(100_000, trial)]))
        console.print(report.failure_table([Record(7, replace(trial, measurement=failed))], database.path))
    lines = [" ".join(line.split()) for line in file.getvalue().splitlines()]
    assert "task trials best speed ceiling record" in lines
    title = lines.index("record time speed ceiling measured sketch")
    assert lines[title + 1].startswith("100000 9.876 ms") and lines[title + 2] == "t0.rows=6"
    title = lines.index("count failure stage")
    assert lines[title + 1 : title + 3] == ["1 crash time", "signal 11"] and lines[title + 3].startswith(
        "tune replay 7"
    )
    assert all(len(line) <= 60 for line in file.getvalue().splitlines())
    program = report.program_title(identity().display)
    assert program in " ".join(lines)


def end(number: int, seconds: float, purpose: Purpose, *, abandoned: bool = False) -> Record:
    measurement = Measurement(Status.OK, (seconds,), abandoned=abandoned)
    return Record(number, Trial(identity().key, "s", "{}", "here", "run", purpose, measurement, created=0.0))


def test_what_was_dropped_and_what_was_confirmed_is_counted_apart() -> None:
    ends = [end(1, 1e-3, Purpose.SEARCH), end(2, 9e-3, Purpose.SEARCH, abandoned=True)]
    assert report.status_line(ends[:1]) == "1 trial: 1 ok"
    assert report.status_line(ends) == "2 trials: 2 ok (1 dropped early, clearly slower)"
    confirmed = [end(3, 1e-3, Purpose.CONFIRM), end(4, 1e-3, Purpose.CONFIRM)]
    assert report.status_line([*ends, *confirmed]) == f"{report.status_line(ends)}; 2 measured again"
    assert report.status_line([]) == "0 trials"
    assert report.status_line(confirmed) == "2 confirmations"  # of a log that was imported
    assert report.status_line(confirmed[:1]) == "1 confirmation"


@pytest.mark.parametrize(("confirmed", "told"), [(1.2e-3, False), (5e-3, True)])
def test_a_best_that_was_far_faster_in_the_search_is_told(confirmed: float, told: bool) -> None:
    best = end(2, confirmed, Purpose.CONFIRM)
    result = TaskResult(identity(), best, [end(1, 1e-3, Purpose.SEARCH), best], Spent(1, 1, 1, 1, 1), False)
    assert report.disturbed(result).startswith("it took 1 ms in the search") is told
