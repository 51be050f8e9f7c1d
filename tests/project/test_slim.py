"""An installation that only compiles needs neither xgboost nor what comes with scikit-learn; a search says what it lacks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from helpers.source import PROJECT
from tilesmith.tuner.packages import boosting_distribution

_WITHOUT = """
import sys
for name in ("xgboost", "sklearn", "scipy", "pandas", "threadpoolctl"):
    sys.modules[name] = None
import ctypes
import numpy as np
import tilesmith as ts

program = ts.ops.matmul(m=64, n=64, k=64)
a = np.random.default_rng(0).random((64, 64), np.float32)
"""
_COMPILE = """
for threads in (1, 2):
    kernel = ts.compile(program, threads=threads, db=sys.argv[1])
    assert (kernel.provenance.tier == "exact") == (threads == 1), kernel.provenance
    assert np.allclose(kernel(a, a), a @ a, atol=1e-3)
"""
_SEARCH = """
try:
    ts.tune(program, trials=2, db=sys.argv[1] + ".sqlite", progress=False)
except ts.errors.EnvironmentFailure as error:
    from tilesmith.tuner.packages import install_command
    assert "no xgboost, no sklearn" in str(error) and install_command(["xgboost", "sklearn"]) in str(error), error
else:
    raise AssertionError("it has to say what is missing")
"""
_NO_OPENMP = """
ts.compile(ts.ops.relu(64), threads=1)
def missing(name):
    raise OSError(name)
from tilesmith.runtime.devices.cpu import device as cpu
cpu.ctypes = type("Nothing", (), {"CDLL": staticmethod(missing)})
try:
    cpu.openmp_runtime()
except ts.errors.EnvironmentFailure as error:
    assert "libgomp1" in str(error) and "threads=1" in str(error), error
else:
    raise AssertionError("it has to say what is missing")
"""


def run(script: str, *arguments: str) -> None:
    command = [sys.executable, "-c", _WITHOUT + script, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr


def system_runtime() -> bool:
    import ctypes

    try:
        ctypes.CDLL("libgomp.so.1")
    except OSError:
        return False
    return True


@pytest.mark.skipif(not system_runtime(), reason="the system has no libgomp of its own")
def test_compiling_from_a_log(tmp_path: Path) -> None:
    import tilesmith as ts
    from tilesmith.tuner.records.database import Database
    from tilesmith.tuner.records.log import export_log

    db, log = tmp_path / "t.sqlite", tmp_path / "t.jsonl"
    ts.tune(ts.ops.matmul(m=64, n=64, k=64), trials=2, threads=1, db=db, strategy="random", progress=False)
    with Database(db) as database:
        export_log(database, log)
    run(_COMPILE, str(log))


def test_searching_says_what_it_lacks(tmp_path: Path) -> None:
    run(_SEARCH, str(tmp_path / "t"))


def test_threads_need_a_runtime() -> None:
    run(_NO_OPENMP)


@pytest.mark.parametrize(
    ("platform", "system", "machine", "wanted"),
    [
        ("linux-x86_64", "linux", "x86_64", "xgboost-cpu"),
        ("linux-aarch64", "linux", "aarch64", "xgboost-cpu"),
        ("linux-riscv64", "linux", "riscv64", "xgboost"),
        ("win-amd64", "win32", "AMD64", "xgboost-cpu"),
        ("win-arm64", "win32", "ARM64", "xgboost"),
        ("macosx-14.0-arm64", "darwin", "arm64", "xgboost"),
        ("macosx-10.9-x86_64", "darwin", "x86_64", "xgboost"),
    ],
)
def test_each_machine_gets_one_xgboost_and_messages_name_it(
    platform: str, system: str, machine: str, wanted: str
) -> None:
    needed = PROJECT["project"]["dependencies"]
    here = {"sys_platform": system, "platform_machine": machine}
    asked = [one for one in map(Requirement, needed) if one.marker is None or one.marker.evaluate(here)]
    assert [one.name for one in asked if one.name.startswith("xgboost")] == [wanted]
    assert boosting_distribution(platform) == wanted
