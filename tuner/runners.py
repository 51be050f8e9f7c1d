"""Where tasks are measured: a runner by its name, and the machine that its times belong to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..common.errors import ArgumentError
from ..common.near import did_you_mean
from ..measure.calibrate.calibrate import ceilings
from ..measure.machine import identity_for, machine_key
from ..measure.result import Runner
from ..runtime.devices.choose import check_driver
from ..targets.ceilings import Ceilings
from ..targets.host import usable_processors
from ..targets.target import Target, check_runs_here
from .records.data import Machine


@dataclass(frozen=True, slots=True)
class RunnerSite:
    """A runner, the machine that records of it belong to, and what that machine can do."""

    runner: Runner
    machine: Machine
    ceilings: Ceilings


def is_elsewhere(runner: str | Runner) -> bool:
    """Says whether the runner's machine is not this one: then this one need not be able to run the kernels."""
    if not isinstance(runner, str):
        return hasattr(runner, "machine")
    return runner == "ray" or runner.startswith("ray://") or "/" in runner or Path(runner).is_file()


def check_runner(target: Target, runner: str | Runner) -> None:
    """Refuses what cannot work, before anything is started.

    Errors: ArgumentError (an unknown name), TargetError, MissingExtra (a GPU without a binding).
    """
    if not is_elsewhere(runner):
        if not isinstance(runner, str) and not hasattr(runner, "capacity"):
            raise ArgumentError("that is no runner", expected='"local", "ray" or a Runner', found=repr(runner)[:80])
        if isinstance(runner, str) and runner != "local":
            expected = "local, ray, ray://host:port, the path of a file with an address, or an object that is a Runner"
            raise ArgumentError(
                "unknown runner", expected=expected, found=repr(runner), advice=did_you_mean(runner, ("local", "ray"))
            )
        check_runs_here(target)
        if target.needs_device:
            check_driver(target)


def check_threads(threads: int) -> None:
    """Refuses to time kernels of more threads than there are processors: their times would say nothing."""
    if threads > (here := usable_processors()):
        raise ArgumentError(
            f"{threads} threads cannot be timed on {here} processors",
            expected=f"at most {here}",
            advice="leave threads out, or measure on a machine that has them",
        )


@contextmanager
def place_for(target: Target, threads: int, runner: str | Runner) -> Iterator[RunnerSite]:
    """A new runner, closed at the end, or the caller's own, which is not.

    Raises:
        MissingExtra, ArgumentError, EnvironmentFailure, TargetError: a cluster that cannot be used, and why.
    """
    if not isinstance(runner, str):
        yield _place(runner, target, threads)
    elif is_elsewhere(runner):
        from ..measure.cluster.ray_runner import RayRunner, address_of

        with RayRunner(address_of(runner), target.text, threads) as cluster:
            yield _place(cluster, target, threads)
    else:
        from ..measure.local import LocalRunner

        check_threads(threads)
        known = ceilings(target, threads)
        with LocalRunner(target.text, threads, ceilings=known) as local:
            yield _place(local, target, threads)


def _place(runner: Runner, target: Target, threads: int) -> RunnerSite:
    """The runner's own machine if it has one, else this one."""
    identity: str = getattr(runner, "machine", "") or identity_for(target)
    known: Ceilings = getattr(runner, "ceilings", None) or ceilings(target, threads)
    return RunnerSite(runner, Machine(machine_key(identity), identity, known.to_json()), known)
