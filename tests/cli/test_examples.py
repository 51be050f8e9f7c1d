"""Every example runs to its end in a fresh process, with few trials."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from ground.source import ROOT

ARGUMENTS = {"demo.py": ["64", "4"], "own_operator.py": ["4"], "own_template.py": ["4"]}


def test_every_example_is_run() -> None:
    assert sorted(ARGUMENTS) == sorted(path.name for path in (ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("name", ARGUMENTS)
def test_the_example_runs(name: str, tmp_path: Path, kept_ceilings: Path) -> None:
    settings = {"TILESMITH_DB": str(tmp_path / "records.sqlite"), "TILESMITH_CACHE": str(kept_ceilings)}
    # Where other work has the cores, a team that waits without spinning loses microseconds and not its turn.
    command = [sys.executable, str(ROOT / "examples" / name), *ARGUMENTS[name]]
    environment = {**os.environ, **settings, "OMP_WAIT_POLICY": "passive"}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert "4/4 trials" in done.stderr and "exact: record" in done.stdout
