"""`tune doctor`: what this machine and this installation have, what is missing, and the command that adds it."""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from ...common.errors import TilesmithError
from ...common.settings import CACHE, DATABASE
from ...targets.backend import Devices, Gpu
from ...targets.host import usable_cores
from ...targets.isa import BACKENDS
from ...targets.target import parse_target
from ..records.database import Database
from ..terminal import make_console
from ..units import size_text
from .about import commands_on_path, installed_version, is_ours
from .parameters import DatabasePath

GOOD, NOTE, MISSING, BAD = "good", "note", "missing", "bad"
_MARKS = {GOOD: "ok", NOTE: "note", MISSING: "not there", BAD: "wrong"}
_STYLES = {GOOD: "green", NOTE: "yellow", MISSING: "dim", BAD: "bold red"}
_EXTRAS = {  # of this package: what it brings, and what for
    "ray": ("ray", "searches on a cluster"),
    "torch": ("torch", "models of PyTorch"),
    "onnx": ("onnx", "models in ONNX files"),
    "report": ("plotly", "`tune report`"),
    "tensorboard": ("tensorboardX", "curves of a search in TensorBoard"),
    "mlflow": ("mlflow", "trials as metrics of MLflow"),
    "nvtx": ("nvtx", "kernels by name in NVIDIA's profilers"),
    "itt": ("ittapi", "kernels by name in Intel's profilers"),
}
_LEAST_FREE = 200e6  # bytes for a database and a cache
_UNSTEADY, _BUSY = 0.05, 0.10  # spread of a fixed computation; share of the processors that others take


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. `command`: what mends or adds it.

    `state`: good; note: tuning works, and may be better; missing: an optional part is not there; bad: tuning cannot work.
    """

    area: str
    state: str
    found: str
    command: str = ""


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="the same as JSON")] = False,
    db: DatabasePath = None,
) -> None:
    """Looks at versions, processor, GPU, libraries, disk and noise. The exit code is 1 where tuning cannot work here."""
    findings = examined(db or DATABASE.value())
    works = not any(finding.state == BAD for finding in findings)
    if as_json:
        print(json.dumps({"works": works, "findings": [asdict(finding) for finding in findings]}, indent=1))
    else:
        _tell(findings, works=works)
    if not works:
        sys.exit(1)


def _tell(findings: list[Finding], *, works: bool) -> None:
    console = make_console()
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    for fixed in (True, True, False):
        table.add_column(no_wrap=fixed, overflow="fold")
    for one in findings:
        said = Text(one.found)
        if one.command:
            said.append(f"\n{one.command}", style="bold")
        table.add_row(Text(one.area), Text(_MARKS[one.state], style=_STYLES[one.state]), said)
    console.print(table)
    wrong = [one.area for one in findings if one.state == BAD]
    console.print(
        Text("\ntuning works here" if works else f"\ntuning cannot work here: {', '.join(wrong)}", style="bold")
    )


def examined(database: Path) -> list[Finding]:
    """All that was looked at, in the order of printing. What fails in a way that nobody thought of is a finding too."""
    findings: list[Finding] = []
    for look in (_versions, _processor, _kernel, _learning, _openmp, _compiler, _devices, _extras, _peers):
        findings += _looked(look)
    findings += _looked(lambda: _places(database))
    for look in (_memory, _clock, _noise, _commands):
        findings += _looked(look)
    return findings


def _looked(look: Callable[[], Iterator[Finding]]) -> list[Finding]:
    try:
        return list(look())
    except TilesmithError as error:
        return [Finding(look.__name__.strip("_"), BAD, error.problem, error.advice)]
    except Exception as error:  # a doctor does not fall ill
        return [Finding(look.__name__.strip("_"), NOTE, f"could not be looked at: {type(error).__name__}: {error}")]


def _versions() -> Iterator[Finding]:
    from ...codegen.backends.cpu import builder_version

    packages = [f"{name} {installed_version(name)}" for name in ("numpy", "llvmlite")]
    yield Finding(
        "versions", GOOD, ", ".join([f"tilesmith {installed_version('tilesmith')}", *packages, builder_version()])
    )
    system = platform.system()
    yield Finding(
        "system",
        GOOD if system == "Linux" else NOTE,
        f"{system} {platform.release()}, Python {platform.python_version()}",
    )


def _processor() -> Iterator[Finding]:
    host = parse_target("host")
    name = host.text.partition(";")[0]
    yield Finding("processor", GOOD, f"{name}, {usable_cores()} usable cores; --target {host.text!r}")
    units = ", ".join(sorted({one.name for one in host.matrix_instructions}))
    yield Finding("products", GOOD, units or "no instructions for products of narrow elements: plain vectors")


def _kernel() -> Iterator[Finding]:
    """Builds and runs a small kernel, as any search does."""
    import numpy as np

    from ...tensor.ops import OPERATORS
    from ..apply.compile import compile as compile_program

    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        kernel = compile_program(OPERATORS["matmul"](m=8, n=8, k=8), db=Path(folder) / "none.sqlite", threads=1)
    a = np.arange(64, dtype=np.float32).reshape(8, 8)
    if not np.allclose(kernel(a, a), a @ a):
        yield Finding("kernels", BAD, "a small kernel gave a wrong result", "report it, with `tune doctor --json`")
        return
    yield Finding("kernels", GOOD, f"one was built, ran and was right, in {time.perf_counter() - begin:.2f} s")


def _learning() -> Iterator[Finding]:
    from ..packages import LEARNING, install_command, missing_packages

    missing = missing_packages()
    if missing:
        yield Finding(
            "search",
            BAD,
            f"no {', no '.join(missing)}, which it learns with (--strategy evolution needs none)",
            install_command(missing),
        )
    else:
        yield Finding("search", GOOD, ", ".join(f"{package} is there" for package in LEARNING))


def _openmp() -> Iterator[Finding]:
    from ...runtime.devices.cpu.device import openmp_runtime

    try:
        yield Finding("threads", GOOD, f"OpenMP runtime {openmp_runtime()._name}")
    except TilesmithError as error:
        state = BAD if usable_cores() > 1 else NOTE
        yield Finding("threads", state, f"{error.problem} (--threads 1 needs none)", "apt install libgomp1")


def _compiler() -> Iterator[Finding]:
    found = next((name for name in (os.environ.get("CC", ""), "gcc", "cc", "clang") if name and shutil.which(name)), "")
    if found:
        yield Finding("C compiler", GOOD, f"{shutil.which(found)}, for `tune compile`")
    else:
        yield Finding("C compiler", MISSING, "`tune compile` writes C libraries with one", "apt install gcc binutils")


def _devices() -> Iterator[Finding]:
    for backend in BACKENDS.values():
        devices = backend.devices
        if devices is None or not devices.driver:
            continue
        gpus = devices.found()
        if gpus:
            yield Finding("GPU", GOOD, "; ".join(f"{gpu.name}, {size_text(gpu.memory)}" for gpu in gpus))
            yield _binding(gpus[0], devices)
        else:
            yield Finding(
                "GPU", MISSING, f"{devices.words} is not there, or its driver is not (kernels can be emulated)"
            )


def _binding(gpu: Gpu, devices: Devices) -> Finding:
    from ...runtime.devices.choose import check_driver

    try:
        check_driver(parse_target(devices.own(gpu)))
    except TilesmithError as error:
        return Finding("GPU driver", BAD, error.problem, error.advice)
    return Finding("GPU driver", GOOD, "Python's binding to it is there")


def _extras() -> Iterator[Finding]:
    for extra, (package, use) in _EXTRAS.items():
        if find_spec(package) is None:
            yield Finding(extra, MISSING, use, f"pip install 'tilesmith[{extra}]'")
        else:
            yield Finding(extra, GOOD, f"{package} {_version_of(package)}, for {use}")


def _version_of(package: str) -> str:
    """Returns the version of a package's distribution: mlflow may be of mlflow-skinny. To find out takes a look at all files
    that are installed, so those of one name are asked first."""
    try:
        return version(package)
    except PackageNotFoundError:
        return installed_version(packages_distributions().get(package, [package])[0])


def _peers() -> Iterator[Finding]:
    from ..bench.libraries import LIBRARIES

    there = [name for name, peer in LIBRARIES.items() if all(find_spec(module) for module in peer.needs)]
    missing = {name: peer for name, peer in LIBRARIES.items() if name not in there}
    yield Finding("peers", GOOD, f"`tune bench` compares with {', '.join(there)}")
    commands = dict.fromkeys(peer.install for name, peer in missing.items() if not name.startswith("torch"))
    if commands:
        yield Finding("more peers", MISSING, ", ".join(name for name in missing), "; ".join(commands))


def _places(database: Path) -> Iterator[Finding]:
    yield _database(database)
    for area, folder in (("disk", database.parent), ("cache", CACHE.value())):
        there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
        free = shutil.disk_usage(there).free
        if not _is_writable(there):
            name = DATABASE.name if area == "disk" else CACHE.name
            yield Finding(area, BAD, f"{there} cannot be written", f"export {name}=/another/place, or chown it")
        elif free < _LEAST_FREE:
            yield Finding(
                area, BAD, f"{folder}: {size_text(free)} free", f"rm -r {CACHE.value()}/* frees what can be made again"
            )
        else:
            yield Finding(area, GOOD, f"{folder}: writable, {size_text(free)} free")


def _database(path: Path) -> Finding:
    if not path.exists():
        return Finding("database", GOOD, f"{path}: the first search makes it")
    try:
        with Database(path, read_only=True) as database:
            count = database.count()
    except TilesmithError as error:
        return Finding("database", BAD, error.problem, error.advice)
    return Finding("database", GOOD, f"{path}: {count} records, {size_text(path.stat().st_size)}")


def _is_writable(folder: Path) -> bool:
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _memory() -> Iterator[Finding]:
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    yield Finding("memory", GOOD if free > 1e9 else NOTE, f"{size_text(free)} available")


def _clock() -> Iterator[Finding]:
    governor = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    said = governor.read_text(encoding="ascii").strip() if governor.exists() else ""
    if said and said != "performance":
        yield Finding("clock", NOTE, f"the governor is {said}", "sudo cpupower frequency-set -g performance")
    else:
        yield Finding(
            "clock", GOOD, f"the governor is {said}" if said else "no governor to be seen, as on virtual machines"
        )


def _noise() -> Iterator[Finding]:
    from ...measure.compare.noise import steadiness

    found = steadiness()
    steady = found.spread <= _UNSTEADY
    yield Finding(
        "steadiness", GOOD if steady else NOTE,
        f"a fixed computation varies by {found.spread:.1%} in its middle half, at most {found.slowest:.1f} times as long",
        "" if steady else "end other programs, or tune on another machine: times say less here",
    )  # fmt: skip
    quiet = found.others <= _BUSY
    host = f", {found.stolen:.0%} of it the host" if found.stolen > 0.01 else ""
    yield Finding(
        "neighbours", GOOD if quiet else NOTE, f"other programs took {found.others:.0%} of the processors{host}",
        "" if quiet else "top shows which; a search goes on beside them, more slowly",
    )  # fmt: skip


def _commands() -> Iterator[Finding]:
    for name in ("tune", "tilesmith"):
        found = next(commands_on_path(name, os.environ.get("PATH", "")), None)
        if found is None:
            yield Finding(name, NOTE, "not on PATH", f"{sys.executable} -m tilesmith does the same")
        elif not is_ours(found):
            yield Finding(
                name, NOTE, f"{found} is another program", f"use `tilesmith`, or {sys.executable} -m tilesmith"
            )
        else:
            yield Finding(name, GOOD, str(found))
