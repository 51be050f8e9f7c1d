"""Type checkers of people see an installed Tilesmith: in a wheel, and through the links that `make install` lays."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from helpers.source import ROOT

LINKS = Path(sysconfig.get_path("purelib"), "tilesmith-types.pth")


@pytest.mark.skipif(not LINKS.exists(), reason="this environment was not made by `make`")
def test_a_checker_sees_what_compile_gives(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    kept = ROOT / ".mypy_cache" / "seen"  # what it knows of the package, where that has not changed since the last run
    mypy = [sys.executable, "-m", "mypy", f"--cache-dir={kept}", "--follow-imports=silent"]
    user = tmp_path / "user.py"
    user.write_text(
        "import tilesmith\nkernel = tilesmith.parse('')\nreveal_type(kernel)\nkernel.nothing\ntilesmith.pars\n"
    )
    found = subprocess.run([*mypy, str(user)], capture_output=True, text=True, timeout=110, cwd=tmp_path, check=False)
    assert 'Revealed type is "tilesmith.tensor.program.Program"' in found.stdout, found.stdout
    assert '"Program" has no attribute "nothing"' in found.stdout
    assert 'Module has no attribute "pars"' in found.stdout, "a name of the package that is mistyped"
