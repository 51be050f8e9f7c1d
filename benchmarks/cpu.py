"""Tunes each row, then races the kernel against its peers, and prints the table.

    python benchmarks/cpu.py --group first
    python benchmarks/cpu.py --group matmul --group ragged --threads 1 --trials 256 --db /tmp/tuning.sqlite
    python benchmarks/cpu.py --group matmul --peers-only --rounds 3

A row (benchmarks/workloads.py) is one line. The method is that of measure/compare/method.py; results are kept as JSON in
benchmarks/results/, with the machine described. Needs the `bench` extra.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import gettempdir
from typing import Annotated

import typer
from ceiling import CEILING
from libraries import LIBRARIES, NARROW_PEERS, PEERS, WEIGHTS_PEERS
from peers import BESIDE, OURS, Peer
from report import Result, beside_lines, mean_line, save, table_of
from rich.console import Console
from workloads import DRAWN_LESS, NARROW, ROWS, Row, drawn, groups

from tilesmith.measure.calibrate.calibrate import ceilings
from tilesmith.measure.compare.contender import REST, MissingContender
from tilesmith.measure.compare.method import ContestRounds, Method, Quartiles
from tilesmith.measure.compare.noise import MachineNoise
from tilesmith.schedules.auto import automatic
from tilesmith.schedules.schedule import Schedule
from tilesmith.targets.ceilings import Ceilings
from tilesmith.targets.target import parse_target
from tilesmith.tuner.roofline import program_work

SECONDS_A_TRIAL = 0.17  # of tuning, seen over all groups
PREPARING = 6.0  # seconds until all contenders of a row are ready, most of it torch.compile
AGREEMENT = 2e-3  # largest difference between contenders' outputs, of the largest value
ROUGHLY = 1e-2  # the same of outputs that are rounded to 8 bits, or are sums of what is


def race(row: Row, team: Sequence[Peer], peak: Ceilings, method: Method, database: str | None) -> Result:
    """Lets every contender prepare, compares their outputs, runs the rounds. Errors: ValueError if outputs differ."""
    missing: dict[str, str] = {}
    team = [peer for peer in team if peer.name != BESIDE or row.beside is not None]
    for peer in team:
        peer.prepare(row.beside.row if row.beside is not None and peer.name == BESIDE else row, database)
    ready = []
    for peer in team:
        try:
            peer.prepared()
            ready.append(peer)
        except MissingContender as reason:
            missing[peer.name] = str(reason)
    wrong = check_agreement(row, ready)
    missing |= wrong
    ready = [peer for peer in ready if peer.name not in wrong]
    rounds = method.compare(ready, MachineNoise(team[0].threads, [peer.process for peer in team]))
    names = [peer.name for peer in ready]
    return summary(row, names, rounds, peak, missing, provenance_of(ready, OURS), provenance_of(ready, CEILING))


def summary(
    row: Row,
    names: Sequence[str],
    rounds: ContestRounds,
    peak: Ceilings,
    missing: dict[str, str],
    provenance: str,
    loop: str,
) -> Result:
    """Says what the times mean. `loop`: the calibration loop that ran in the same rounds, which the shares are of."""
    work = program_work(row.program())
    names = [name for name in names if name != BESIDE]
    rivals = [name for name in names if name not in (OURS, CEILING)]
    ratios = {peer: rounds.ratio(OURS, peer) for peer in rivals} if OURS in names else {}
    best = rounds.fastest(rivals) if rivals else None
    speeds = {name: work.speed(rounds.median(name), peak) for name in names}
    shares = {name: 1 / rounds.ratio(CEILING, name).middle for name in names} if CEILING in names else {}
    speeds = {name: replace(speed, share=shares.get(name, speed.share)) for name, speed in speeds.items()}
    return Result(row, speeds, ratios, best, rounds, missing, provenance, loop, share_of_rate(row, rounds))


def share_of_rate(row: Row, rounds: ContestRounds) -> Quartiles | None:
    """Our rate against that of the row beside it, round by round, each by the work that its program needs; or None."""
    if row.beside is None or not {OURS, BESIDE} <= set(rounds.seconds):
        return None
    ours, other = (program_work(each.program()) for each in (row, row.beside.row))
    found = rounds.ratio(OURS, BESIDE)
    return found.scaled(ours.flops / other.flops)


def provenance_of(peers: Sequence[Peer], name: str) -> str:
    """Names the tier that served our kernel, or which loop is the ceiling; empty without it."""
    return next((peer.provenance for peer in peers if peer.name == name), "")


def check_agreement(row: Row, peers: Sequence[Peer]) -> dict[str, str]:
    """All contenders must have computed the same: a peer that does something else is no peer.

    Sums of bytes are compared with the definition, and libraries whose sums saturate on the way are left out: returns what is
    wrong with each.
    """
    computing = [peer for peer in peers if peer.name not in (CEILING, BESIDE)]
    if not computing:
        raise ValueError(f"nobody can run {row.name}")
    reference, wrong = computing[0], {}
    truth = reference.truth  # of sums of bytes, and ours alone brings it
    wanted = truth or reference.sample
    scale = max(abs(value) for value in wanted)
    for peer in computing if truth else computing[1:]:
        worst = max(abs(a - b) for a, b in zip(wanted, peer.sample, strict=True))
        if not worst <= (ROUGHLY if row.rounded else AGREEMENT) * scale:
            wrong[peer.name] = f"differs by {worst:.3g} at values of {scale:.3g}"
    for name, reason in wrong.items():
        if name == OURS or not truth:
            raise ValueError(f"{row.name}: {name} {reason}, beside {'the definition' if truth else reference.name}")
    return wrong


def tune(row: Row, trials: int | None, threads: int, database: str | None, seed: int) -> float:
    """Tunes a row; the seconds it took."""
    import tilesmith

    begin = time.perf_counter()
    template = directly if row.direct else None
    tilesmith.tune(
        row.program(), trials=trials or row.trials, threads=threads, db=database, seed=seed, template=template
    )
    return time.perf_counter() - begin


def directly(s: Schedule) -> None:
    """The rules without convolutions by fewer products."""
    automatic(s, instructions=parse_target("host").matrix_instructions, fast=False)


def database_of(row: Row, database: str | None) -> str | None:
    """The database of a row: what is tuned with some sketches only has its own, or else the best of all would serve it."""
    if not row.direct:
        return database
    return f"{database}.direct" if database else str(Path(gettempdir()) / f"tilesmith-direct-{os.getpid()}.sqlite")


def main(
    group: Annotated[list[str], typer.Option(help=f"one of {', '.join(groups())}; may be given again")],
    trials: Annotated[int | None, typer.Option(help="of each row; 0: only what the database has")] = None,
    rounds: Annotated[int, typer.Option(min=1)] = 9,
    seconds: Annotated[float, typer.Option(help="of each contender in each round")] = 0.3,
    threads: Annotated[int | None, typer.Option(min=1, help="all cores unless given")] = None,
    db: Annotated[str | None, typer.Option(help="the tuning database")] = None,
    seed: Annotated[int, typer.Option(help="of the search, of the order, of drawn shapes")] = 0,
    draw: Annotated[int, typer.Option(help="how many rows at drawn shapes each group has on top")] = 5,
    named: Annotated[bool, typer.Option(help="the rows of the tables too, beside drawn ones")] = True,
    row: Annotated[str, typer.Option(help="only rows whose name has this in it")] = "",
    peer: Annotated[
        list[str] | None, typer.Option(help=f"of {', '.join(LIBRARIES)}; those that know the operators unless given")
    ] = None,
    peers_only: Annotated[bool, typer.Option("--peers-only", help="without our own kernel")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="64 trials, 3 short rounds, named rows: to develop with")
    ] = False,
) -> None:
    """Races each row of the groups against its peers."""
    console = Console(width=None if sys.stdout.isatty() else 200)
    if quick:
        trials, rounds, seconds, draw = 64 if trials is None else trials, 3, 0.1, 0
    target = parse_target("host")
    count = threads or target.cores
    peak = ceilings(target, count)
    usual = NARROW_PEERS if {*group} <= {row.group for row in NARROW} else PEERS
    usual = WEIGHTS_PEERS if {*group} == {"weights"} else usual
    names = [*([] if peers_only else [OURS]), *(usual if peer is None else peer), CEILING]
    method = Method(rounds=rounds, seconds=seconds, patience=rounds, seed=seed, report=console.log)
    chosen: list[tuple[str, bool, list[Row]]] = []
    for one in group:
        chosen.append((one, False, [r for r in (*ROWS, *NARROW) if r.group == one and named and row in r.name]))
        chosen.append((one, True, [r for r in drawn(one, seed, draw) if row in r.name]))
    chosen = [each for each in chosen if each[-1]]
    about = sum(estimate(r, method, len(names), 0 if peers_only else trials) for *_, rows in chosen for r in rows)
    console.print(
        f"{sum(len(rows) for *_, rows in chosen)} rows, about {math.ceil(about / 60)} minutes on a quiet machine"
    )
    team = [Peer(name, count) for name in names]
    if not peers_only and any(r.beside is not None for *_, rows in chosen for r in rows):
        team.append(Peer(BESIDE, count, OURS))
    try:
        for one, sizes_drawn, rows in chosen:
            results = []
            for each in rows:
                console.log(each.name)
                if not peers_only and trials != 0:
                    # as for anyone who has tuned the round shape: its records seed the search for the ragged one
                    for wanted in (*([each.beside.row] if each.beside is not None else []), each):
                        spent = tune(wanted, trials, count, database_of(wanted, db), seed)
                        console.log(f"{wanted.name} tuned in {spent:.1f} s")
                results.append(race(each, team, peak, method, database_of(each, db)))
            name = f"{one}-drawn" if sizes_drawn else one
            console.print(table_of(f"{name}, {count} threads", results, names))
            console.print(mean_line(one, results, DRAWN_LESS if sizes_drawn else 0.0))
            for line in beside_lines(results):
                console.print(line)
            if not quick and not row:
                console.print(f"kept in {save(name, results, count, seed, peak)}")
    finally:
        for contender in team:
            contender.close()


def estimate(row: Row, method: Method, contenders: int, trials: int | None) -> float:
    """Seconds that a row takes when no round has to be repeated."""
    tuned = [row] if row.beside is None else [row, row.beside.row]
    tuning = SECONDS_A_TRIAL * sum(each.trials if trials is None else trials for each in tuned)
    contenders += len(tuned) - 1
    return tuning + PREPARING + contenders * method.rounds * (1.25 * method.seconds + REST)


if __name__ == "__main__":
    typer.run(main)
