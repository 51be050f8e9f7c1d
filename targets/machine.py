"""What kind of processor this machine has, by the names that targets have: asked before any target is looked at."""

from __future__ import annotations

import platform

MACHINES = {"x86_64": "x86", "amd64": "x86", "aarch64": "aarch64", "arm64": "aarch64", "riscv64": "riscv64"}


def machine_kind() -> str:
    """Returns the kind, "" for one that no target is of."""
    return MACHINES.get(platform.machine().lower(), "")
