"""Tunes models of the benchmark and adds the best records of their kernels to those that the project ships in logs/.

    python benchmarks/ship_records.py --seconds 240 resnet18 resnet50

Needs torch and torchvision for models that were not exported before (--folder). The file is named after the target and the
number of threads; it is checked, and what no version could use is an error.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from zoo.names import NAMES

import tilesmith
from tilesmith.tuner.records.database import open_database
from tilesmith.tuner.records.ship import BEST, check_shipped, ship

LOGS = Path(__file__).parent.parent / "logs"


def ship_records(
    models: Annotated[list[str], typer.Argument(help="names of models, as benchmarks/models.py has them")],
    seconds: Annotated[float, typer.Option(help="of search for each model; 0: what the database has")] = 240.0,
    trials: Annotated[int, typer.Option(help="at most, for each model")] = 3000,
    threads: Annotated[int, typer.Option(help="of the kernels")] = 2,
    best: Annotated[int, typer.Option(help="candidates of each kernel")] = BEST,
    database: Annotated[str, typer.Option("--db", help="where trials are kept; default: that of the settings")] = "",
    folder: Annotated[str, typer.Option(help="where exported models are, and stay")] = "",
) -> None:
    """Tunes, ships, checks."""
    unknown = [name for name in models if name not in NAMES]
    if unknown:
        raise typer.BadParameter(f"{', '.join(unknown)}: no model of " + ", ".join(NAMES))
    target = tilesmith.parse_target("host")
    file = LOGS / f"{target.text.partition(';')[0].replace(':', '-').replace('+', '-')}-{threads}t.jsonl"
    with TemporaryDirectory() as passing:
        for name in models:
            model = tilesmith.load(_exported(name, Path(folder or passing)))
            if seconds:
                tilesmith.tune(model, seconds=seconds, trials=trials, threads=threads, db=database or None)
    with open_database(database or None) as known:
        ship(known, file, [task for task in known.tasks() if task.threads == threads], best)
    found = check_shipped(file)
    print(f"{found.records} records of {found.tasks} tasks, {found.bytes} bytes, in {file}")
    if found.wrong:
        print("\n".join(found.wrong), file=sys.stderr)
        raise typer.Exit(1)


def _exported(name: str, folder: Path) -> Path:
    """The folder of a saved model; torch runs in a process of its own."""
    ours = folder / name / "ours"
    if not ours.exists():
        subprocess.run([sys.executable, Path(__file__).with_name("model_exports.py"), name, folder / name], check=True)
    return ours


if __name__ == "__main__":
    typer.run(ship_records)
