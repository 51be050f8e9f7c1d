"""The device that an artifact needs."""

from __future__ import annotations

from functools import cache

from ...codegen.artifact import Artifact
from ...common.errors import EnvironmentFailure, TargetError
from ...targets.target import Target, check_runs_here, parse_target
from .absent import AbsentDevice
from .base import Device


def device_for(artifact: Artifact) -> Device:
    """This machine's processors, its first GPU, or the emulator. Errors: those of `open_device`."""
    names = {"object": "cpu", "ptx": "cuda:0", "emulated": "cuda:emulator"}
    if artifact.format not in names:
        raise TargetError("no device runs this artifact", found=f"format {artifact.format!r}")
    return open_device(names[artifact.format])


def device_again(artifact: Artifact, name: str) -> Device:
    """The device of a name in another process, perhaps on another machine, which need not have it. Errors: of `open_device`."""
    return device_or_absent(artifact) if name in ("cpu", "cuda:0", "cuda:emulator") else open_device(name)


def device_or_absent(artifact: Artifact) -> Device:
    """Works as `device_for`; where there is no GPU that runs the artifact, one that only takes it to be looked at."""
    if artifact.format != "ptx":
        return device_for(artifact)
    try:
        check_runs_here(parse_target(artifact.target))
        return device_for(artifact)
    except (TargetError, EnvironmentFailure) as error:
        return AbsentDevice("cuda:0", error)


def device_name(target: Target, number: int = 0) -> str:
    """The name of the device that kernels for a target run on; `number` says which GPU."""
    if target.kind != "cuda":
        return "cpu"
    return "cuda:emulator" if target.is_emulator else f"cuda:{number}"


def open_device(name: str) -> Device:
    """The device of a name: "cpu", "cuda:0", "cuda:emulator". Each is started once in a process.

    Raises EnvironmentFailure without a driver or such a device, MissingExtra without a CUDA binding.
    """
    if name == "cpu":
        from .cpu.device import CpuDevice

        return CpuDevice()
    if name == "cuda:emulator":
        return _emulator()
    from .cuda.device import cuda_device

    return cuda_device(int(name.partition(":")[2]))


@cache
def _emulator() -> Device:
    from .emulator import emulator

    return emulator()
