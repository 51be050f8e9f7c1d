"""Whole models side by side: ours, torch, torch.compile, ONNX Runtime, OpenVINO; random weights, fp32 or fewer bits.

    python benchmarks/models.py --model resnet18 --model bert_base
    python benchmarks/models.py --trials 3000 --seconds 480 --save
    python benchmarks/models.py --model resnet18 --peer onnxruntime --profile
    python benchmarks/models.py --model densenet121 --folder /tmp/forms --prepare   # then again without --prepare
    python benchmarks/models.py --model mobilenet_v2@qdq --model llama_step@int4    # in fewer bits (zoo/narrow.py)
    python benchmarks/models.py --narrow

Each contender has a process of its own (model_peers.py) and is held against torch in float64 before it is timed: what is
wrong is no row. The method is that of measure/compare/method.py. Needs torch, torchvision, transformers, onnxscript,
onnxruntime and openvino; what is missing is left out with a note.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from model_peers import ModelPeer
from peers import OURS
from rich.console import Console
from zoo.forms import facts_of
from zoo.names import AGREEMENT, NAMES, NARROW, OTHERS, scheme_of
from zoo.report import ModelResult, mean_of, save, table_of

from tilesmith.measure.compare.contender import MissingContender
from tilesmith.measure.compare.method import Method
from tilesmith.measure.compare.noise import MachineNoise

PEERS = ("torch", "torch.compile", "onnxruntime", "openvino")


os.environ.setdefault(
    "TILESMITH_SHIPPED", "0"
)  # "no trial, no record" means none of ours either; 1 shows what they bring


@dataclass(frozen=True)
class Settings:
    """Says how every model is treated."""

    threads: int
    peers: Sequence[str]
    trials: int
    seconds: float
    database: str
    profile: bool
    prepare_only: bool


def compared(name: str, folder: Path, settings: Settings, method: Method, console: Console) -> ModelResult | None:
    """One model in all ways; None where ours is missing or wrong, or where contenders were only to prepare."""
    if not (folder / "facts.json").exists():
        subprocess.run([sys.executable, Path(__file__).with_name("model_exports.py"), name, folder], check=True)
    facts = facts_of(folder)
    for form, reason in facts["failed"].items():
        console.print(f"{name}: no {form}: {reason}")
    team = [ModelPeer(way, settings.threads) for way in (OURS, *settings.peers)]
    try:
        ready, missing = _ready(name, folder, team, settings, console)
        if settings.prepare_only or OURS not in [peer.name for peer in ready]:
            return None
        rounds = method.compare(ready, MachineNoise(settings.threads, [peer.process for peer in team]))
        return ModelResult(name, facts, {peer.name: peer.about for peer in ready}, rounds, missing)
    finally:
        for peer in team:
            peer.close()


def _ready(
    name: str, folder: Path, team: Sequence[ModelPeer], settings: Settings, console: Console
) -> tuple[list[ModelPeer], dict[str, str]]:
    """Who takes part, and why the others do not. One prepares after another, so that their seconds can be compared."""
    ready: list[ModelPeer] = []
    missing: dict[str, str] = {}
    for peer in team:
        try:
            peer.prepare(
                name,
                folder,
                trials=settings.trials,
                seconds=settings.seconds,
                database=settings.database,
                profile=settings.profile,
            )
        except (MissingContender, RuntimeError) as reason:
            missing[peer.name] = str(reason)
            console.print(f"{name}: without {peer.name}: {reason}")
            continue
        about = peer.about
        console.print(
            f"{name}: {peer.name} ready in {about['ready_seconds']:.1f} s, largest error {about['error']:.1e}"
        )
        if not about["error"] <= AGREEMENT[scheme_of(name)]:
            missing[peer.name] = f"wrong by {about['error']:.3g}"
            continue
        if "profile" in about:
            console.print(_first_lines(about.pop("profile"), 16), highlight=False, soft_wrap=True)
        ready.append(peer)
    return ready, missing


def _first_lines(text: str, count: int) -> str:
    lines = text.split("\n")
    return "\n".join([*lines[:count], lines[-1]]) if len(lines) > count + 1 else text


def main(
    model: Annotated[
        list[str] | None,
        typer.Option(help=f"of {', '.join(NAMES)}; all of these unless given. Also: {', '.join(OTHERS)}"),
    ] = None,
    narrow: Annotated[bool, typer.Option("--narrow", help=f"those in fewer bits: {', '.join(NARROW)}")] = False,
    trials: Annotated[int, typer.Option(help="of each model, before it is compiled; 0: none")] = 0,
    seconds: Annotated[float, typer.Option(help="of tuning each model, at most")] = 480.0,
    rounds: Annotated[int, typer.Option(min=1)] = 9,
    each: Annotated[float, typer.Option(help="seconds of each contender in each round")] = 0.3,
    threads: Annotated[int, typer.Option(min=1)] = 2,
    db: Annotated[str | None, typer.Option(help="the tuning database; by default an empty one")] = None,
    peer: Annotated[list[str] | None, typer.Option(help=f"of {', '.join(PEERS)}; all unless given")] = None,
    folder: Annotated[Path | None, typer.Option(help="keeps what is exported for a later run")] = None,
    prepare: Annotated[
        bool, typer.Option("--prepare", help="exports and compiles, and times nothing: caches are warm then")
    ] = False,
    profile: Annotated[bool, typer.Option("--profile", help="the slowest calls of ours")] = False,
    keep: Annotated[bool, typer.Option("--save", help="adds the rows to the file in benchmarks/results/")] = False,
    seed: Annotated[int, typer.Option(help="of the order")] = 0,
) -> None:
    """Compares whole models."""
    console = Console(width=None if sys.stdout.isatty() else 240)
    chosen = model or (NARROW if narrow else NAMES)
    unknown = sorted({*chosen} - {*NAMES, *OTHERS, *NARROW})
    if unknown:
        raise typer.BadParameter(f"no such model: {', '.join(unknown)}")
    method = Method(rounds=rounds, seconds=each, patience=rounds, seed=seed, report=console.log)
    results: list[ModelResult] = []
    with TemporaryDirectory(prefix="tilesmith-models-") as own:
        database = db or str(Path(own) / "tuning.sqlite")
        settings = Settings(threads, peer or PEERS, trials, seconds, database, profile, prepare)
        for name in chosen:
            found = compared(name, (folder or Path(own)) / name, settings, method, console)
            if found is None:
                continue
            results.append(found)
            if keep:  # at once: a run that is cut short keeps what it has
                console.print(f"kept in {save([found], threads, trials, seed)}")
    if results:
        console.print(table_of(results, [OURS, *settings.peers], threads, trials))
        console.print(f"geometric mean over the best peers: {mean_of(results):.2f}x")


if __name__ == "__main__":
    typer.run(main)
