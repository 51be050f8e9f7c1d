"""What `tune env` tells: versions, this machine, the database, settings, and which `tune` a shell would run."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ...common.errors import TilesmithError
from ...common.settings import DATABASE, VARIABLES, unknown_variables
from ...measure.calibrate.calibrate import known_ceilings
from ...targets.ceilings import MATRIX, default_ceilings
from ...targets.host import usable_cores
from ...targets.isa import BACKENDS
from ...targets.target import Target, parse_target
from ..records.database import Database

_PACKAGES = (
    "numpy",
    "llvmlite",
    "xgboost",
    "xgboost-cpu",
    "scikit-learn",
    "ray",
    "pycuda",
    "cuda-bindings",
    "torch",
    "onnx",
)


def environment_facts(database: Path | None = None) -> dict[str, dict[str, str]]:
    """Heading -> name -> value, in the order of printing."""
    return {
        "versions": _versions(),
        "machine": _machine(),
        "database": _database(database or DATABASE.value()),
        "settings": _settings(os.environ),
        "commands": _commands(os.environ.get("PATH", "")),
    }


def version_line() -> str:
    """Returns what `tune --version` tells: the version, and those of the code generator and of LLVM."""
    from ...codegen.backends.cpu import builder_version

    return f"tilesmith {installed_version('tilesmith')}, {builder_version()}"


def _versions() -> dict[str, str]:
    from ...codegen.backends.cpu import builder_version

    facts = {
        "tilesmith": installed_version("tilesmith"),
        "builder": builder_version(),
        "python": platform.python_version(),
    }
    return facts | {package: installed_version(package) for package in _PACKAGES}


def installed_version(package: str) -> str:
    """Returns the version of an installed package, or says that it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _machine() -> dict[str, str]:
    try:
        host = parse_target("host")
        target, speeds = host.text, _ceilings(host, usable_cores())
    except TilesmithError as error:
        target, speeds = str(error), "none"
    return {
        "system": f"{platform.system()} {platform.release()}",
        "host target": target,
        "usable cores": str(usable_cores()),
        "ceilings": speeds,
        **_devices(),
    }


def _devices() -> dict[str, str]:
    """The devices of each backend whose driver can be asked."""
    asked = [(one.name, one.devices) for one in BACKENDS.values() if one.devices is not None and one.devices.driver]
    return {f"{name} devices": ", ".join(gpu.name for gpu in devices.found()) or "none" for name, devices in asked}


def _ceilings(target: Target, threads: int) -> str:
    """`f32 192 GFLOP/s, f64 96 GFLOP/s, memory 24 GB/s, with 2 threads`."""
    ceilings = known_ceilings(target, threads)
    if ceilings == default_ceilings(target, threads):
        return "not measured yet; the first search does it"
    flops = ", ".join(f"{dtype} {ceilings.flops[dtype] / 1e9:.0f} GFLOP/s" for dtype in ("f32", "f64"))
    if MATRIX in ceilings.flops:
        flops += f", bf16 on the matrix unit {ceilings.flops[MATRIX] / 1e9:.0f} GFLOP/s"
    return f"{flops}, memory {ceilings.bandwidth[-1][1] / 1e9:.0f} GB/s, with {threads} threads"


def _database(path: Path) -> dict[str, str]:
    facts = {"place": str(path)}
    if not path.exists():
        return facts | {"state": "does not exist yet; the first search makes it"}
    try:
        with Database(path, read_only=True) as database:
            tasks = database.tasks()
            return facts | {"tasks": str(len(tasks)), "size": f"{path.stat().st_size / 1e6:.1f} MB"}
    except TilesmithError as error:
        return facts | {"state": str(error)}


def _settings(environment: Mapping[str, str]) -> dict[str, str]:
    facts: dict[str, str] = {}
    for variable in VARIABLES:
        source = "" if environment.get(variable.name, "").strip() else " (default)"
        try:
            value = variable.value(environment)
            facts[variable.name] = f"{'not set' if value is None else value}{source}"
        except TilesmithError as error:
            facts[variable.name] = str(error)
    return facts | dict.fromkeys(unknown_variables(environment), "is not a setting; is it misspelt?")


def _commands(path: str) -> dict[str, str]:
    """Ray installs a command `tune` as well: which one a shell finds first depends on PATH and on who came last."""
    facts: dict[str, str] = {}
    for name in ("tune", "tilesmith"):
        found = list(commands_on_path(name, path))
        if not found:
            facts[name] = f"not on PATH; {sys.executable} -m tilesmith does the same"
        elif not is_ours(found[0]):
            facts[name] = f"{found[0]} is another program; use `tilesmith` or {sys.executable} -m tilesmith"
        else:
            facts[name] = str(found[0])
    return facts


def commands_on_path(name: str, path: str) -> Iterator[Path]:
    """All executable files of this name, in the order in which a shell looks."""
    for folder in path.split(os.pathsep):
        file = Path(folder or ".") / name
        if file.is_file() and os.access(file, os.X_OK):
            yield file


def is_ours(command: Path) -> bool:
    """Says whether a console script calls Tilesmith."""
    try:
        return b"tilesmith" in command.read_bytes()[:4096]
    except OSError:
        return False
