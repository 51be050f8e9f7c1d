"""Fixtures of the tests of `tune bench`: those of the command line."""

from pathlib import Path

import pytest

from helpers.command_line.records import Call, caller


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Call:
    """The command line, with its default database in an empty folder."""
    monkeypatch.setenv("TILESMITH_DB", str(tmp_path / "default.sqlite"))
    return caller(monkeypatch, capsys)
