"""What a kernel of a model costs beside its work: chains of small kernels as one artifact.

    python benchmarks/model_calls.py [--count 100] [--threads 2]

Each chain runs as a model inside one team of threads, and as one in which every parallel region forks its own, by turns; beside
them stands one of its kernels, called again and again. Small kernels start no threads; the last sizes are worth them. The bar:
a call costs under 1.5 us more than its kernel alone.
"""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import Annotated

import numpy as np
import typer

from tilesmith.codegen.artifact import Artifact
from tilesmith.codegen.backends.cpu import compile_object
from tilesmith.codegen.pipeline import build
from tilesmith.graph.executor.caller import caller_text
from tilesmith.graph.executor.calls import plan_calls
from tilesmith.graph.executor.compose import compose
from tilesmith.runtime.devices.cpu.device import CpuDevice
from tilesmith.schedules.task import Task
from tilesmith.targets.target import Target, parse_target
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.parse import parse
from tilesmith.tuner.apply.tiers import analytic_pick

SIZES = ((2, 64), (8, 256), (64, 1024), (128, 1024))
ROUNDS = 31


def chain(rows: int, columns: int, count: int) -> tuple[Program, list[Program]]:
    """A program of so many stages, and a kernel for each."""
    stages = [f"t{n + 1}[i: {rows}, j: {columns}] = t{n}[i, j] * 0.5 + {n % 7}" for n in range(count)]
    kernels = [parse(f"input t{n}: f32[{rows}, {columns}]\n{stage}\nreturn t{n + 1}") for n, stage in enumerate(stages)]
    return parse("\n".join([f"input t0: f32[{rows}, {columns}]", *stages, f"return t{count}"])), kernels


def built(kernels: list[Program], target: Target, threads: int) -> list[Artifact]:
    """The analytic model's picks; equal kernels have one."""
    made: dict[str, Artifact] = {}
    for kernel in kernels:
        task = Task.of(kernel, target, threads)
        if task.key not in made:
            pick = analytic_pick(task)
            made[task.key] = build(task.program, pick.sketch, pick.config, target, threads)
    return [made[Task.of(kernel, target, threads).key] for kernel in kernels]


def main(
    count: Annotated[int, typer.Option(help="kernels of a model")] = 100,
    threads: Annotated[int, typer.Option(help="of each kernel")] = 2,
) -> None:
    """Prints a line for each size: microseconds for each kernel, medians."""
    target, device = parse_target("host"), CpuDevice()
    for rows, columns in SIZES:
        program, kernels = chain(rows, columns, count)
        artifacts = built(kernels, target, threads)
        team = compose(program, kernels, artifacts, {})
        plan = plan_calls(program, kernels, artifacts, {}, {})
        forked = replace(team, code=compile_object(caller_text(team.symbol, plan, 1), target).code, runtime_symbols=())
        arrays = [np.zeros((rows, columns), np.float32), np.zeros((rows, columns), np.float32)]
        ways = {"one team": (team, count), "forks": (forked, count), "alone": (artifacts[0], 1)}
        loaded = {name: (device.load(artifact), calls) for name, (artifact, calls) in ways.items()}
        times: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(ROUNDS):
            for name, (kernel, calls) in loaded.items():
                repeats = 50 * count // calls
                times[name].append(kernel.run_repeat(arrays, repeats) / repeats / calls * 1e6)
        parallel = sum(bool(one.runtime_symbols) for one in artifacts)
        shown = ", ".join(f"{name} {statistics.median(values):.3f}" for name, values in times.items())
        typer.echo(f"{rows}x{columns}, {parallel} of {count} parallel: us for each kernel: {shown}")


if __name__ == "__main__":
    typer.run(main)
