"""Pipelines of stages side by side with Halide: its autoschedulers, and schedules as its authors write them.

    python benchmarks/pipelines.py --trials 0
    python benchmarks/pipelines.py --pipeline harris --pipeline "jacobi 4" --trials 256 --save

The method is that of measure/compare/method.py; contenders are processes of their own, and their outputs are compared before
they are timed. Needs Halide (`pip install halide`); OpenCV (`pip install opencv-python-headless`) runs where it is there.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer
from peers import OURS
from pipeline.programs import PROGRAMS
from pipeline_peers import HALIDE, LOOP, OPENCV, TORCH, PipelinePeer
from results_folder import results_folder
from rich.console import Console
from rich.table import Table

from tilesmith.measure.compare.contender import MissingContender
from tilesmith.measure.compare.method import ContestRounds, Method
from tilesmith.measure.compare.noise import MachineNoise, describe

AGREEMENT = 1e-3  # largest difference between contenders' outputs, of the largest value
ROUNDED = 1.0  # how far OpenCV may be off in integers, which it rounds once and to the nearest
AUTOMATIC = tuple(name for name in HALIDE if name != "halide by hand")


@dataclass(frozen=True)
class PipelineResult:
    """One pipeline: what each contender told, and the rounds."""

    name: str
    about: dict[str, dict[str, Any]]
    rounds: ContestRounds
    missing: dict[str, str]

    def ratio_to(self, peers: Sequence[str]) -> float | None:
        """Ours against the best of some peers: the median over the rounds."""
        present = [peer for peer in peers if peer in self.about]
        return self.rounds.ratio(OURS, self.rounds.fastest(present)).middle if present else None


def raced(
    name: str, trials: int, threads: int, database: str, method: Method, console: Console
) -> PipelineResult | None:
    """One pipeline in all ways; None where ours is missing."""
    ready, about, missing = [], {}, {}
    team = [PipelinePeer(way, threads) for way in (OURS, *HALIDE, TORCH, OPENCV, LOOP)]
    try:
        for peer in team:
            try:
                peer.prepare(name, trials, database)
            except (MissingContender, RuntimeError) as reason:
                missing[peer.name] = str(reason)
                continue
            room = ROUNDED if peer.name == OPENCV and peer.about["integers"] else 0.0
            if ready and not _agree(ready[0].about["sample"], peer.about["sample"], room):
                missing[peer.name] = "computes something else"
                console.print(f"{name}: {peer.name} and {ready[0].name} differ")
                continue
            ready.append(peer)
            about[peer.name] = {key: value for key, value in peer.about.items() if key not in ("sample", "integers")}
        if OURS not in about:
            console.print(f"{name}: ours does not run: {missing[OURS]}")
            return None
        rounds = method.compare(ready, MachineNoise(threads, [peer.process for peer in ready]))
        return PipelineResult(name, about, rounds, missing)
    finally:
        for peer in team:
            peer.close()


def _agree(ours: Sequence[float], theirs: Sequence[float], room: float) -> bool:
    most = max(room, AGREEMENT * max(abs(value) for value in ours))
    return all(abs(a - b) <= most for a, b in zip(ours, theirs, strict=True))


def table_of(results: Sequence[PipelineResult], threads: int, trials: int) -> Table:
    """One line for each pipeline; medians in ms."""
    table = Table(title=f"pipelines, {threads} threads, {f'{trials} trials' if trials else 'no trial'}; ms")
    names = (OURS, *HALIDE, TORCH, OPENCV, LOOP)
    for header in ("pipeline", *names, "to automatic", "to by hand", "ready s", "rounds"):
        table.add_column(header, justify="left" if header == "pipeline" else "right")
    for result in results:
        times = [f"{1e3 * result.rounds.median(n):.2f}" if n in result.about else "" for n in names]
        ratios = [result.ratio_to(AUTOMATIC), result.ratio_to(["halide by hand"])]
        count = f"{len(result.rounds.seconds[OURS])} ({result.rounds.noisy} noisy)"
        table.add_row(
            result.name, *times, *("" if ratio is None else f"{ratio:.2f}x" for ratio in ratios),
            f"{result.about[OURS]['ready_seconds']:.1f}", count,
        )  # fmt: skip
    return table


def mean_of(results: Sequence[PipelineResult], peers: Sequence[str]) -> float:
    """The geometric mean of our ratios to the best of some peers."""
    ratios = [ratio for result in results if (ratio := result.ratio_to(peers)) is not None]
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.nan


def save(results: Sequence[PipelineResult], threads: int, trials: int, seed: int) -> Path:
    """Adds the rows to the file of this kind of run."""
    path = results_folder() / f"pipelines-{'tuned' if trials else 'untuned'}-{threads}t.json"
    kept = json.loads(path.read_text()) if path.exists() else {"rows": {}}
    kept |= {"machine": describe(), "threads": threads, "trials": trials, "seed": seed}
    for result in results:
        kept["rows"][result.name] = {
            "contenders": result.about,
            "seconds": {name: list(times) for name, times in result.rounds.seconds.items()},
            "ratios": {name: asdict(result.rounds.ratio(OURS, name)) for name in result.about if name != OURS},
            "rounds_noisy": result.rounds.noisy,
            "missing": result.missing,
            "when": time.strftime("%Y-%m-%d %H:%M:%S %z"),
        }
    path.write_text(json.dumps(kept, indent=1) + "\n")
    return path


def main(
    pipeline: Annotated[list[str] | None, typer.Option(help=f"of {', '.join(PROGRAMS)}; all unless given")] = None,
    trials: Annotated[int, typer.Option(help="of each pipeline before it is compiled; 0: none")] = 0,
    rounds: Annotated[int, typer.Option(min=1)] = 9,
    each: Annotated[float, typer.Option(help="seconds of each contender in each round")] = 0.3,
    threads: Annotated[int, typer.Option(min=1)] = 2,
    keep: Annotated[bool, typer.Option("--save", help="adds the rows to the file in benchmarks/results/")] = False,
    seed: Annotated[int, typer.Option(help="of the order")] = 0,
) -> None:
    """Races pipelines."""
    console = Console(width=None if sys.stdout.isatty() else 200)
    unknown = sorted({*(pipeline or ())} - {*PROGRAMS})
    if unknown:
        raise typer.BadParameter(f"no such pipeline: {', '.join(unknown)}")
    method = Method(rounds=rounds, seconds=each, patience=rounds, seed=seed, report=console.log)
    results = []
    with TemporaryDirectory(prefix="tilesmith-pipelines-") as folder:
        for name in pipeline or PROGRAMS:
            found = raced(name, trials, threads, str(Path(folder) / "tuning.sqlite"), method, console)
            if found is None:
                continue
            results.append(found)
            for peer, reason in found.missing.items():
                if peer not in (TORCH, OPENCV, LOOP):
                    console.print(f"{name}: without {peer}: {reason}")
            if keep:
                save([found], threads, trials, seed)
    console.print(table_of(results, threads, trials))
    console.print(
        f"geometric means: {mean_of(results, AUTOMATIC):.2f}x of Halide's best automatic schedule, "
        f"{mean_of(results, ['halide by hand']):.2f}x of the one by hand"
    )


if __name__ == "__main__":
    typer.run(main)
