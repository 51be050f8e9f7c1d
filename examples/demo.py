"""Tunes a matrix product on this machine and compares the kernel with NumPy: what `make demo` runs.

python examples/demo.py [size] [trials]
"""

from __future__ import annotations

import statistics
import sys
import time
from dataclasses import asdict

import numpy as np
from rich.console import Console
from rich.table import Table

import tilesmith
from tilesmith.measure.calibrate import ceilings
from tilesmith.targets.target import parse_target


def seconds_of(run: object, rounds: int = 15) -> float:
    """The median seconds of a call, after one call that warms up."""
    assert callable(run)
    run()
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        run()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


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
    ours, numpys = seconds_of(lambda: kernel(a, b, out=c)), seconds_of(lambda: np.matmul(a, b, out=reference))
    worst = float(np.abs(c - reference).max())

    peak = ceilings(target, target.cores).flops["f32"]
    table = Table(title=f"matmul {size} x {size} x {size}, f32, {target.cores} threads")
    for name in ("", "ms", "GFLOP/s", "% of the FMA ceiling"):
        table.add_column(name, justify="left" if not name else "right")
    for name, seconds in (("this kernel", ours), ("NumPy", numpys)):
        speed = 2 * size**3 / seconds
        table.add_row(name, f"{seconds * 1e3:.2f}", f"{speed / 1e9:.0f}", f"{100 * speed / peak:.0f}")
    console.print(table)
    console.print(f"{numpys / ours:.2f} times NumPy; largest difference between the two {worst:.1e}")
    console.print(f"configuration: {kernel.provenance}")
    spent = ", ".join(f"{name} {seconds:.1f}" for name, seconds in asdict(result.spent).items())
    console.print(f"seconds: {spent}")


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
