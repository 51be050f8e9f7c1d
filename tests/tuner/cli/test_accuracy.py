"""`tune run --accuracy strict`, and what the other commands say of its records."""

from pathlib import Path

import pytest

from helpers.command_line.records import Call

WHAT = ("row_sum", "rows=8", "columns=40")


def test_strict_records_are_made_and_shown(
    tmp_path: Path, kept_ceilings: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILESMITH_CACHE", str(kept_ceilings))
    db = tmp_path / "a.sqlite"
    words = ("--trials", 2, "--threads", 1, "--effort", "quick", "--db", db, "--no-progress")
    answer = call("run", *WHAT, "--accuracy", "strict", *words)
    assert answer.code == 0 and "1 thread, strict accuracy" in answer.out and "accuracy='strict'" in answer.out
    for command in ("show", "best"):
        assert "strict accuracy" in call(command, *WHAT, "--db", db).out
    assert "strict accuracy" in call("explain", 1, "--db", db).out


def test_an_unknown_accuracy_is_one_clear_error(call: Call) -> None:
    answer = call("run", *WHAT, "--accuracy", "exact")
    assert answer.code == 2 and "default or strict" in answer.err
