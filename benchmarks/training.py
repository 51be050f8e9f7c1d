"""Training steps side by side: ours, torch, torch.compile; fp32, random weights, forward and backward, no trial.

    python benchmarks/training.py [--model resnet18_batch8] [--rounds 9] [--threads 2]

Each contender has a process of its own (training_peers.py); gradients are held against eager float64 before anything is timed:
what is wrong is no row. The method is that of measure/compare/method.py. Needs torch, torchvision and transformers.
"""

from __future__ import annotations

import os
import sys
from statistics import geometric_mean
from typing import Annotated

import typer
from peers import OURS
from rich.console import Console
from rich.table import Table
from training_peers import TrainingPeer

from tilesmith.measure.compare.contender import MissingContender
from tilesmith.measure.compare.method import ContestRounds, Method
from tilesmith.measure.compare.noise import MachineNoise

WAYS = (OURS, "torch", "torch.compile")
NAMES = ("resnet18_batch8", "bert_4_layers_128", "mobilenet_v2_batch8", "convnext_tiny_batch4", "swin_t_batch4",
         "gpt_4_layers_64_batch4")  # fmt: skip
AGREEMENT = 1e-3  # largest error of a gradient, of the largest value ...
BESIDE_EAGER = 3.0  # ... or so many times that of eager float32: batch norm in training cancels much

os.environ.setdefault("TILESMITH_SHIPPED", "0")  # "no trial, no record" means none of ours either


def compared(name: str, threads: int, method: Method, console: Console) -> ContestRounds | None:
    """One model in all ways; None where ours is missing or wrong."""
    team = [TrainingPeer(way, threads) for way in WAYS]
    try:
        ready = [peer for peer in team if _is_ready(name, peer, console)]
        if OURS not in [peer.name for peer in ready]:
            return None
        return method.compare(ready, MachineNoise(threads, [peer.process for peer in team]))
    finally:
        for peer in team:
            peer.close()


def _is_ready(name: str, peer: TrainingPeer, console: Console) -> bool:
    try:
        peer.prepare(name)
    except (MissingContender, RuntimeError) as reason:
        console.print(f"{name}: without {peer.name}: {reason}")
        return False
    about = peer.about
    console.print(f"{name}: {peer.name} ready in {about['ready_seconds']:.1f} s, largest error {about['error']:.1e}")
    return bool(about["error"] <= max(AGREEMENT, BESIDE_EAGER * about["eager_error"]))


def main(
    model: Annotated[list[str] | None, typer.Option(help=f"of {', '.join(NAMES)}; all unless given")] = None,
    rounds: Annotated[int, typer.Option(min=1)] = 9,
    each: Annotated[float, typer.Option(help="seconds of each contender in each round")] = 1.0,
    threads: Annotated[int, typer.Option(min=1)] = 2,
    seed: Annotated[int, typer.Option(help="of the order")] = 0,
) -> None:
    """Compares training steps."""
    console = Console(width=None if sys.stdout.isatty() else 160)
    if unknown := sorted({*(model or ())} - {*NAMES}):
        raise typer.BadParameter(f"no such model: {', '.join(unknown)}")
    method = Method(rounds=rounds, seconds=each, patience=rounds, seed=seed, report=console.log)
    table = Table(title=f"training steps, {threads} threads, no trial; ms")
    for header in ("model", *WAYS, "ratio", "quartiles"):
        table.add_column(header)
    ratios: list[float] = []
    for name in model or NAMES:
        found = compared(name, threads, method, console)
        if found is None:
            continue
        peers = [way for way in WAYS[1:] if way in found.seconds]
        cells = [f"{1e3 * found.median(way):.1f}" if way in found.seconds else "" for way in WAYS]
        if peers:
            ratio = found.ratio(OURS, found.fastest(peers))
            ratios.append(ratio.middle)
            cells += [f"{ratio.middle:.2f}x", f"{ratio.low:.2f} .. {ratio.high:.2f}"]
        table.add_row(name, *cells)
    console.print(table)
    if ratios:
        console.print(f"geometric mean over the better of eager and torch.compile: {geometric_mean(ratios):.2f}x")


if __name__ == "__main__":
    typer.run(main)
