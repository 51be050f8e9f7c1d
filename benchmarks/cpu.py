"""Tunes each row, then races the kernel against its peers, and prints the table.

    python benchmarks/cpu.py --group first
    python benchmarks/cpu.py --group matmul --group ragged --threads 1 --trials 256 --db /tmp/tuning.sqlite
    python benchmarks/cpu.py --group matmul --peers-only --rounds 3

A row (benchmarks/workloads.py) is one line. The method is that of benchmarks/method.py; results are kept as JSON in
benchmarks/results/, with the machine described. Needs the `bench` extra.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer
from libraries import LIBRARIES
from machine import MachineNoise, describe
from method import Method, Quartiles, Rounds
from peers import OURS, Missing, Peer
from rich.console import Console
from rich.table import Table
from workloads import ROWS as ALL_ROWS
from workloads import Row, drawn, groups

from tilesmith.measure.calibrate import ceilings
from tilesmith.targets.ceilings import Ceilings
from tilesmith.targets.target import parse_target
from tilesmith.tuner.roofline import Speed, program_work

RESULTS = Path(__file__).parent / "results"
AGREEMENT = 2e-3  # largest difference between contenders' outputs, of the largest value


@dataclass(frozen=True)
class Result:
    """One row of the table. `speeds` and `ratios` (against each peer) are by contender; `best` is the fastest peer."""

    row: Row
    speeds: dict[str, Speed]
    ratios: dict[str, Quartiles]
    best: str | None
    rounds: Rounds
    missing: dict[str, str]
    provenance: str

    @property
    def ratio(self) -> Quartiles | None:
        """Ours against the best peer."""
        return self.ratios.get(self.best) if self.best else None

    @property
    def share(self) -> float | None:
        """Ours against the ceiling."""
        return self.speeds[OURS].share if OURS in self.speeds else None

    def verdicts(self) -> list[tuple[str, bool]]:
        """What the row asks for, and whether it is so: of a ratio the upper quartile counts."""
        found = []
        if self.row.bar is not None and self.ratio is not None:
            found.append((f">= {self.row.bar:.2f}x", self.ratio.high >= self.row.bar))
        if self.row.share is not None and self.share is not None:
            found.append((f">= {self.row.share:.0%}", self.share >= self.row.share))
        return found


def race(row: Row, names: Sequence[str], threads: int, peak: Ceilings, method: Method, database: str | None) -> Result:
    """Starts a process for each contender, compares their outputs, runs the rounds. Errors: ValueError if outputs differ."""
    peers: list[Peer] = []
    missing: dict[str, str] = {}
    try:
        for name in names:
            try:
                peers.append(Peer(name, row, threads, database))
            except Missing as reason:
                missing[name] = str(reason)
        check_agreement(row, peers)
        rounds = method.compare(peers, MachineNoise(threads, [peer.process for peer in peers]))
    finally:
        for peer in peers:
            peer.close()
    return summary(row, [peer.name for peer in peers], rounds, peak, missing, provenance_of(peers))


def summary(
    row: Row, names: Sequence[str], rounds: Rounds, peak: Ceilings, missing: dict[str, str], provenance: str
) -> Result:
    """What the times say."""
    work = program_work(row.program())
    rivals = [name for name in names if name != OURS]
    ratios = {peer: rounds.ratio(OURS, peer) for peer in rivals} if OURS in names else {}
    best = rounds.fastest(rivals) if rivals else None
    speeds = {name: work.speed(rounds.median(name), peak) for name in names}
    return Result(row, speeds, ratios, best, rounds, missing, provenance)


def provenance_of(peers: Sequence[Peer]) -> str:
    """Which tier served our kernel; empty without it."""
    return next((peer.provenance for peer in peers if peer.name == OURS), "")


def check_agreement(row: Row, peers: Sequence[Peer]) -> None:
    """All contenders must have computed the same: a peer that does something else is no peer."""
    if not peers:
        raise ValueError(f"nobody can run {row.name}")
    reference = peers[0]
    scale = max(abs(value) for value in reference.sample)
    for peer in peers[1:]:
        worst = max(abs(a - b) for a, b in zip(reference.sample, peer.sample, strict=True))
        if not worst <= AGREEMENT * scale:
            raise ValueError(
                f"{row.name}: {peer.name} and {reference.name} differ by {worst:.3g} at values of {scale:.3g}"
            )


def tune(row: Row, trials: int | None, threads: int, database: str | None, seed: int) -> float:
    """Tunes a row; the seconds it took."""
    import tilesmith

    begin = time.perf_counter()
    tilesmith.tune(row.program(), trials=trials or row.trials, threads=threads, db=database, seed=seed)
    return time.perf_counter() - begin


def table_of(title: str, results: Sequence[Result], names: Sequence[str]) -> Table:
    """One line for each row, one column for each contender."""
    table = Table(title=title)
    table.add_column("workload")
    table.add_column("unit")
    for name in names:
        table.add_column(name, justify="right")
    for header in ("ratio", "quartiles", "% ceiling", "asked", "rounds"):
        table.add_column(header, justify="right")
    for result in results:
        table.add_row(*cells(result, names))
    return table


def cells(result: Result, names: Sequence[str]) -> list[str]:
    """A row's texts. The best peer carries a star."""
    leader = OURS if OURS in result.speeds else result.best
    shown = result.speeds[leader] if leader else None
    values = []
    for name in names:
        mark = "*" if name == result.best else ""
        values.append(f"{result.speeds[name].value:.1f}{mark}" if name in result.speeds else "")
    ratio = result.ratio
    asked = ", ".join(f"{text} {'met' if met else 'missed'}" for text, met in result.verdicts())
    rounds = f"{len(next(iter(result.rounds.seconds.values())))}"
    if result.rounds.repeated or result.rounds.noisy:
        rounds += f" ({result.rounds.repeated} repeated, {result.rounds.noisy} noisy)"
    return [
        result.row.name,
        shown.unit if shown else "",
        *values,
        f"{ratio.middle:.2f}x" if ratio else "",
        f"{ratio.low:.2f} .. {ratio.high:.2f}" if ratio else "",
        f"{100 * shown.share:.0f}" if shown else "",
        asked,
        rounds,
    ]


