"""How long the search thinks: sampling, validity, features and analytic scores of 100,000 configs, on one core.

python benchmarks/space.py [--count 100000] [operator name=value ...]
"""

from __future__ import annotations

import os
import time
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from tilesmith.schedules.space import Population
from tilesmith.schedules.space_ops import shares
from tilesmith.schedules.task import Task
from tilesmith.targets.ceilings import default_ceilings
from tilesmith.targets.target import parse_target
from tilesmith.tensor.ops import OPERATORS
from tilesmith.tuner.task_space import TaskSpace

PARTS = ("sample", "valid", "features", "score")
GOAL = 2.0  # seconds for 100,000 configs


def drawn(space: TaskSpace, sketch: int, count: int, random: np.random.Generator) -> Population:
    """`count` configs of one sketch, each parameter drawn alone, valid or not."""
    sizes = [len(parameter.values) for parameter in space.config_spaces[sketch].parameters]
    return Population(sketch, random.integers(0, sizes, (count, len(sizes)), dtype=np.int32))


def timed(space: TaskSpace, count: int) -> tuple[dict[str, float], int, int]:
    """(seconds by part over all sketches, configs, valid ones). Validity comes first and so pays for walking the loop trees."""
    random = np.random.default_rng(0)
    seconds, configs, valid = dict.fromkeys(PARTS, 0.0), 0, 0
    for sketch, share in enumerate(shares(space, count)):
        begin = time.perf_counter()
        population = drawn(space, sketch, share, random)
        marks = [time.perf_counter()]
        valid += int(space.valid(population).sum())
        marks.append(time.perf_counter())
        space.features(population)
        marks.append(time.perf_counter())
        space.prior(population)
        marks.append(time.perf_counter())
        configs += len(population)
        for part, start, end in zip(PARTS, (begin, *marks), marks, strict=False):
            seconds[part] += end - start
    return seconds, configs, valid


def main(
    operator: Annotated[str, typer.Argument()] = "matmul",
    sizes: Annotated[list[str] | None, typer.Argument(help="name=value ...")] = None,
    count: Annotated[int, typer.Option(min=1)] = 100_000,
    repeats: Annotated[int, typer.Option(min=1, help="the fastest counts")] = 3,
) -> None:
    """Times the batched analysis of the space of one operator."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    named = dict(text.split("=", 1) for text in sizes or ("m=1024", "n=1024", "k=1024"))
    target = parse_target("host")
    program = OPERATORS[operator](**{name: int(value) for name, value in named.items()})
    begin = time.perf_counter()
    space = TaskSpace(Task.of(program, target, 2), default_ceilings(target, 2))
    config_spaces = space.config_spaces
    derived = time.perf_counter() - begin
    runs = [timed(space, count) for _ in range(repeats)]
    seconds, configs, valid = min(runs, key=lambda run: sum(run[0].values()))

    sizes_text = " ".join(f"{name}={value}" for name, value in named.items())
    table = Table(title=f"{operator} {sizes_text}: {len(config_spaces)} sketches, {configs} configs, {valid} valid")
    table.add_column("part")
    table.add_column("seconds", justify="right")
    for part, value in {**seconds, "all": sum(seconds.values())}.items():
        table.add_row(part, f"{value:.3f}")
    console = Console()
    console.print(table)
    console.print(
        f"deriving the sketches took {derived:.3f} s before; {GOAL * configs / 100_000:.1f} s are allowed in all"
    )


if __name__ == "__main__":
    typer.run(main)
