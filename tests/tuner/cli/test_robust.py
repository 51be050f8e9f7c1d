"""Closed pipes, full disks, control characters, numbers that are none: one clear word, no traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from helpers.command_line.records import Call
from helpers.mutated_lines import PROGRAMS
from tilesmith.common.errors import ArgumentError, DatabaseError
from tilesmith.common.printable import printable
from tilesmith.targets.target import parse_target
from tilesmith.tuner.records.database import Database
from tilesmith.tuner.records.log import export_log, import_log
from tilesmith.tuner.records.sources import sources

ESCAPES = "\x1b]0;title\x07\x1b[31m\x9b2J\u202e\r"


def line(**changes: object) -> bytes:
    made = {
        "format": 1, "program": PROGRAMS[2], "target": parse_target("x86:avx2").text, "threads": 1, "sketch": "",
        "config": {}, "status": "ok", "times": [1e-3], "builder": "b", "machine": {"identity": "m", "ceilings": ""}, "run": "r",
        "created": 1.0,
    }  # fmt: skip
    return json.dumps({**made, **changes}).encode() + b"\n"


@pytest.fixture
def database(tmp_path: Path) -> Path:
    log = tmp_path / "x.jsonl"
    failure = {"stage": f"verify{ESCAPES}", "message": f"wrong{ESCAPES}"}
    log.write_bytes(
        line(device=ESCAPES, builder=f"b{ESCAPES}", config={f"a{ESCAPES}": f"w{ESCAPES}"})
        + line(status="crash", times=[], failure=failure, builder=ESCAPES)
    )
    with Database(tmp_path / "x.sqlite") as made:
        assert import_log(log, made).new == 2
    return tmp_path / "x.sqlite"


def in_shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A command of a shell in which $T is ours."""
    return subprocess.run(
        ["bash", "-c", command], check=False, capture_output=True, text=True, timeout=100,
        env={**os.environ, "T": f"{sys.executable} -m tilesmith", "TILESMITH_DB": str(folder / "none.sqlite")},
    )  # fmt: skip


def shown(text: str) -> list[str]:
    return [c for c in text if not c.isprintable() and c != "\n"]


def test_control_characters_of_others_are_shown_and_not_obeyed(call: Call, database: Path, tmp_path: Path) -> None:
    for words in (
        ["show"],
        ["show", *f"--limit 9 --db {database}".split()],
        ["explain", "1"],
        ["explain", "2"],
        ["best"],
    ):
        told = call(*words, *([] if "--db" in words else ["--db", str(database)]))
        assert shown(told.out + told.err) == [], words
    assert "\\x1b" in call("explain", "1", "--db", str(database)).out
    bad = tmp_path / "bad.jsonl"
    bad.write_bytes(line(target=ESCAPES) + f"{ESCAPES}\n".encode())
    done = in_shell(f"$T log check {bad}", tmp_path)
    assert done.returncode == 2
    assert shown(done.stderr + done.stdout) == []
    assert "\\x1b" in done.stderr


def test_errors_show_what_would_move_the_cursor() -> None:
    assert shown(str(ArgumentError(f"no{ESCAPES}", found=ESCAPES))) == []
    assert printable("plain ä 漢\n\ttext") == "plain ä 漢\n\ttext"
    assert printable("\ud800\x00") == "\\ud800\\x00"


def test_an_output_that_cannot_be_written_is_no_traceback(database: Path, tmp_path: Path) -> None:
    commands = {
        f"$T show --db {database} | true; exit ${{PIPESTATUS[0]}}": (0, 1, 141),
        f"$T show --db {database} > /dev/full": (1,),
        f"$T show --db {database} >&- 2>&-": (0, 1),
    }
    for command, codes in commands.items():
        done = in_shell(command, tmp_path)
        assert "Traceback" not in done.stderr, command
        assert "Exception ignored" not in done.stderr, command
        assert done.returncode in codes, (command, done.stderr)


