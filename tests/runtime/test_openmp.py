"""The OpenMP runtime: which one, and how its team waits."""

from __future__ import annotations

import os
import subprocess
import sys


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
