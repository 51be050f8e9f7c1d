"""What a comparison found: the table, the geometric mean, the JSON."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from peers import OURS
from results_folder import results_folder
from rich.table import Table
from workloads import MEANS, Row

from tilesmith.measure.compare.method import ContestRounds, Quartiles
from tilesmith.measure.compare.noise import describe
from tilesmith.targets.ceilings import Ceilings
from tilesmith.tuner.roofline import Speed


@dataclass(frozen=True)
class Result:
    """One row of the table. `speeds` and `ratios` (against each peer) are by contender; `best` is the fastest peer; `loop`: the
    calibration loop among the contenders, which the shares of the ceiling are of; `beside`: our rate as a share of that of the
    row that it is measured beside."""

    row: Row
    speeds: dict[str, Speed]
    ratios: dict[str, Quartiles]
    best: str | None
    rounds: ContestRounds
    missing: dict[str, str]
    provenance: str
    loop: str = ""
    beside: Quartiles | None = None

    @property
    def ratio(self) -> Quartiles | None:
        """Ours against the best peer."""
        return self.ratios.get(self.best) if self.best else None

    @property
    def share(self) -> float | None:
        """Ours against the ceiling."""
        return self.speeds[OURS].share if OURS in self.speeds else None

    def verdicts(self) -> list[tuple[str, bool]]:
        """Says what the row asks for, and whether it is so: of a ratio the upper quartile counts."""
        found = []
        if self.row.bar is not None and self.ratio is not None:
            found.append((f">= {self.row.bar:.2f}x", self.ratio.high >= self.row.bar))
        if self.row.share is not None and self.share is not None:
            found.append((f">= {self.row.share:.0%}", self.share >= self.row.share))
        if self.row.beside is not None and self.beside is not None:
            found.append((f">= {self.row.beside.share:.0%} of {self.row.beside.row.name}", self.holds_beside))
        return found

    @property
    def holds_beside(self) -> bool:
        """Says whether the median of the shares of another row's rate is what is asked."""
        return self.row.beside is not None and self.beside is not None and self.beside.middle >= self.row.beside.share


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
    """The mean of the median ratios against each row's best peer, without rows that stand apart."""
    ratios = [result.ratio.middle for result in results if result.ratio is not None and not result.row.apart]
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None


def mean_line(group: str, results: Sequence[Result], less: float = 0.0) -> str:
    """The geometric mean of a group's rows, and whether it is what is asked (less by `less`); empty without ratios."""
    mean, asked = geometric_mean(results), MEANS.get(group)
    if mean is None:
        return ""
    apart = ", ".join(result.row.name for result in results if result.row.apart)
    without = f" (without {apart})" if apart else ""
    verdict = f", asked {asked - less:.2f}x: {'met' if mean >= asked - less else 'missed'}" if asked else ""
    return f"geometric mean over the best peers{without}: {mean:.2f}x{verdict}"


def beside_lines(results: Sequence[Result]) -> list[str]:
    """Lines that say of each row measured beside another its share of the other's rate, in the same rounds."""
    lines = []
    for result in results:
        asked, found = result.row.beside, result.beside
        if asked is not None and found is not None:
            lines.append(
                f"{result.row.name}: share of the rate of {asked.row.name}: {found.middle:.1%} "
                f"({found.low:.1%} .. {found.high:.1%}; asked {asked.share:.0%}: {'met' if result.holds_beside else 'missed'})"
            )
    return lines


def _beside(result: Result) -> dict[str, object] | None:
    """Keeps what a comparison with another row has found."""
    asked, found = result.row.beside, result.beside
    if asked is None or found is None:
        return None
    return {"row": asked.row.name, "asked": asked.share, "share_of_rate": asdict(found)}


def save(group: str, results: Sequence[Result], threads: int, seed: int, peak: Ceilings) -> Path:
    """Everything, as JSON, in benchmarks/results/."""
    path = results_folder() / f"cpu-{group}-{threads}t.json"
    rows = [
        {
            **asdict(result.row),
            "name": result.row.name,
            "beside": _beside(result),
            "seconds": {name: list(times) for name, times in result.rounds.seconds.items()},
            "speeds": {name: asdict(speed) for name, speed in result.speeds.items()},
            "ratios": {name: asdict(ratio) for name, ratio in result.ratios.items()},
            "best_peer": result.best,
            "asked": dict(result.verdicts()),
            "rounds_repeated": result.rounds.repeated,
            "rounds_noisy": result.rounds.noisy,
            "missing": result.missing,
            "provenance": result.provenance,
            "ceiling": result.loop,
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
