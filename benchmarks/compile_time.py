"""How long candidates take to compile: random ones of a few programs, from the loop tree to the object file.

    python benchmarks/compile_time.py [--count 100] [--threads 2]

A candidate that LLVM takes minutes for would end a search, one that takes a second slows it down; hence the 95th percentile.
Seconds are those of the processor, in one process that has compiled before, as in a builder of a search. The bars: a median of
60 ms, 150 ms at the 95th percentile. Where the time of one candidate goes: `tune explain ID --compile-time`.
"""

from __future__ import annotations

import json
import time
from typing import Annotated

import numpy as np
import typer
from results_folder import results_folder
from rich.console import Console
from rich.table import Table

from tilesmith.codegen.pipeline import assembled, kernel_name, loop_ir, loop_tree
from tilesmith.measure.compare.noise import describe
from tilesmith.schedules.space_ops import sample
from tilesmith.schedules.task import Task
from tilesmith.targets.ceilings import default_ceilings
from tilesmith.targets.target import Target, parse_target
from tilesmith.tensor.ops import OPERATORS
from tilesmith.tensor.program import Program
from tilesmith.tuner.task_space import TaskSpace

MEDIAN, MOST = 60e-3, 150e-3  # seconds that are allowed
PROGRAMS: tuple[tuple[str, dict[str, int]], ...] = (
    ("matmul", {"m": 1024, "n": 1024, "k": 1024}),
    ("matmul", {"m": 1009, "n": 1013, "k": 1019}),
    ("conv2d", {"n": 1, "c": 64, "h": 56, "w": 56, "o": 64, "kernel": 3, "padding": 1}),
    ("matmul_bias_gelu", {"m": 128, "n": 3072, "k": 768}),
)
PARTS = ("apply", "lower", "emit", "parse", "optimize", "code")


def compiled(program: Program, count: int, target: Target, threads: int, seed: int) -> list[dict[str, float]]:
    """Processor seconds of each part, of candidates drawn from all sketches alike (not from the unscheduled nest)."""
    space = TaskSpace(Task.of(program, target, threads), default_ceilings(target, threads))
    random = np.random.default_rng(seed)
    found = []
    for number in range(count + 1):  # the first one pays for what is loaded once
        sketch = 1 + number % (len(space.config_spaces) - 1)
        drawn = sample(space, random, sketch, 1)
        while not len(drawn):
            drawn = sample(space, random, sketch, 1)
        config = space.config(drawn.candidate(0))
        started = time.process_time()
        tree = loop_tree(program, space.sketches[sketch], config, target)
        applied = time.process_time()
        loops = loop_ir(tree, target, threads, kernel_name(program))
        lowered = time.process_time()
        artifact = assembled(loops, target, threads)
        whole = time.process_time() - lowered
        parts = {name: artifact.seconds[name] for name in ("emit", "parse", "optimize", "code")}
        share = whole / sum(parts.values())  # the artifact tells wall seconds
        found.append(
            {"apply": applied - started, "lower": lowered - applied, **{n: s * share for n, s in parts.items()}}
        )
    return found[1:]


def main(
    count: Annotated[int, typer.Option(min=1, help="candidates of each program")] = 100,
    threads: Annotated[int, typer.Option(min=1)] = 2,
    seed: int = 0,
) -> None:
    """Prints a line for each program, and keeps all in benchmarks/results/compile-time.json."""
    target = parse_target("host")
    table = Table(title=f"compile time of {count} random candidates (ms of processor time)")
    for header in ("program", "median", "95%", "longest", *PARTS, "asked"):
        table.add_column(header, justify="left" if header in ("program", "asked") else "right")
    rows = []
    for operator, sizes in PROGRAMS:
        program = Task.of(OPERATORS[operator](**sizes), target, threads).body
        parts = compiled(program, count, target, threads, seed)
        totals = np.array([sum(one.values()) for one in parts])
        median, most = float(np.median(totals)), float(np.quantile(totals, 0.95))
        means = [float(np.mean([one[name] for one in parts])) for name in PARTS]
        name = f"{operator} {'x'.join(map(str, sizes.values()))}"
        met = median <= MEDIAN and most <= MOST
        numbers = [f"{value * 1e3:.0f}" for value in (median, most, float(totals.max()), *means)]
        table.add_row(name, *numbers, "met" if met else "missed")
        rows.append({"name": name, "median": median, "p95": most, "parts": dict(zip(PARTS, means, strict=True))})
    Console(width=150).print(table)
    document = {"machine": describe(), "target": target.text, "count": count, "seed": seed, "rows": rows}
    (results_folder() / "compile-time.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
