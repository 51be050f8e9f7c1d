"""What a comparison of whole models found: the table, the geometric mean, the JSON."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from peers import OURS
from results_folder import results_folder
from rich.table import Table

from tilesmith.measure.compare.method import ContestRounds, Quartiles
from tilesmith.measure.compare.noise import describe


@dataclass(frozen=True)
class ModelResult:
    """One model. `facts`: of the import; `about`: what each contender told of itself (model_peers.py)."""

    name: str
    facts: Mapping[str, Any]
    about: Mapping[str, Mapping[str, Any]]
    rounds: ContestRounds
    missing: Mapping[str, str]

    @property
    def best(self) -> str | None:
        """The fastest peer."""
        peers = [name for name in self.about if name != OURS]
        return self.rounds.fastest(peers) if peers else None

    @property
    def ratio(self) -> Quartiles | None:
        """Ours against it."""
        return self.rounds.ratio(OURS, self.best) if self.best else None

    def as_data(self) -> dict[str, object]:
        """The row of the file."""
        peers = [name for name in self.about if name != OURS]
        return {
            "name": self.name,
            "stages": self.facts["stages"],
            "import_seconds": self.facts["import_seconds"],
            "weight_bytes": self.facts["weight_bytes"],
            "contenders": {name: dict(about) for name, about in self.about.items()},
            "seconds": {name: list(times) for name, times in self.rounds.seconds.items()},
            "ratios": {name: asdict(self.rounds.ratio(OURS, name)) for name in peers},
            "best_peer": self.best,
            "rounds_repeated": self.rounds.repeated,
            "rounds_noisy": self.rounds.noisy,
            "missing": dict(self.missing),
            "when": time.strftime("%Y-%m-%d %H:%M:%S %z"),
        }


def table_of(results: Sequence[ModelResult], names: Sequence[str], threads: int, trials: int) -> Table:
    """One line for each model: medians in ms; MB are resident bytes beyond the weights."""
    tuned = f"at most {trials} trials" if trials else "no trial"
    table = Table(title=f"whole models, {threads} threads, {tuned}; ms")
    table.add_column("model")
    for name in names:
        table.add_column(name, justify="right")
    for header in (
        "ratio", "quartiles", "error", "import s", "ready s", "stages", "calls", "kernels", "MB", "MB onnxruntime", "rounds",
    ):  # fmt: skip
        table.add_column(header, justify="right")
    for result in results:
        table.add_row(*_cells(result, names))
    return table


def _cells(result: ModelResult, names: Sequence[str]) -> list[str]:
    """A model's texts. The best peer carries a star."""
    ours, ratio, rounds = result.about[OURS], result.ratio, result.rounds
    times = [
        f"{1e3 * rounds.median(name):.2f}{'*' if name == result.best else ''}" if name in result.about else ""
        for name in names
    ]
    other = result.about.get("onnxruntime")
    counted = f"{len(rounds.seconds[OURS])}"
    if rounds.repeated or rounds.noisy:
        counted += f" ({rounds.repeated} repeated, {rounds.noisy} noisy)"
    return [
        result.name,
        *times,
        f"{ratio.middle:.2f}x" if ratio else "",
        f"{ratio.low:.2f} .. {ratio.high:.2f}" if ratio else "",
        f"{ours['error']:.0e}",
        f"{result.facts['import_seconds']:.1f}",
        f"{ours['ready_seconds']:.1f}",
        f"{result.facts['stages']}",
        f"{ours['calls']}",
        f"{ours['kernels']}",
        f"{ours['beyond_weights'] / 1e6:.0f}",
        f"{other['beyond_weights'] / 1e6:.0f}" if other else "",
        counted,
    ]


def mean_of(results: Sequence[ModelResult]) -> float:
    """The geometric mean of the median ratios against each model's best peer; NaN without any."""
    ratios = [result.ratio.middle for result in results if result.ratio is not None]
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.nan


def save(results: Sequence[ModelResult], threads: int, trials: int, seed: int) -> Path:
    """Adds the rows to the file of this number of threads, tuned or not: those of the same models are replaced, and all are
    where another machine wrote it."""
    path = results_folder() / f"models-{'tuned' if trials else 'untuned'}-{threads}t.json"
    machine = describe()
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    rows = {row["name"]: row for row in before.get("rows", ())} if before.get("machine") == machine else {}
    rows |= {result.name: result.as_data() for result in results}
    logs = [
        math.log(row["ratios"][row["best_peer"]]["middle"]) for row in rows.values() if row["best_peer"] is not None
    ]
    document = {
        "group": "models",
        "threads": threads,
        "trials": trials,
        "seed": seed,
        "when": time.strftime("%Y-%m-%d %H:%M:%S %z"),
        "machine": machine,
        "geomean": math.exp(sum(logs) / len(logs)) if logs else None,
        "rows": list(rows.values()),
    }
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return path
