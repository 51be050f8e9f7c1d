"""Tunes a matrix product on this machine and compares the kernel with NumPy: what `make demo` runs.

python examples/demo.py [size] [trials]
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict

import numpy as np
from rich.console import Console
from rich.table import Table

import tilesmith
from tilesmith.measure.calibrate.calibrate import ceilings
from tilesmith.targets.target import parse_target

REST = 0.12  # seconds, in which the threads of the one before go to sleep: those of OpenBLAS spin for 0.1
NOISE = 1.25  # times as slow as when it was tuned, from which on it is told


def in_turn(*runs: Callable[[], object], rounds: int = 15) -> list[list[float]]:
    """Seconds of calls, for each: one of each in every round, so that what else the machine does meets all alike."""
    times: list[list[float]] = [[] for _ in runs]
    for _ in range(rounds):
        for taken, run in zip(times, runs, strict=True):
            time.sleep(REST)
            run()  # wakes the threads, and warms up
            started = time.perf_counter()
            run()
            taken.append(time.perf_counter() - started)
    return times


def main(size: int = 1024, trials: int = 128) -> None:
    """Tunes, compiles with what was found, checks the result against NumPy, and prints the table."""
    console = Console()
    program = tilesmith.ops.matmul(m=size, n=size, k=size)
    target = parse_target("host")
    console.print(f"searching for a {size} x {size} x {size} matrix product in f32, {trials} trials")
    result = tilesmith.tune(program, trials=trials)

    kernel = tilesmith.compile(program)
    random = np.random.default_rng(0)
    a, b = (random.standard_normal((size, size), dtype=np.float32) for _ in range(2))
    c, reference = np.empty_like(a), np.empty_like(a)
    times = in_turn(lambda: kernel(a, b, out=c), lambda: np.matmul(a, b, out=reference))
    ours, numpys = map(statistics.median, times)
    ratio = statistics.median(theirs / own for own, theirs in zip(*times, strict=True))
    worst = float(np.abs(c - reference).max())

    peak = ceilings(target, target.cores).flops["f32"]
    table = Table(title=f"matmul {size} x {size} x {size}, f32, {target.cores} threads")
    for name in ("", "ms", "GFLOP/s", "% of the FMA ceiling"):
        table.add_column(name, justify="left" if not name else "right")
    for name, seconds in (("this kernel", ours), ("NumPy", numpys)):  # medians
        speed = 2 * size**3 / seconds
        table.add_row(name, f"{seconds * 1e3:.2f}", f"{speed / 1e9:.0f}", f"{100 * speed / peak:.0f}")
    console.print(table)
    console.print(f"{ratio:.2f} times NumPy, in turn; largest difference between the two {worst:.1e}")
    tuned = getattr(kernel.provenance, "seconds", None)
    if tuned and ours > NOISE * tuned:
        console.print(
            f"it took {tuned * 1e3:.2f} ms when it was tuned and takes {ours * 1e3:.2f} ms now: other programs use this "
            "machine, so neither the times nor the shares are its own; the ratio, taken in turn, says more"
        )
    console.print(f"configuration: {kernel.provenance}")
    spent = ", ".join(f"{name} {seconds:.1f}" for name, seconds in asdict(result.spent).items())
    console.print(f"seconds: {spent}")


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
