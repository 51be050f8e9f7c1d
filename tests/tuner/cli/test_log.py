"""`tune log`: records out of one database and into another."""

import json
from pathlib import Path

from helpers.command_line.records import Call, fill, identity
from tilesmith.tuner.records.database import Database


def test_records_travel_as_a_file(call: Call, tmp_path: Path) -> None:
    db, other, file = tmp_path / "records.sqlite", tmp_path / "other.sqlite", tmp_path / "records.jsonl"
    fill(db)
    assert call("log", "export", file, "--db", db).out == f"6 records of 1 tasks written to {file}\n"
    assert call("log", "check", file).out == "6 records, 0 twice, 0 lines skipped\n"
    assert call("log", "import", file, "--db", other).out == "6 added, 0 there already, 0 lines skipped\n"
    assert call("log", "import", file, "--db", other).out == "0 added, 6 there already, 0 lines skipped\n"
    both = tmp_path / "both.jsonl"
    assert call("log", "merge", both, file, file).code == 0
    assert both.read_text() == file.read_text()
    assert "i.tile=2" in call("show", identity().key[:8], "--db", other).out


def test_only_the_best_candidates_travel_if_wanted(call: Call, tmp_path: Path) -> None:
    db, file = tmp_path / "records.sqlite", tmp_path / "records.jsonl"
    fill(db)
    assert call("log", "export", file, "--best", 1, "--db", db).out == f"1 records of 1 tasks written to {file}\n"
    with Database(db, read_only=True) as database:
        fastest = database.best(identity().key)[0]
    assert json.dumps(json.loads(file.read_text())["config"], sort_keys=True) == json.dumps(dict(fastest.config))


def test_lines_that_are_none_are_named_and_skipped(call: Call, tmp_path: Path) -> None:
    db, file = tmp_path / "records.sqlite", tmp_path / "records.jsonl"
    fill(db)
    call("log", "export", file, "--db", db)
    with file.open("a") as lines:
        lines.write("{}\n")
    answer = call("log", "check", file)
    assert answer.code == 2 and "6 records" in answer.out and "1 lines skipped" in answer.out
    assert f"{file}:7: " in answer.err


def test_what_is_not_there_is_told(call: Call, tmp_path: Path) -> None:
    db = tmp_path / "records.sqlite"
    fill(db)
    missing = call("log", "import", tmp_path / "none.jsonl", "--db", db)
    assert missing.code == 2 and "cannot be read" in missing.err
    nobody = call("log", "export", tmp_path / "out.jsonl", "--task", "ffff", "--db", db)
    assert nobody.code == 2 and "no task begins so" in nobody.err and not (tmp_path / "out.jsonl").exists()
