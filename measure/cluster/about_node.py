"""What a node of a cluster says of itself when it is asked: see `nodes.NodeFacts`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from typing import Any

from ...common.errors import EnvironmentFailure, TilesmithError
from ...targets.backend import Devices, Gpu
from ...targets.host import missing_here, usable_cores
from ...targets.target import Target, parse_target
from ..machine import gpu_identity, machine_identity
from .cores import core_sets, domains, usable_cpus

_LIMIT = 40.0  # seconds that the driver of a GPU may take to start


def node_report(target: str, threads: int) -> dict[str, Any]:
    """The fields of `NodeFacts` that a node knows; `target` and `threads` are what it may be used for."""
    try:
        wanted = parse_target(target)
        facts = gpu_report(wanted, _ask_driver(wanted)) if wanted.needs_device else _processor_report(wanted, threads)
        return {"cores": usable_cores(), **facts}
    except TilesmithError as error:
        return {"problem": " ".join(str(error).split())}


def _processor_report(target: Target, threads: int) -> dict[str, Any]:
    return {
        "target": parse_target("host").text,
        "missing": missing_here(target),
        "machine": machine_identity(),
        "sets": len(core_sets(domains(usable_cpus()), threads)),
    }


def gpu_report(target: Target, found: tuple[Gpu, ...]) -> dict[str, Any]:
    """The same for a target that needs a GPU. A cluster lends GPUs out by number, so those of a node must be alike."""
    devices = _devices(target)
    own = devices.own(found[0]) if found else ""
    facts = {
        "target": parse_target(own or "host").text,
        "machine": gpu_identity(found[0]) if found else machine_identity(),
        "sets": len(found),
    }
    if not found or not devices.runs(target.level, found[0]):
        return {**facts, "missing": (devices.missing(target.level),)}
    if len({gpu_identity(gpu) for gpu in found}) > 1:
        kinds = " and ".join(sorted({gpu.name for gpu in found}))
        advice = f"start Ray there with {devices.variable} of one kind"
        return {**facts, "missing": (f"GPUs of one kind (it has {kinds}; {advice})",)}
    return facts


def _devices(target: Target) -> Devices:
    found = target.backend.devices
    assert found is not None
    return found


def _ask_driver(target: Target) -> tuple[Gpu, ...]:
    """The node's GPUs, asked by a process of its own: a driver keeps what it saw first, and Ray reuses its processes."""
    variable = _devices(target).variable
    hidden = os.environ.get(variable) == ""  # Ray hides them from a task that borrows none
    environment = {name: text for name, text in os.environ.items() if not (hidden and name == variable)}
    command = [sys.executable, "-m", __name__, target.text]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_LIMIT, check=True)
    except subprocess.SubprocessError as error:
        words = getattr(error, "stderr", "") or ""
        raise EnvironmentFailure("the driver of the GPUs does not answer", found=f"{error} {words[-500:]}") from None
    return tuple(Gpu(**{**gpu, "capability": tuple(gpu["capability"])}) for gpu in json.loads(done.stdout))


if __name__ == "__main__":
    print(json.dumps([asdict(gpu) for gpu in _devices(parse_target(sys.argv[1])).found()]))
