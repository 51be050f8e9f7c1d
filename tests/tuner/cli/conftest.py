"""Fixtures of the command line's tests."""

from pathlib import Path

import pytest

from helpers.command_line.records import Call, caller
from tilesmith.measure.calibrate.calibrate import _keep, _path
from tilesmith.targets.ceilings import default_ceilings
from tilesmith.targets.target import parse_target


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Call:
    """The command line, with its default database in an empty folder."""
    monkeypatch.setenv("TILESMITH_DB", str(tmp_path / "default.sqlite"))
    return caller(monkeypatch, capsys)


@pytest.fixture(scope="session")
def kept_ceilings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder in which ceilings are kept already, so that no test calibrates."""
    folder = tmp_path_factory.mktemp("cache")
    target = parse_target("host")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TILESMITH_CACHE", str(folder))
        for threads in (1, target.cores):
            _keep(_path(target, threads), default_ceilings(target, threads).to_json())
    return folder
