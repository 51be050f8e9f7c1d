"""What the code makes of candidates drawn by a seed, as hashes: whether a change of the code changed anything.

    python benchmarks/fingerprint.py record /tmp/before.jsonl --count 2000
    python benchmarks/fingerprint.py compare /tmp/before.jsonl

A line is one candidate: a program (rows of the benchmarks and drawn drafts), a target, a sketch, a config. Kept are its keys,
the hashes of its loop IR and of its LLVM text, and the seconds that the analytic model predicts by default ceilings. `compare`
makes the same candidates again and lists what differs, field by field. A move of files or a new name of a class
changes nothing; what changes code, schedules, or keys shows here, and has to be meant.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from random import Random
from typing import Annotated

import drafts
import numpy as np
import typer
from rich.progress import track
from workloads import ROWS

from tilesmith.codegen.pipeline import build
from tilesmith.common.errors import TilesmithError
from tilesmith.schedules.space import Candidate, Population
from tilesmith.schedules.space_ops import sample
from tilesmith.schedules.task import Task
from tilesmith.targets.ceilings import default_ceilings
from tilesmith.targets.target import parse_target
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.canonical import program_key
from tilesmith.tuner.task_space import TaskSpace

TARGETS = ("x86:avx512", "x86:avx512+amx", "x86:avx2", "x86:sse2", "cuda:sm_90a", "cuda:emulator")
DTYPES = ("f32", "f32", "f64", "f16", "bf16")
OF_A_SPACE = 3  # candidates of each space
Line = dict[str, object]
app = typer.Typer(help=__doc__, add_completion=False)


def programs(seed: int) -> Iterator[tuple[str, Program]]:
    """Programs without end, by name: a row of the benchmarks and a draft in turn."""
    random = Random(seed)
    while True:
        row = random.choice([row for row in ROWS if not row.operator.startswith("draft")])
        yield row.name, row.program()
        number, dtype = random.randrange(1 << 20), random.choice(DTYPES)
        yield f"draft:{number} {dtype}", drafts.draw(number).program(dtype)


def fingerprints(count: int, seed: int) -> Iterator[Line]:
    """`count` lines. Candidates that cannot be built are lines too, with the error's text."""
    return islice(_candidates(seed), count)


def _candidates(seed: int) -> Iterator[Line]:
    for number, (name, program) in enumerate(programs(seed)):
        target = parse_target(TARGETS[number // 2 % len(TARGETS)])
        task = Task.of(program, target, 1 + number % 2)
        start: Line = {"place": f"{number}", "program": name, "target": target.text, "threads": task.threads}
        try:
            space = TaskSpace(task, default_ceilings(target, task.threads))
            spaces = str(space.config_spaces).replace("ConfigSpace(", "Arm(")  # as they were named in older recordings
            keys = {"program key": program_key(task.program), "task": task.key, "arms": _hash(spaces)}
        except TilesmithError as error:
            yield {**start, "error": str(error)}
            continue
        rng = np.random.default_rng([seed, number])
        for nth, sketch in enumerate(rng.permutation(len(space.config_spaces))[:OF_A_SPACE]):
            drawn = sample(space, rng, int(sketch), 1)
            if len(drawn):
                yield {**start, "place": f"{number}.{nth}", **keys, **_of_candidate(space, drawn)}


def _of_candidate(space: TaskSpace, drawn: Population) -> Line:
    task, candidate = space.task, drawn.candidate(0)
    config = space.config(candidate)
    line: Line = {
        "sketch": space.config_spaces[candidate.sketch].key, "config": _in_order(space, candidate),
        "predicted": f"{float(space.prior(drawn)[0]):.9e}",
    }  # fmt: skip
    try:
        texts = build(
            task.program, space.sketches[candidate.sketch], config, task.target, task.threads, texts=True
        ).texts
    except TilesmithError as error:
        return {**line, "error": str(error)}
    return {**line, "loops": _hash(texts["loops"]), "llvm": _hash(texts["llvm"])}


def _in_order(space: TaskSpace, candidate: Candidate) -> str:
    return " ".join(f"{name}={value}" for name, value in sorted(space.config(candidate).items()))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def differences(before: Sequence[Line], after: Sequence[Line]) -> list[tuple[Line, list[str]]]:
    """The lines whose counterpart, drawn in the same place, is another, with the names of the fields that differ."""
    others = {line["place"]: line for line in after}
    places = {line["place"] for line in before}
    found = [(line, ["candidate"]) for line in others.values() if line["place"] not in places]
    for old in before:
        new = others.get(old["place"])
        fields = ["candidate"] if new is None else [n for n in sorted({*old, *new}) if old.get(n) != new.get(n)]
        if fields:
            found.append((old, fields))
    return found


@app.command()
def record(
    file: Path,
    count: Annotated[int, typer.Option(min=1)] = 2000,
    seed: Annotated[int, typer.Option(min=0)] = 0,
) -> None:
    """Writes the fingerprints of candidates drawn by a seed."""
    lines = [json.dumps({"count": count, "seed": seed})]
    lines += [json.dumps(line) for line in track(fingerprints(count, seed), total=count, description="candidates")]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


@app.command()
def compare(file: Path, show: Annotated[int, typer.Option(min=0, help="differences to list")] = 20) -> None:
    """Makes the same candidates again and tells what differs; the exit status is 1 if anything does."""
    head, *before = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    made = fingerprints(head["count"], head["seed"])
    found = differences(before, list(track(made, total=head["count"], description="candidates")))
    for line, fields in found[:show]:
        print(f"{line['program']} on {str(line['target']).partition(';')[0]}: {', '.join(fields)}")
    counts = Counter(field for _, fields in found for field in fields)
    told = ", ".join(f"{name} {number}" for name, number in counts.most_common()) or "nothing"
    print(f"{len(found)} of {len(before)} candidates differ: {told}")
    raise typer.Exit(1 if found else 0)


if __name__ == "__main__":
    app()
