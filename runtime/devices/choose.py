"""The device that an artifact needs."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from types import ModuleType

from ...codegen.artifact import Artifact
from ...common.errors import EnvironmentFailure, TargetError
from ...targets.isa import BACKENDS
from ...targets.target import Target, check_runs_here, parse_target
from .absent import AbsentDevice
from .base import Device

CPU = "cpu"
_EMULATOR = "emulator"


def device_for(artifact: Artifact) -> Device:
    """This machine's processors, its first GPU, or the emulator. Errors: those of `open_device`, TargetError."""
    target = parse_target(artifact.target)
    if artifact.format != _format(target):
        raise TargetError("no device runs this artifact", found=f"format {artifact.format!r}")
    if target.needs_device and not _driver_of(target):
        check_runs_here(target)  # says what is missing
    return open_device(device_name(target))


def _format(target: Target) -> str:
    """Returns the format of the code of an artifact for a target."""
    if not target.is_gpu:
        return "object"
    return "emulated" if target.is_emulator else target.emission.format


def device_again(artifact: Artifact, name: str) -> Device:
    """The device of a name in another process, perhaps on another machine, which need not have it. Errors: of `open_device`."""
    usual = name == device_name(parse_target(artifact.target))
    return device_or_absent(artifact) if usual else open_device(name)


def device_or_absent(artifact: Artifact) -> Device:
    """Works as `device_for`; where nothing here runs the artifact, a device that only takes it to be looked at or exported."""
    target = parse_target(artifact.target)
    if target.is_emulator:
        return device_for(artifact)
    try:
        check_runs_here(target)
        return device_for(artifact)
    except (TargetError, EnvironmentFailure) as error:
        return AbsentDevice(device_name(target), error)


def device_name(target: Target, number: int = 0) -> str:
    """The name of the device that kernels for a target run on; `number` says which GPU."""
    if not target.is_gpu:
        return CPU
    return f"{target.kind}:{_EMULATOR if target.is_emulator else number}"


def check_driver(target: Target) -> None:
    """Returns if there is a package that drives the devices of a target. Errors: MissingExtra, TargetError."""
    driver = _driver_of(target)
    if not driver:
        check_runs_here(target)
    else:
        _part(driver, "opening").require_binding()


def open_device(name: str) -> Device:
    """The device of a name: "cpu", "KIND:0", "KIND:emulator", with the name of a backend. Each is started once in a process.

    Raises EnvironmentFailure without a driver or such a device, MissingExtra without a binding to it.
    """
    if name == CPU:
        from .cpu.device import CpuDevice

        return CpuDevice()
    kind, _, number = name.partition(":")
    if number == _EMULATOR:
        return _emulator(name)
    devices = BACKENDS[kind].devices
    if devices is None or not devices.driver:
        raise EnvironmentFailure(f"there is no driver for {name} yet", advice=f"{kind}:{_EMULATOR} runs on any machine")
    opened: Device = _part(devices.driver, "device").open_gpu(int(number))
    return opened


def _driver_of(target: Target) -> str:
    devices = target.backend.devices
    return devices.driver if devices is not None else ""


def _part(driver: str, module: str) -> ModuleType:
    """A module of a driver's folder: `device` has `open_gpu`, `opening` has `require_binding`."""
    return import_module(f".{driver}.{module}", __package__)


@cache
def _emulator(name: str) -> Device:
    from .emulator import emulator

    return emulator(name=name)
