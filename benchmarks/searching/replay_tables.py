"""How good the search is on recorded spaces: python benchmarks/search.py replay [--strategies ...] [--seeds 30] [--table]

Every strategy of ours, Optuna's TPE and Kernel Tuner's strategies (`pip install optuna kernel-tuner`) answer from the same
tables; needs no hardware. What is finished is kept in benchmarks/results/search-replay.jsonl, line by line, and not made again:
a call that is cut is continued by the next one. `--table` shows what there is.
"""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

import searching.replay
from searching.store import MODEL_FREE, RESULTS, Store, code_key
from tilesmith.tuner.effort import NORMAL

SPACES = Path(__file__).parents[2] / "tests" / "data" / "replay"


def replay(
    strategies: Annotated[str, typer.Option(help="which of them, with commas; default: all")] = "",
    seeds: Annotated[int, typer.Option(help="runs of each strategy on each space")] = 30,
    spaces: Annotated[Path, typer.Option(help="the folder of the recorded spaces")] = SPACES,
    table: Annotated[bool, typer.Option("--table", help="only show what was found so far")] = False,
) -> None:
    """Runs what is missing, then shows the tables."""
    names = strategies.split(",") if strategies else list(searching.replay.SEARCHES)
    numbers = (NORMAL.surrogates, NORMAL.smoothness, NORMAL.evolution, NORMAL.annealing, NORMAL.portions)
    store = Store(RESULTS / "search-replay.jsonl", code_key(MODEL_FREE, *numbers))
    if not table:
        searching.replay.measure(store, sorted(spaces.glob("*.json.gz")), names, seeds, print)
    console = Console(width=140, highlight=False)
    console.print(compared(store, names))
    console.print(by_space(store, "guided"))


def compared(store: Store, names: list[str]) -> Table:
    """One line for each strategy: geomean over the spaces of the mean over the seeds of best / optimum."""
    rows = Table(box=None, pad_edge=False)
    for heading in ("strategy", "runs a space", *(f"@{mark}" for mark in searching.replay.MARKS), "within 5%"):
        rows.add_column(heading, justify="left" if heading == "strategy" else "right")
    for name in names:
        if found := searching.replay.curves(store, name):
            runs = {len(of_space) for of_space in found.values()}
            count = f"{min(runs)}" if len(runs) == 1 else f"{min(runs)} to {max(runs)}"
            marks = [f"{searching.replay.geomean_at(found, mark):.3f}" for mark in searching.replay.MARKS]
            rows.add_row(name, count, *marks, f"{searching.replay.within(found):.0%}")
    bars = [
        f"{searching.replay.BARS[mark]:.3f}" if mark in searching.replay.BARS else "" for mark in searching.replay.MARKS
    ]
    rows.add_row("asked of guided", "30", *bars, f"{searching.replay.WITHIN_BAR:.0%}")
    return rows


def by_space(store: Store, name: str) -> Table:
    """One line for each space: where a strategy is good, and where it is not."""
    rows = Table(box=None, pad_edge=False, title=name, title_justify="left")
    for heading in ("space", *(f"@{mark}" for mark in searching.replay.MARKS), "within 5%"):
        rows.add_column(heading, justify="left" if heading == "space" else "right")
    for space, found in sorted(searching.replay.curves(store, name).items()):
        places = [searching.replay.points().index(mark) for mark in searching.replay.MARKS]
        marks = [f"{fmean(curve[place] for curve in found):.3f}" for place in places]
        rows.add_row(space, *marks, f"{fmean(curve[-1] <= searching.replay.WITHIN for curve in found):.0%}")
    return rows