def test_numbers_that_are_none_are_one_clear_word(call: Call, database: Path, tmp_path: Path) -> None:
    for number in ("9" * 30, "9" * 18, "0"):
        told = call("explain", number, "--db", str(database))
        assert told.code == 2
        assert f"there is no record {int(number)}" in told.err
    for size in ("1" + "0" * 30, "9" * 5000, "-1", "1.5", "10**30", "nan"):
        told = call("run", "matmul", f"m={size}", "n=2", "k=2")
        assert told.code == 2
        assert "m of matmul" in told.err
        assert len(told.err) < 6000
    done = in_shell("$T run matmul m=2 n=2 k=2 --seed -1", tmp_path)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "seed" in done.stderr


@pytest.mark.parametrize("name", ["export.jsonl", "link.jsonl", "fifo.jsonl", "stdout"])
def test_an_export_writes_to_what_stands_there(database: Path, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with Database(database) as opened:
        export_log(opened, tmp_path / "plain.jsonl")
    expected = (tmp_path / "plain.jsonl").read_text()
    if name == "stdout":
        assert in_shell(f"$T log export /dev/stdout --db {database}", tmp_path).stdout.startswith(expected)
        assert Path("/dev/stdout").exists()
        return
    if name == "link.jsonl":
        path.symlink_to(tmp_path / "behind.jsonl")
    if name == "fifo.jsonl":
        os.mkfifo(path)
        done = in_shell(f"cat {path} > {tmp_path}/read & $T log export {path} --db {database} && wait", tmp_path)
        assert done.returncode == 0, done.stderr
        assert path.is_fifo()
        assert (tmp_path / "read").read_text() == expected
        return
    with Database(database) as opened:
        export_log(opened, path)
        export_log(opened, path)
    assert path.read_text() == expected
    assert path.is_symlink() == (name == "link.jsonl")
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_what_is_no_plain_file_is_no_database(call: Call, tmp_path: Path) -> None:
    pipe, empty, log = tmp_path / "pipe.sqlite", tmp_path / "empty.sqlite", tmp_path / "pipe.jsonl"
    os.mkfifo(pipe)
    os.mkfifo(log)
    empty.touch()
    for read_only in (True, False):
        with pytest.raises(DatabaseError, match="is no file"):
            Database(pipe, read_only=read_only)
    assert "the database is empty" in call("show", "--db", str(empty)).err
    with pytest.raises(ArgumentError, match="no plain file"):
        sources(log)
    assert [s.path for s in sources(empty)] == [s.path for s in sources(tmp_path / "none.sqlite")]
    with Database(empty) as made:
        assert made.tasks() == []


@pytest.mark.parametrize("how", ["deleted", "replaced", "with its folder"])
def test_a_database_that_goes_away_is_noticed_at_the_next_trial(database: Path, tmp_path: Path, how: str) -> None:
    place = tmp_path / "below" / "a.sqlite"
    place.parent.mkdir()
    place.write_bytes(database.read_bytes())
    opened = Database(place)
    (task,) = opened.tasks()
    opened.add_task(task)
    first = opened.records(task.key)[0].trial
    for file in place.parent.iterdir():
        file.unlink()
    if how == "replaced":
        place.write_bytes(database.read_bytes())
    if how == "with its folder":
        place.parent.rmdir()
    made = [f'{{"n":{number}}}' for number in range(2)]
    with pytest.raises(DatabaseError, match="deleted or replaced") as caught:
        opened.add(replace(first, config=made[0]))
    opened.add(replace(first, config=made[1]))  # from here on into the new file
    opened.end_run(first.run, finished=False, spent=1.0)
    kept = opened.path
    opened.close()
    assert str(kept) in caught.value.advice
    with Database(kept) as rescued:
        assert len(rescued.records(task.key)) == 4
        assert {r.trial.config for r in rescued.records(task.key)} >= set(made)
    kept.unlink()


def test_a_failure_of_a_stranger_is_shown_in_a_table(call: Call, database: Path) -> None:
    with Database(database) as opened:
        (task,) = opened.tasks()
    told = call("show", task.key[:8], "--db", str(database)).out
    assert shown(told) == []
    assert "wrong\\x1b" in told
