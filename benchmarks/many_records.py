"""A database of a million records, and how long `tune show` takes on it.

    python benchmarks/many_records.py /tmp/million.sqlite [--records 1000000] [--tasks 200]

The records are made up: tasks of matrix products, trials of random configs, one in ten of which failed. What exists
already is used again. Processor seconds are told beside those of the clock, as the machine may be busy.
"""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from tilesmith import ops
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor.text.canonical import family_key, program_key
from tilesmith.tuner.display import display_text
from tilesmith.tuner.records.data import Machine, StoredSketch, TaskIdentity
from tilesmith.tuner.records.database import Database
from tilesmith.tuner.records.rows import COLUMNS

COMMANDS = (
    ("show",),
    ("show", "--limit", "5", "matmul", "m=64", "n=64", "k=64"),
    ("best", "matmul", "m=64", "n=64", "k=64"),
)


def write(path: Path, records: int, tasks: int, seed: int = 0) -> None:
    """Fills a database. Rows go in as one transaction: a million committed trials would take an hour."""
    generator, target = random.Random(seed), parse_target("host")
    with Database(path) as database:
        database.add_machine(Machine("m1", "a machine"))
        database.add_sketches([StoredSketch("", "")])
        names = f"{COLUMNS}, program, target, threads, accuracy"
        statement = f"INSERT INTO record ({names}) VALUES ({', '.join('?' * len(names.split(',')))})"
        connection = database._connection
        for number in range(tasks):
            task = _task(64 + number, target)
            database.add_task(task)
            run = database.begin_run(task.key, json.dumps({"trials": records // tasks})).id
            connection.execute("BEGIN")
            rows = (_row(task, run, n, generator) for n in range(records // tasks))
            connection.executemany(statement, rows)
            connection.execute("COMMIT")
            database.end_run(run, finished=True, spent=60.0)


def _task(size: int, target: object) -> TaskIdentity:
    program = ops.matmul(m=size, n=64, k=64)
    task = Task.of(program, target, 2)  # type: ignore[arg-type]
    return TaskIdentity(
        program_key(task.program), family_key(task.program), task.text, display_text(program), task.target.key,
        task.target.text, 2,
    )  # fmt: skip


def _row(task: TaskIdentity, run: str, number: int, generator: random.Random) -> tuple[object, ...]:
    ok, seconds = generator.random() > 0.1, 1e-5 * (1 + generator.expovariate(1.0))
    times = json.dumps([seconds, seconds * 1.01, seconds * 1.02]) if ok else "[]"
    config = json.dumps({"t0.rows": number, "t0.vectors": number % 7, "t0.unroll": number % 3}, separators=(",", ":"))
    ended = (
        ("ok", times, seconds, int(number % 3 > 0), "", "") if ok else ("crash", times, None, 0, "time", "signal 11")
    )
    return (
        task.key, "", config, "codegen 20", "m1", run, "search", *ended, 0.05, 0.01, 0.02, "d", 1.7e9 + number, number / 10,
        task.program_key, task.target_key, task.threads, task.accuracy,
    )  # fmt: skip


def main(
    path: Annotated[Path, typer.Argument(help="the database")],
    records: Annotated[int, typer.Option(min=1)] = 1_000_000,
    tasks: Annotated[int, typer.Option(min=1)] = 200,
) -> None:
    """Fills the database unless it is there, and times commands on it."""
    if not path.exists():
        begin = time.perf_counter()
        write(path, records, tasks)
        print(
            f"{records} records of {tasks} tasks in {time.perf_counter() - begin:.0f} s, {path.stat().st_size / 1e6:.0f} MB"
        )
    for words in COMMANDS:
        before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        command = [sys.executable, "-m", "tilesmith", *words, "--db", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ}, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        ended = f"{len(done.stdout.splitlines())} lines, code {done.returncode}"
        print(f"tune {' '.join(words)}: {used:.2f} s of a processor, {time.perf_counter() - begin:.2f} s; {ended}")


if __name__ == "__main__":
    typer.run(main)
