"""What compiled models take of memory beyond their weights, beside ONNX Runtime.

    python benchmarks/model_memory.py --folder /tmp/forms                # prepared by models.py --folder /tmp/forms --prepare
    python benchmarks/model_memory.py --folder /tmp/forms --model resnet18 --cold

Each model is read and run in a process of its own, which tells what it gained from before the model was read until after some
calls, and at most in between. *anonymous* is what no file holds: pages of libraries and of mapped weights, which the system
may drop and which processes share, are not among it; *resident* is all. Weights are subtracted from both.
"""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table
from zoo.forms import facts_of, read_arrays
from zoo.names import NAMES

from tilesmith.tuner.bench.onnxruntime_calls import session_of

WAYS = ("tilesmith", "onnxruntime")
CALLS = 5

# the child


def _ours(folder: Path, inputs: list[np.ndarray], threads: int) -> Callable[[], object]:
    import tilesmith

    kernel = tilesmith.compile(tilesmith.load(folder / "ours"), threads=threads)
    return lambda: kernel(*inputs)


def _onnxruntime(folder: Path, inputs: list[np.ndarray], threads: int) -> Callable[[], object]:
    session = session_of(str(folder / "model.onnx"), threads)
    named = {item.name: array for item, array in zip(session.get_inputs(), inputs, strict=True)}
    return lambda: session.run(None, named)


def _held() -> dict[str, int]:
    """Bytes of this process: what is resident, and what of it no file holds."""
    text = Path("/proc/self/smaps_rollup").read_text(encoding="ascii")
    return {key.lower(): 1024 * int(re.findall(rf"^{key}:\s+(\d+)", text, re.M)[0]) for key in ("Rss", "Anonymous")}


def _most() -> int:
    """The most that was resident since `_forget_most`."""
    return 1024 * int(re.findall(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text(encoding="ascii"))[0])


def _forget_most() -> None:
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def measure(way: str, folder: Path, threads: int) -> dict[str, Any]:
    """Counts what this process gains by one model."""
    inputs = read_arrays(folder / "inputs.npz")
    __import__("tilesmith.tuner.apply.compile" if way == "tilesmith" else "onnxruntime")
    before = _held()
    _forget_most()
    call = _ours(folder, inputs, threads) if way == "tilesmith" else _onnxruntime(folder, inputs, threads)
    for _ in range(CALLS):
        call()
    after, weights = _held(), facts_of(folder)["weight_bytes"]
    gained = {key: after[key] - before[key] - weights for key in after}
    children = 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return {**gained, "most": _most() - before["rss"] - weights, "weights": weights, "child": children}


# the parent


def _asked(way: str, folder: Path, threads: int, cache: Path | None) -> dict[str, int]:
    environment = os.environ | ({"TILESMITH_CACHE": str(cache)} if cache else {})
    command = [sys.executable, __file__, "--folder", str(folder), "--threads", str(threads), "--child", way]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return found


def _row(name: str, ours: dict[str, int], other: dict[str, int]) -> list[str]:
    cells = [name, f"{ours['weights'] / 1e6:.0f}"]
    for key in ("anonymous", "rss", "most"):
        cells += [f"{ours[key] / 1e6:.0f}", f"{other[key] / 1e6:.0f}"]
        cells.append(f"{ours[key] / other[key]:.2f}" if other[key] > 0 else "")
    return [*cells, f"{ours['child'] / 1e6:.0f}"]


def main(
    folder: Annotated[Path, typer.Option(help="what models.py has exported to")],
    model: Annotated[list[str] | None, typer.Option(help=f"of {', '.join(NAMES)}; all unless given")] = None,
    threads: Annotated[int, typer.Option(min=1)] = 2,
    cold: Annotated[bool, typer.Option("--cold", help="ours with an empty cache, so that it picks and builds")] = False,
    child: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> None:
    """Compares the memory of whole models."""
    if child:
        print(json.dumps(measure(child, folder, threads)))
        return
    table = Table(title="MB beyond the weights: ours, ONNX Runtime's, ratio")
    for header in ("model", "weights", "anonymous", "", "", "resident", "", "", "at most", "", "", "child"):
        table.add_column(header, justify="left" if header == "model" else "right")
    for name in model or NAMES:
        with TemporaryDirectory(prefix="tilesmith-memory-") as own:
            ours = _asked("tilesmith", folder / name, threads, Path(own) if cold else None)
        row = _row(name, ours, _asked("onnxruntime", folder / name, threads, None))
        print("  ".join(row), file=sys.stderr, flush=True)
        table.add_row(*row)
    Console(width=None if sys.stdout.isatty() else 160).print(table)


if __name__ == "__main__":
    typer.run(main)
