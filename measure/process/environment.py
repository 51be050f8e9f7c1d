"""The environment of the children: fixed before any OpenMP runtime is loaded, and recorded with every measurement.

An idle OpenMP team normally spins for some 8 ms after each parallel region, on cores that builders need. A passive one
sleeps at once, and each region pays for waking it: 13 us instead of 3 us were measured. So the team sleeps, but spins
first for long enough to bridge two runs of the timed loop and an uneven division of work. Bound threads matter as much:
two that spin on one core made a region wait for a millisecond.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from ...runtime.devices.cpu.device import WAITING
from ...targets.host import usable_cores
from ...targets.target import names_gpu, parse_target

_ONE_THREAD_EACH = {"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}  # NumPy's own pools


def builder_environment() -> Mapping[str, str]:
    """A builder is one thread; it must not start teams."""
    return {**_ONE_THREAD_EACH, "OMP_NUM_THREADS": "1"}


def timer_environment(threads: int) -> Mapping[str, str]:
    """A timer's team: `threads` threads, each bound to a core of its own while there are enough."""
    bound = threads <= usable_cores()
    return {
        **_ONE_THREAD_EACH,
        "OMP_NUM_THREADS": str(threads),
        "OMP_DYNAMIC": "false",
        **WAITING,
        "OMP_PROC_BIND": "close" if bound else "false",
        "OMP_PLACES": "cores" if bound else "",
    }


def visible_devices(target: str) -> list[dict[str, str]]:
    """The environment of each timer on this machine: each sees one GPU, of those that are like the first; and one timer,
    which sees what there is, for a target that needs none."""
    resolved = parse_target(target) if names_gpu(target) else None
    devices = resolved.backend.devices if resolved is not None and resolved.needs_device else None
    found = devices.found() if devices is not None else ()
    if devices is None or not found:
        return [{}]
    listed = os.environ.get(devices.variable, "")
    names = listed.split(",") if listed else [str(number) for number in range(len(found))]
    alike = [name for name, gpu in zip(names, found, strict=False) if gpu == found[0]]
    return [{devices.variable: name} for name in alike]


def describe_environment(environment: Mapping[str, str] | None = None) -> str:
    """Returns what stands in `Measurement.device` about it: "OMP_WAIT_POLICY=passive GOMP_SPINCOUNT=100000 ..."."""
    found = os.environ if environment is None else environment
    names = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "OMP_PROC_BIND")
    return " ".join(f"{name}={found[name]}" for name in names if found.get(name))
