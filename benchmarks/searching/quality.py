"""Measures 1, 3, 5 and 8: how good the best of the first trials is, without any trial, over seeds, and without some ideas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import exp, log
from statistics import fmean, median

from rich.table import Table

from searching.apart import told_apart
from searching.contest import ANALYTIC, LONG
from searching.pieces import Piece, contests, runs_of, searches
from searching.runs import MARKS, Found, Plan, best_after, led
from searching.store import Store
from searching.tasks import FEW, TASKS, short
from tilesmith.tuner.effort import ABLATIONS

BARS = {16: 0.90, 32: 0.95, 128: 0.98}
ZERO_BAR, STABLE_BAR, TRANSFER_BAR = 0.70, 0.04, 0.93
LABELS = ("guided", "random", "evolution")
TRIALS, TRANSFER_TRIALS = 128, 8
STABLE_TASKS, STABLE_SEEDS = FEW[:1], 10


def guided(store: Store, seeds: int = 5) -> Iterator[Piece]:
    """All tasks, seed by seed."""
    yield from searches(store, (Plan(t, "guided", s, TRIALS) for s in range(seeds) for t in TASKS))


def quality(store: Store, seeds: int = 5) -> Iterator[Piece]:
    """Guided on all tasks; the yardsticks after that; at the end the winners together."""
    yield from guided(store, seeds)
    yield from searches(store, (Plan(t, label, s, TRIALS) for s in range(seeds) for label in LABELS[1:] for t in TASKS))
    yield from contests(store)


def best_known(store: Store) -> Iterator[Piece]:
    """Long runs, one of each strategy, of any version of the code: a good kernel is one; and all winners together."""
    plans = (Plan(t, label, 100, LONG) for label in LABELS for t in TASKS)
    yield from searches(store, plans, {key.rpartition("|")[0] for key, _ in store.earlier("run")})
    yield from contests(store)


def stability(store: Store) -> Iterator[Piece]:
    """Ten seeds of one task."""
    yield from searches(store, (Plan(t, "guided", s, TRIALS) for t in STABLE_TASKS for s in range(STABLE_SEEDS)))
    yield from contests(store, STABLE_TASKS)


def ablations(store: Store, seeds: int = 5) -> Iterator[Piece]:
    """Runs, on few tasks and seed by seed, each ablation beside guided as it is."""
    labels = ("guided", *ABLATIONS)
    yield from searches(store, (Plan(t, label, s, TRIALS) for s in range(seeds) for label in labels for t in FEW))
    yield from contests(store, FEW)


class Shares:
    """The best so far of each run as a share of the best known. Of a task whose winners were measured together, runs that were
    not among them are left out: their times are in other units."""

    def __init__(self, store: Store) -> None:
        self.contests = {task: store.get("contest", task) for task in TASKS}
        self.runs = {task: together(runs_of(store, task), self.contests[task]) for task in TASKS}

    def known(self, task: str) -> float | None:
        """Seconds of the best known; as recorded where nothing was measured together."""
        held = self.contests[task]
        if held and "known" in held:
            return float(held["known"])
        seconds = held["seconds"].values() if held else (best_after(f, f["trials"]) for f in self.runs[task].values())
        return min(seconds, default=None)

    def stretch(self, task: str, key: str, after: int) -> float:
        """Says by how much a run's recorded times are too small: what a confirmation chooses at the next mark, or has chosen at
        the end, in the contest, over the best as recorded then."""
        held, found = self.contests[task], self.runs[task][key]
        mark = next((mark for mark in led(found) if mark >= after), found["trials"])
        name = key if mark == found["trials"] else f"{key}@{mark}"
        seconds = held["seconds"].get(name) if held else None
        return seconds / best_after(found, mark) if seconds else 1.0

    def of(self, task: str, label: str, trials: int, after: int, seeds: Iterable[int] | None = None) -> list[float]:
        """Returns, of each run of `trials` trials, its share after the first `after`."""
        best = self.known(task)
        kept = None if seeds is None else set(seeds)
        return [
            (best or 0.0) / (best_after(found, after) * self.stretch(task, key, after))
            for key, found in self.runs[task].items()
            if (found["label"], asked(key)) == (label, trials) and (kept is None or found["seed"] in kept)
        ]


def together(runs: dict[str, Found], held: Found | None) -> dict[str, Found]:
    """The runs that a contest measured; all where there was none, or it did not say."""
    measured = runs if held is None else held.get("of", runs)
    return {key: found for key, found in runs.items() if key in measured}


def asked(key: str) -> int:
    """Trials that a run was to make; where a space has no more candidates, it made fewer."""
    return int(key.rpartition("|")[2])


def geomean(values: Sequence[float]) -> float:
    """The geometric mean of positive numbers; NaN without any."""
    return exp(fmean(map(log, values))) if values else float("nan")


def tables(store: Store) -> Iterator[Table]:
    """All that this file measures."""
    shares, counted = Shares(store), told_apart(store)
    yield by_label(shares, "best of the first trials, share of the best known", LABELS, counted)
    yield by_task(shares, counted)
    yield by_label(shares, "one idea taken away each", ("guided", *ABLATIONS), FEW)
    yield winners(shares)


def by_label(shares: Shares, title: str, labels: Sequence[str], tasks: Sequence[str]) -> Table:
    """Geomean over the tasks of the mean over the runs. Tasks that a label has no run of are left out, and counted."""
    table = headed(title, "search", "tasks", "runs", *(f"@{mark}" for mark in MARKS))
    for label in labels:
        table.add_row(label, *_means(shares, label, tasks))
    if title.startswith("best"):
        if len(tasks) < len(TASKS):
            table.add_row("guided, with what is not told apart", *_means(shares, "guided", tuple(TASKS)))
        table.add_row("asked of guided", "", "5", *(f"{BARS[mark]:.0%}" if mark in BARS else "" for mark in MARKS))
    return table


def _means(shares: Shares, label: str, tasks: Sequence[str]) -> list[str]:
    """Cells: how many tasks and runs, and the geomean after each mark."""
    found = {t: [shares.of(t, label, TRIALS, mark) for mark in MARKS] for t in tasks}
    found = {t: columns for t, columns in found.items() if columns[0]}
    if not found:
        return ["0", "0", *["not measured"] * len(MARKS)]
    counts = {len(columns[0]) for columns in found.values()}
    runs = f"{min(counts)}" if len(counts) == 1 else f"{min(counts)} to {max(counts)}"
    means = [geomean([fmean(columns[place]) for columns in found.values()]) for place in range(len(MARKS))]
    return [f"{len(found)} of {len(tasks)}", runs, *(f"{mean:.1%}" for mean in means)]


def by_task(shares: Shares, counted: Sequence[str]) -> Table:
    """Guided on each task, what the analytic model picks without a trial, and how 8 trials do with records of two shapes;
    the geomeans are of those that count."""
    heads = ("task", "runs", *(f"@{mark}" for mark in MARKS), "no trial", f"@{TRANSFER_TRIALS} with records")
    table = headed("guided, task by task", *heads)
    zeros, transfers = [], []
    for task in TASKS:
        columns = [shares.of(task, "guided", TRIALS, mark) for mark in MARKS]
        cells = [f"{fmean(column):.1%}" if column else "" for column in columns]
        zero, moved = zero_share(shares, task), shares.of(task, "transfer", TRANSFER_TRIALS, TRANSFER_TRIALS)
        zeros += [zero] if zero and task in counted else []
        transfers += [fmean(moved)] if moved and task in counted else []
        more = (f"{zero:.1%}" if zero else "", f"{fmean(moved):.1%} ({len(moved)})" if moved else "")
        name = short(task) if task in counted else f"{short(task)} (not told apart)"
        table.add_row(name, str(len(columns[0])), *cells, *more)
    last = (f"{geomean(zeros):.1%}" if zeros else "", f"{geomean(transfers):.1%}" if transfers else "")
    table.add_row("geomean", "", *[""] * len(MARKS), *last)
    table.add_row(
        "asked", "", *(f"{BARS[m]:.0%}" if m in BARS else "" for m in MARKS), f"{ZERO_BAR:.0%}", f"{TRANSFER_BAR:.0%}"
    )
    return table


def zero_share(shares: Shares, task: str) -> float | None:
    """Speed of the analytic pick over that of what guided finds: the median winner of its runs."""
    held = shares.contests[task]
    if held is None:
        return None
    tuned = [held["seconds"][k] for k, f in shares.runs[task].items() if is_usual(k, f) and k in held["seconds"]]
    return median(tuned) / held["seconds"][ANALYTIC] if tuned else None


def is_usual(key: str, found: Found) -> bool:
    """A guided run of the usual length."""
    return bool(found["label"] == "guided" and asked(key) == TRIALS)


def winners(shares: Shares) -> Table:
    """Says how far the winners of different seeds are apart, measured together."""
    heads = ("task", "seeds", "best and median differ", "best and worst", "asked")
    table = headed("winners of different seeds, measured together", *heads)
    for task in TASKS:
        held = shares.contests[task]
        of_runs = {
            k: held["seconds"][k]
            for k, f in shares.runs[task].items()
            if held and is_usual(k, f) and k in held["seconds"]
        }
        if len(of_runs) >= 3:
            best = min(of_runs.values())
            apart = (f"{median(of_runs.values()) / best - 1:.1%}", f"{max(of_runs.values()) / best - 1:.1%}")
            table.add_row(short(task), str(len(of_runs)), *apart, f"{STABLE_BAR:.0%}" if task in STABLE_TASKS else "")
    return table


def headed(title: str, *heads: str) -> Table:
    """A table whose first column holds names and whose others hold numbers."""
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for place, head in enumerate(heads):
        table.add_column(head, justify="right" if place else "left")
    return table
