"""How good the search is: python benchmarks/search.py MEASURE [--minutes 10]

Each call does what is missing of a measure, the most urgent first, for at most so many minutes, and keeps every finished piece
in benchmarks/results/search-runs.jsonl; the next call goes on. `tables` prints what there is, `plots` draws it into docs/.
`replay` measures on recorded spaces (searching/replay.py) and needs no quiet machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated

import searching.clock
import searching.pieces
import searching.plots
import searching.quality
import searching.rank
import searching.replay_tables
import searching.transfer
import typer
from rich.console import Console
from searching.pieces import Piece
from searching.store import ALL, RESULTS, ROOT, Store, code_key

from tilesmith.measure.machine import machine_identity, machine_key

MARKS = ("<!-- tables of benchmarks/search.py begin: machine {} -->", "<!-- tables end -->")
app = typer.Typer(add_completion=False, help=__doc__, no_args_is_help=True)
Minutes = Annotated[float, typer.Option(help="how long it may take, about")]
Trials = Annotated[int, typer.Option(min=1, help="of the long searches")]
Seeds = Annotated[int, typer.Option(min=1, help="runs of each search on each task")]
Machine = Annotated[str, typer.Option(help="the key of another machine, as the lines of its results name it")]
Code = Annotated[
    str, typer.Option(help="the hash of an older version of the code, as the lines of its results name it")
]
AnyCode = Annotated[bool, typer.Option("--any-code", help="also what other versions of the code found")]


def opened(any_code: bool, machine: str = "", code: str = "") -> Store:
    """Opens what was found so far on a machine, by default on this one, by some code, by default that of today."""
    machine = machine or machine_key(machine_identity())[:12]
    return Store(RESULTS / "search-runs.jsonl", code or code_key(ALL), any_code, machine)


def measure(minutes: float, any_code: bool, pieces: Callable[[Store], Iterable[Piece]]) -> None:
    """Goes on with a measure and says what is left."""
    store, console = opened(any_code), Console(highlight=False)
    searching.pieces.work(store, lambda: pieces(store), minutes, lambda text: console.print(text, soft_wrap=True))
    left = list(pieces(store))
    console.print(
        f"left: {len(left)} pieces, about {sum(piece.seconds for piece in left) / 60:.0f} minutes"
        if left
        else "nothing is left"
    )


@app.command()
def everything(minutes: Minutes = 240.0, any_code: AnyCode = False) -> None:
    """All measures but `replay`."""
    measure(minutes, any_code, all_pieces)


def all_pieces(store: Store) -> Iterator[Piece]:
    """Lists the pieces of all measures, what is asked for before what it is compared with; contests when nothing else is left,
    as each run that comes after one makes it out of date."""
    measures = (
        searching.quality.guided, searching.clock.clock, searching.quality.stability, searching.transfer.transfer,
        searching.rank.rank, searching.quality.ablations, searching.quality.quality, searching.quality.best_known,
    )  # fmt: skip
    pieces = {(p.measure, p.key): p for one in measures for p in one(store) if p.measure != "contest"}
    yield from pieces.values() or searching.pieces.contests(store)


@app.command()
def clock(minutes: Minutes = 10.0, trials: Trials = 4000, any_code: AnyCode = False) -> None:
    """Trials a second, where the time goes, memory."""
    measure(minutes, any_code, lambda store: searching.clock.clock(store, trials))


@app.command()
def quality(minutes: Minutes = 10.0, seeds: Seeds = 5, any_code: AnyCode = False) -> None:
    """Best of the first trials on 13 tasks, against random and evolution; without any trial, too."""
    measure(minutes, any_code, lambda store: searching.quality.quality(store, seeds))


@app.command()
def best_known(minutes: Minutes = 10.0, any_code: AnyCode = False) -> None:
    """Runs of 2,000 trials; then the winners of all runs so far, measured together."""
    measure(minutes, any_code, searching.quality.best_known)


@app.command()
def contest(minutes: Minutes = 10.0, any_code: AnyCode = False) -> None:
    """Measures only the winners of all runs so far together."""
    measure(minutes, any_code, searching.pieces.contests)


@app.command()
def transfer(minutes: Minutes = 10.0, seeds: Seeds = 5, any_code: AnyCode = False) -> None:
    """Measures what 8 trials reach when two other shapes were tuned before."""
    measure(minutes, any_code, lambda store: searching.transfer.transfer(store, seeds))


@app.command()
def stability(minutes: Minutes = 10.0, any_code: AnyCode = False) -> None:
    """Ten seeds of one task."""
    measure(minutes, any_code, searching.quality.stability)


@app.command()
def rank(minutes: Minutes = 10.0, any_code: AnyCode = False) -> None:
    """The analytic model on 500 random candidates of each task."""
    measure(minutes, any_code, searching.rank.rank)


@app.command()
def ablations(minutes: Minutes = 10.0, seeds: Seeds = 5, any_code: AnyCode = False) -> None:
    """Guided with one idea taken away each."""
    measure(minutes, any_code, lambda store: searching.quality.ablations(store, seeds))


@app.command()
def tables(
    any_code: AnyCode = False,
    machine: Machine = "",
    code: Code = "",
    write: Annotated[bool, typer.Option("--write", help="also into docs/search.md, between its marks")] = False,
) -> None:
    """All tables of what was measured on real tasks."""
    store, console = opened(any_code, machine, code), Console(width=140, highlight=False, record=True)
    for part in (searching.clock, searching.quality, searching.rank):
        for table in part.tables(store):
            console.print(table)
            console.print()
    if write:
        into(ROOT / "docs" / "search.md", store.machine, console.export_text(), store.summary("run"))


def into(page: Path, machine: str, text: str, summary: str) -> None:
    """Replaces what stands between a machine's marks on a page."""
    before, mark, rest = page.read_text(encoding="utf-8").partition(MARKS[0].format(machine))
    if not mark:
        raise typer.BadParameter(f"{page.name} lacks {MARKS[0].format(machine)!r}; add it, and {MARKS[1]!r} below it")
    after = rest[rest.index(MARKS[1]) :]
    lines = "".join(f"    {line}".rstrip() + "\n" for line in text.strip().splitlines())
    page.write_text(f"{before}{mark}\n{summary}\n\n{lines}{after}", encoding="utf-8")


@app.command()
def plots(any_code: AnyCode = False, machine: Machine = "", code: Code = "", folder: Path = ROOT / "docs") -> None:
    """Draws search-curves-MACHINE.svg and search-rank-MACHINE.svg."""
    store = opened(any_code, machine, code)
    (folder / f"search-curves-{store.machine}.svg").write_text(searching.plots.curves(store), encoding="utf-8")
    (folder / f"search-rank-{store.machine}.svg").write_text(searching.plots.scatter(store), encoding="utf-8")


app.command()(searching.replay_tables.replay)

if __name__ == "__main__":
    app()
