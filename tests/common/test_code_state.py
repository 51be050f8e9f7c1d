"""Code is known by its files: whatever changes one of them makes other code of it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tilesmith.common.code_state import code_state


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that is the package `tilesmith.made_up`."""
    made = ModuleType("tilesmith.made_up")
    made.__path__ = [str(tmp_path)]
    monkeypatch.setitem(sys.modules, made.__name__, made)
    (tmp_path / "inner").mkdir()
    for path in (tmp_path / "rule.py", tmp_path / "inner" / "step.py"):
        path.write_text("a = 1\n")
    yield tmp_path
    code_state.cache_clear()


def state() -> str:
    """The state as a new process sees it."""
    code_state.cache_clear()
    return code_state("made_up")


def test_nothing_changes_by_itself(package: Path) -> None:
    before = state()
    (package / "notes.txt").write_text("no code")
    assert state() == before


@pytest.mark.parametrize("name", ["rule.py", "inner/step.py"])
def test_an_edit_is_other_code(package: Path, name: str) -> None:
    found, path = {state()}, package / name
    path.write_text("a = 1 + 1\n")
    found.add(state())
    os.utime(path, ns=(1, 1))  # edited again, to the same size
    found.add(state())
    path.unlink()
    assert len({*found, state()}) == 4


def test_a_process_looks_once(package: Path) -> None:
    before = state()
    (package / "rule.py").write_text("a = 3 + 4\n")
    assert code_state("made_up") == before != state()
