"""Which Python `make` takes where several of one version are installed."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path

import pytest

from helpers.source import ROOT

_spec = importlib.util.spec_from_file_location("quickest_python", ROOT / ".ci" / "quickest_python.py")
assert _spec is not None and _spec.loader is not None
quickest_python = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(quickest_python)

NAME = f"python{sys.version_info[0]}.{sys.version_info[1]}"
KIND = ["CPython", 3, 11, "linux-x86_64", ""]


def _python(folder: Path, *tells: object) -> str:
    """An executable that tells this, whatever it is asked."""
    folder.mkdir()
    path = folder / NAME
    path.write_text(f"#!/bin/sh\necho '{json.dumps(tells)}'\n" if tells else "#!/bin/sh\nexit 1\n")
    path.chmod(0o700)
    return str(path)


def test_one_that_is_clearly_quicker_stands_in(tmp_path: Path) -> None:
    own, quick, quicker = (_python(tmp_path / n, KIND, s) for n, s in (("own", 0.03), ("a", 0.02), ("b", 0.019)))
    assert quickest_python.quickest(own, [str(tmp_path / "a"), str(tmp_path / "none")]) == quick
    assert quickest_python.quickest(own, [str(tmp_path / "a"), str(tmp_path / "b")]) == quicker


@pytest.mark.parametrize(
    "tells",
    [(KIND, 0.027), (["PyPy", *KIND[1:]], 0.001), ([*KIND[:2], 12, *KIND[3:]], 0.001), ([*KIND[:4], "t"], 0.001), ()],
    ids=["hardly quicker", "another implementation", "another version", "other threads", "none that runs"],
)
def test_others_do_not(tells: tuple[object, ...], tmp_path: Path) -> None:
    own = _python(tmp_path / "own", KIND, 0.03)
    _python(tmp_path / "other", *tells)
    assert quickest_python.quickest(own, [str(tmp_path / "other")]) == own


def test_a_real_one_is_tried() -> None:
    kind, seconds = quickest_python._tried(sys.executable)
    assert kind[1:3] == list(sys.version_info[:2])
    assert 0 < seconds < 10


def test_what_an_environment_has_chosen_is_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _python(tmp_path / "quick", KIND, 1e-6)
    quickest_python.main({"PATH": str(tmp_path / "quick"), "VIRTUAL_ENV": os.fspath(tmp_path)})
    assert capsys.readouterr().out.strip() == sys.executable
