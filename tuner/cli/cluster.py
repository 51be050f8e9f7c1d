"""`tune cluster status` and `tune cluster check`: what goes on at a Ray cluster, and whether its nodes can be used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Annotated

import typer

from ...common.errors import TilesmithError
from ...measure.cluster.messages import ConnectRequest
from ...measure.cluster.nodes import NodeFacts, own_versions, refusal, unfit
from ...measure.cluster.ray_runner import RayRunner, address_of, ask_cluster
from ...measure.cluster.status import RunStatus
from ...measure.result import Job, Measurement
from ...targets.host import thread_count
from ...targets.target import Target, parse_target
from ...tensor.ops import matmul
from ...tensor.printing import print_program
from ...tensor.text.canonical import canonical
from ..terminal import make_console
from .parameters import Threads
from .report import table

cluster = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="What goes on at a Ray cluster, and whether its nodes can be used.",
    rich_markup_mode=None,
)

Address = Annotated[
    str, typer.Argument(help="ray, ray://host:port, or a file that holds an address", metavar="[ADDRESS]")
]


@cluster.command()
def status(address: Address = "ray") -> None:
    """Shows the runs on a cluster: their devices, what each is doing, trials a second, failures."""
    console = make_console()
    runs: Sequence[RunStatus] = ask_cluster("status", ConnectRequest(_running(address), parse_target("host").text, 1))
    if not runs:
        console.print("no run is going on there")
    for run in runs:
        console.print(f"{run.driver}: {short(run.target)}, {run.speed:.2f} trials/s for {run.at - run.started:.0f} s")
        rows = table("host", "does", ">in flight", ">trials", ">failed", ">pace", "state")
        for host in run.hosts:
            does = "builds" if host.builds else "measures"
            state = "" if host.builds else "steady" if host.steady else "drifting"
            numbers = (str(host.busy), str(host.done), str(host.failed), "" if host.builds else f"{host.pace:.3f}")
            rows.add_row(host.place, does, *numbers, state)
        console.print(rows)
        for line in run.refused:
            console.print(f"not used any more: {line}")


@cluster.command()
def check(
    address: Address = "ray",
    target: Annotated[str, typer.Option(help="what to make kernels for")] = "host",
    threads: Threads = None,
) -> None:
    """Tests each node: versions, features, calibration, and a small kernel on each device. Ends with 1 if one fails."""
    console = make_console()
    wanted = parse_target(target)
    count = thread_count(threads, wanted)
    place = address_of(address)
    nodes: Sequence[NodeFacts] = ask_cluster("check", ConnectRequest(place, wanted.text, count))
    rows = table("node", ">CPUs", ">GPUs", ">cores", "tilesmith", "llvmlite", "target", "verdict")
    for facts in nodes:
        versions = [facts.versions.get(package) or "none" for package in own_versions()]
        rows.add_row(
            facts.title,
            f"{facts.processors:g}",
            f"{facts.gpus:g}",
            str(facts.cores),
            *versions,
            short(facts.target),
            verdict(facts, wanted, count),
        )
    console.print(rows)
    for facts in nodes:
        if verdict(facts, wanted, count) == "measures":
            console.print(f"--target '{facts.target}' is {facts.title} itself")
    console.print()
    failed = smoke(place, wanted, count, lambda text: console.print(text, soft_wrap=True))
    if failed or any(refusal(facts, own_versions()) for facts in nodes):
        sys.exit(1)


def short(target: str) -> str:
    """The target without its sizes."""
    return target.partition(";")[0]


def verdict(facts: NodeFacts, target: Target, threads: int) -> str:
    """Says in words what a node is good for."""
    if reason := refusal(facts, own_versions()):
        return f"refused: {reason}"
    if reason := unfit(facts, target, threads):
        return f"builds: {reason}" if facts.processors >= 1 else f"idle: {reason}"
    return "measures"


def smoke(address: str, target: Target, threads: int, tell: Callable[[str], None]) -> bool:
    """Calibrates, and runs a small kernel on every device. True when something went wrong."""
    start = monotonic()
    try:
        with RayRunner(address, target.text, threads, tell=tell) as runner:
            if runner.ceilings is not None:
                flops, memory = runner.ceilings.flops["f32"] / 1e9, runner.ceilings.bandwidth[-1][1] / 1e9
                tell(
                    f"ceilings: f32 {flops:.0f} GFLOP/s, memory {memory:.0f} GB/s; ready in {monotonic() - start:.1f} s"
                )
            ends = _run_on_all(runner, target, threads)
    except TilesmithError as error:
        tell(f"no kernel could be tried: {error}")
        return True
    for end in ends:
        how = f"{end.seconds * 1e6:.1f} us" if end.ok else f"{end.status}: {end.failure and end.failure.message}"
        tell(f"a matmul of 64 on {end.device.rpartition(' on ')[2] or 'a device'}: {how}")
    return not all(end.ok for end in ends)


def _run_on_all(runner: RayRunner, target: Target, threads: int) -> list[Measurement]:
    """One trial for each place that answers: so many are given that all devices get some."""
    text = print_program(canonical(matmul(64, 64, 64)))
    jobs = 2 * runner.capacity
    for number in range(jobs):
        runner.submit(Job(number, text, "", {}, target.text, threads))
    places: dict[str, Measurement] = {}
    done = 0
    while done < jobs:
        for _, end in runner.collect():
            done += 1
            place = end.device.rpartition(" on ")[2]
            if end.ok or place not in places or not places[place].ok:
                places[place] = end
    return list(places.values())


def _running(address: str) -> str:
    """Returns its address: only a Ray that is there already has something to tell."""
    return address_of(address) or "auto"