def geometric_mean(results: Sequence[Result]) -> float | None:
    """Of the median ratios against each row's best peer."""
    ratios = [result.ratio.middle for result in results if result.ratio is not None]
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None


def save(group: str, results: Sequence[Result], threads: int, seed: int, peak: Ceilings) -> Path:
    """Everything, as JSON, in benchmarks/results/."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"cpu-{group}-{threads}t.json"
    rows = [
        {
            **asdict(result.row),
            "name": result.row.name,
            "seconds": {name: list(times) for name, times in result.rounds.seconds.items()},
            "speeds": {name: asdict(speed) for name, speed in result.speeds.items()},
            "ratios": {name: asdict(ratio) for name, ratio in result.ratios.items()},
            "best_peer": result.best,
            "asked": dict(result.verdicts()),
            "rounds_repeated": result.rounds.repeated,
            "rounds_noisy": result.rounds.noisy,
            "missing": result.missing,
            "provenance": result.provenance,
        }
        for result in results
    ]
    document = {
        "group": group,
        "threads": threads,
        "seed": seed,
        "when": time.strftime("%Y-%m-%d %H:%M:%S %z"),
        "machine": describe(),
        "ceilings": json.loads(peak.to_json()),
        "geomean": geometric_mean(results),
        "rows": rows,
    }
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return path


def main(
    group: Annotated[list[str], typer.Option(help=f"one of {', '.join(groups())}; may be given again")],
    trials: Annotated[int | None, typer.Option(help="of each row; 0: only what the database has")] = None,
    rounds: Annotated[int, typer.Option(min=1)] = 9,
    seconds: Annotated[float, typer.Option(help="of each contender in each round")] = 0.3,
    threads: Annotated[int | None, typer.Option(min=1, help="all cores unless given")] = None,
    db: Annotated[str | None, typer.Option(help="the tuning database")] = None,
    seed: Annotated[int, typer.Option(help="of the search, of the order, of drawn shapes")] = 0,
    draw: Annotated[int, typer.Option(help="how many rows at drawn shapes each group has on top")] = 0,
    peer: Annotated[list[str] | None, typer.Option(help=f"of {', '.join(LIBRARIES)}; all unless given")] = None,
    peers_only: Annotated[bool, typer.Option("--peers-only", help="without our own kernel")] = False,
) -> None:
    """Races each row of the groups against its peers."""
    console = Console(width=None if sys.stdout.isatty() else 200)
    target = parse_target("host")
    count = threads or target.cores
    peak = ceilings(target, count)
    peers = list(LIBRARIES) if peer is None else peer
    names = peers if peers_only else [OURS, *peers]
    method = Method(rounds=rounds, seconds=seconds, patience=rounds, seed=seed, report=console.log)
    for one in group:
        results = []
        for row in (*(r for r in ALL_ROWS if r.group == one), *drawn(one, seed, draw)):
            console.log(row.name)
            if not peers_only and trials != 0:
                console.log(f"tuned in {tune(row, trials, count, db, seed):.1f} s")
            results.append(race(row, names, count, peak, method, db))
        console.print(table_of(f"{one}, {count} threads", results, names))
        mean = geometric_mean(results)
        if mean is not None:
            console.print(f"geometric mean over the best peers: {mean:.2f}x")
        console.print(f"kept in {save(one, results, count, seed, peak)}")


if __name__ == "__main__":
    typer.run(main)
