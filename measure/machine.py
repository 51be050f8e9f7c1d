"""Which machine times belong to: its processor, cores and caches. Not its name on the network, which changes nothing."""

from __future__ import annotations

import json
import platform
from functools import cache
from hashlib import sha256
from pathlib import Path

from ..targets.backend import Gpu
from ..targets.host import host_caches, host_features, online_cpus, physical_cores, usable_cores
from ..targets.target import Target

_MODEL_LINES = ("vendor_id", "cpu family", "model", "stepping", "model name", "CPU implementer", "CPU part")


@cache
def machine_identity() -> str:
    """One line of JSON: architecture, model, features, cores (usable and present), data caches (bytes, line, sharers)."""
    present = len(physical_cores(online_cpus()))
    caches = [(cache.bytes, cache.line, cache.shared_by) for cache in host_caches(present)]
    return json.dumps(
        {
            "architecture": platform.machine(),
            "model": _model(Path("/proc/cpuinfo")),
            "features": " ".join(sorted(host_features())),
            "cores": [usable_cores(), present],
            "caches": caches,
        }
    )


def gpu_identity(gpu: Gpu) -> str:
    """One line of JSON for a GPU, whatever machine it sits in; memory in whole GiB, since drivers keep some of it."""
    facts = {"name": gpu.name, "capability": list(gpu.capability), "multiprocessors": gpu.multiprocessors}
    return json.dumps({"gpu": {**facts, "l2": gpu.l2, "memory GiB": round(gpu.memory / 2**30)}})


def identity_for(target: Target) -> str:
    """The identity of what runs kernels for a target here: the first GPU that this process may use, or the machine."""
    devices = target.backend.devices
    found = devices.found() if target.needs_device and devices is not None else ()
    return gpu_identity(found[0]) if found else machine_identity()


def machine_key(identity: str) -> str:
    """64 hexadecimal digits that stand for an identity."""
    return sha256(identity.encode()).hexdigest()


def _model(path: Path) -> dict[str, str]:
    """Returns what the first processor says about its model; empty where the system does not tell."""
    try:
        first = path.read_text().split("\n\n")[0]
    except OSError:
        return {}
    pairs = (line.split(":", 1) for line in first.splitlines() if ":" in line)
    return {name.strip(): value.strip() for name, value in pairs if name.strip() in _MODEL_LINES}
