"""The OpenMP runtime: which one, and how its team waits."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tilesmith.runtime.devices.cpu.device import openmp_runtime


def test_teams_sleep_unless_a_person_says_otherwise() -> None:
    """The policy is set only while the runtime is loaded, in a process of its own because it is read just once."""
    script = (
        "import os; from tilesmith.runtime.devices.cpu import device as cpu;"
        "before = dict(os.environ); seen = {};"
        "real = cpu.ctypes.CDLL;"
        "cpu.ctypes.CDLL = lambda name: seen.update(os.environ) or real(name);"
        "cpu.openmp_runtime(); assert dict(os.environ) == before;"
        "print(seen.get('OMP_WAIT_POLICY'), seen.get('GOMP_SPINCOUNT'))"
    )
    plain = {k: v for k, v in os.environ.items() if k not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}
    for extra, wanted in (({}, "passive 100000"), ({"OMP_WAIT_POLICY": "active"}, "active None")):
        found = subprocess.run(
            [sys.executable, "-c", script], env={**plain, **extra}, capture_output=True, text=True, check=True
        )
        assert found.stdout.strip() == wanted


def runtime_taken(*loaded: Path) -> str:
    """The path of the runtime that a process takes in which some are loaded already."""
    script = (
        "import ctypes, sys; from tilesmith.runtime.devices.cpu.device import openmp_runtime;"
        "kept = [ctypes.CDLL(path) for path in sys.argv[1:]]; print(openmp_runtime()._name)"
    )
    command = [sys.executable, "-c", script, *map(str, loaded)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_a_runtime_that_is_loaded_is_taken_and_that_of_torch_first(tmp_path: Path) -> None:
    """Two teams on the same cores would wait for each other's threads."""
    copies = [tmp_path / folder / "libgomp-1.so" for folder in ("a/b", "torch/lib", "other/torch.libs")]
    for copy in copies:
        copy.parent.mkdir(parents=True)
        shutil.copy(openmp_runtime()._name, copy)
    plain, inside, beside = copies
    assert runtime_taken(plain) == str(plain)
    assert runtime_taken(plain, inside) == str(inside)
    assert runtime_taken(plain, beside) == str(beside)
    assert runtime_taken() not in map(str, copies)


def test_kernels_run_on_the_team_of_a_runtime_that_was_there(tmp_path: Path) -> None:
    copy = tmp_path / "torch" / "libgomp.so.1"
    copy.parent.mkdir()
    shutil.copy(openmp_runtime()._name, copy)
    script = (
        "import ctypes, sys; kept = ctypes.CDLL(sys.argv[1]);"
        "import numpy as np, tilesmith as ts; from tilesmith.runtime.devices.cpu.device import openmp_runtime;"
        "kernel = ts.compile(ts.ops.matmul(96, 96, 96), threads=2); a, b = np.ones((2, 96, 96), np.float32);"
        "assert (kernel(a, b) == 96).all(); print(openmp_runtime()._name)"
    )
    done = subprocess.run([sys.executable, "-c", script, str(copy)], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == str(copy), done.stderr
