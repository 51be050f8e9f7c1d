"""Every example runs to its end in a fresh process, with few trials."""

import importlib.util
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.source import ROOT
from helpers.warm.client import run_python

ARGUMENTS = {"demo.py": ["64", "4"], "own_operator.py": ["4"], "blur_template.py": ["4"], "own_template.py": ["4"]}
MODELS = {"onnx_model.py": "onnx", "torch_model.py": "torch"}  # -> what they need


def test_every_example_is_run() -> None:
    assert sorted([*ARGUMENTS, *MODELS]) == sorted(path.name for path in (ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("name", ARGUMENTS)
def test_the_example_runs(name: str, tmp_path: Path, kept_ceilings: Path) -> None:
    done = example(name, ARGUMENTS[name], tmp_path, kept_ceilings)
    assert done.returncode == 0, done.stderr
    assert "4/4 trials" in done.stderr and "exact: record" in done.stdout


@pytest.mark.parametrize("name", MODELS)
def test_the_example_of_a_model_runs(name: str, tmp_path: Path, kept_ceilings: Path) -> None:
    done = example(name, ["12"], tmp_path, kept_ceilings)
    if MODELS[name] == "torch" and importlib.util.find_spec("torch") is None:
        assert done.returncode == 0 and "pip install 'tilesmith[torch]'" in done.stdout
        return
    pytest.importorskip(MODELS[name])
    assert done.returncode == 0, done.stderr
    assert "12/12 trials" in done.stderr and "of the time still open" in done.stdout


def test_the_example_of_torch_ends_well_without_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    runpy.run_path(str(ROOT / "examples" / "torch_model.py"), run_name="example")["main"]()
    assert "pip install 'tilesmith[torch]'" in capsys.readouterr().out


def example(name: str, arguments: list[str], folder: Path, cache: Path) -> subprocess.CompletedProcess[str]:
    settings = {"TILESMITH_DB": str(folder / "records.sqlite"), "TILESMITH_CACHE": str(cache)}
    # Where other work has the cores, a team that waits without spinning loses microseconds and not its turn.
    environment = {**os.environ, **settings, "OMP_WAIT_POLICY": "passive"}
    return run_python(ROOT / "examples" / name, *arguments, env=environment, cwd=folder)


def test_the_code_of_the_readme_runs(tmp_path: Path, kept_ceilings: Path) -> None:
    """As it stands there, but for sizes and trials: those take a minute."""
    (code,) = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.S | re.M)
    for there, here in (("512", "24"), ("1024", "40"), ("trials=128", "trials=3")):
        assert there in code
        code = code.replace(there, here)
    code += "assert d.shape == (24, 40) and (d == 40).all()\n"
    settings = {"TILESMITH_DB": str(tmp_path / "records.sqlite"), "TILESMITH_CACHE": str(kept_ceilings)}
    done = run_python("-c", code, env={**os.environ, **settings}, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "exact: record" in done.stdout and "D: pointwise" in done.stdout
