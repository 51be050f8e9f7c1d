"""The wheel, installed where nothing of the source tree can be seen, and used from another folder."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import llvmlite
import numpy
import platformdirs
import pydantic
import pytest

from helpers.source import PACKAGE_DIR, ROOT, modules

_USE = """
import os, sys, tilesmith
assert os.path.realpath(tilesmith.__file__).startswith(os.path.realpath(sys.prefix)), tilesmith.__file__
import numpy as np
program = tilesmith.parse("input A: f32[5]\\nB[i: 5] = A[i] * 2 + 1\\nreturn B")
kernel = tilesmith.compile(program, db="none.sqlite", threads=1)
print(kernel(np.arange(5, dtype=np.float32)).tolist())
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy of what the repository holds, so that neither sees the other's leftovers."""
    source = tmp_path_factory.mktemp("source") / "clone-1.x"
    source.mkdir()
    for folder in sorted({path.split("/")[0] for path in PACKAGE_DIR.values()}):
        shutil.copytree(ROOT / folder, source / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, source)
    built = tmp_path_factory.mktemp("built")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", built, source]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return next(built.glob("tilesmith-*.whl"))


def test_the_wheel_holds_every_module_and_nothing_else(wheel: Path) -> None:
    names = {n for n in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in n}
    expected = {
        module.replace(".", "/") + ("/__init__.py" if path.stem == "__init__" else ".py")
        for module, path in modules().items()
    }
    data = {f"tilesmith/logs/{path.name}" for path in (ROOT / "logs").glob("*.jsonl")}
    data |= {f"tilesmith/tuner/report/page/{path.name}" for path in (ROOT / "tuner" / "report" / "page").iterdir()}
    assert names == expected | data | {"tilesmith/py.typed", "tilesmith/runtime/export/runtime.c"}


def test_it_works_in_a_bare_environment_from_another_folder(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    python = environment / "bin" / "python"
    site = next((environment / "lib").glob("python*")) / "site-packages"
    with zipfile.ZipFile(wheel) as archive:  # for a pure wheel this is what installing does, its commands aside
        archive.extractall(site)
    # The dependencies that the test environment has, wherever; its .pth files, by which it sees the source tree, do not run.
    folders = {str(Path(module.__file__).parents[1]) for module in (llvmlite, numpy, platformdirs, pydantic)}
    (site / "dependencies.pth").write_text("\n".join(sorted(folders)) + "\n")
    command = [python, "-I", "-c", _USE]
    used = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert used.returncode == 0, used.stderr
    assert used.stdout.strip() == "[1.0, 3.0, 5.0, 7.0, 9.0]"
