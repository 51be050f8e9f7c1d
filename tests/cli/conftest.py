"""Fixtures of the command line's tests."""

from pathlib import Path

import pytest
from cli.records import Call, caller


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Call:
    """The command line, with its default database in an empty folder."""
    monkeypatch.setenv("TILESMITH_DB", str(tmp_path / "default.sqlite"))
    return caller(monkeypatch, capsys)
