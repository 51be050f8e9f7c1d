"""What a worker of a cluster does: it owns a device, and a runner that measures on it; or processors, and builders.

Here stands nothing of how the caller reaches it. The works come in handfuls and go back in handfuls, so that one message
carries several trials when they are short.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from time import monotonic
from typing import Any, Protocol

from ...targets.target import check_runs_here, parse_target
from ..calibrate.calibrate import ceilings
from ..local import BUILDER, LocalRunner
from ..machine import identity_for
from ..process.builder import Built
from ..process.builders import DEPTH, Builders
from ..process.child import Child, child_setup
from ..process.environment import builder_environment
from ..process.station import wait_for
from ..requests import default_limits
from ..result import Job, Measurement
from .cores import Claim

LINGER = 0.1  # seconds after a first result in which further ones may come along in the same message

Outcome = Measurement | Built


@dataclass(frozen=True, slots=True)
class Order:
    """Holds what a host is to be.

    Attributes:
        target, threads: of the kernels.
        factory: "module:function", called with (order, ceilings); it gives the runner.
        claim: cores to own alone; 0: it takes what it gets.
        gpu: whether it owns a GPU alone: the only one that it is shown.
        calibrates: whether it measures ceilings.
        builders: builder children of a host that only builds.
        options: of the factory.
    """

    target: str
    threads: int
    factory: str
    claim: int = 0
    gpu: bool = False
    calibrates: bool = False
    builders: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HostFacts:
    """A host that is ready. `ceilings` is JSON, "" where nothing is timed or the factory needs none."""

    machine: str
    place: str
    ceilings: str
    depth: int
    pid: int


@dataclass(frozen=True, slots=True)
class Errand:
    """A job for a host, built already or not."""

    job: Job
    built: Built | None = None


class Hosted(Protocol):
    """Holds what a host drives: a `Runner`, or builders."""

    @property
    def capacity(self) -> int:
        """Says how many jobs keep this host busy."""
        ...

    def submit(self, job: Job, built: Built | None = None) -> None:
        """Takes a job, built or not."""
        ...

    def collect(self, timeout: float | None = None) -> Sequence[tuple[int, Outcome]]:
        """Returns what is done; waits for the first."""
        ...

    def confirm(self, jobs: Sequence[Job]) -> Sequence[tuple[int, Measurement]]:
        """Compares contenders."""
        ...

    def close(self) -> None:
        """Ends all children."""
        ...


class Host:
    """See the head of this file. Errors: those of claiming, calibrating and the factory."""

    def __init__(self, order: Order) -> None:
        target = parse_target(order.target)
        self._machine = identity_for(target)  # of the whole machine: it is asked before cores are claimed
        self._claim = Claim(order.claim) if order.claim else None
        self._place = f"{platform.node()} {self._device(order)}"
        if order.calibrates:
            check_runs_here(target)
        speeds = ceilings(target, order.threads) if order.calibrates else None
        self._ceilings = speeds.to_json() if speeds is not None else ""
        module, _, name = order.factory.partition(":")
        self._runner: Hosted = getattr(import_module(module), name)(order, speeds)
        self._load = 0

    def _device(self, order: Order) -> str:
        """Returns what it owns, for people: a GPU, whole cores, or nothing."""
        if order.gpu:
            devices = parse_target(order.target).backend.devices
            return f"GPU {os.environ.get(devices.variable, '0') if devices is not None else '0'}"
        return "cores " + ",".join(map(str, self._claim.cpus)) if self._claim else f"pid {os.getpid()}"

    def facts(self) -> HostFacts:
        """Returns what the caller needs to know of it."""
        return HostFacts(self._machine, self._place, self._ceilings, self._runner.capacity, os.getpid())

    def exchange(self, errands: Sequence[Errand], patience: float) -> list[tuple[int, Outcome]]:
        """Takes errands, and gives back what is done; waits up to `patience` seconds for the first."""
        for errand in errands:
            self._runner.submit(errand.job, errand.built)
        self._load += len(errands)
        done = list(self._runner.collect(patience))
        end = monotonic() + LINGER
        while done and self._load - len(done) > 1 and (left := end - monotonic()) > 0:
            done += self._runner.collect(left)
        self._load -= len(done)
        return [(number, out if isinstance(out, Built) else self._signed(out)) for number, out in done]

    def confirm(self, jobs: Sequence[Job]) -> list[tuple[int, Measurement]]:
        """Measures contenders interleaved; see `Runner.confirm`."""
        return [(number, self._signed(measurement)) for number, measurement in self._runner.confirm(jobs)]

    def _signed(self, measurement: Measurement) -> Measurement:
        """Returns it with the place where it was made."""
        return replace(measurement, device=f"{measurement.device} on {self._place}".strip())

    def close(self) -> None:
        """Ends all children and gives the cores back."""
        self._runner.close()
        if self._claim is not None:
            self._claim.release()


def local_runner(order: Order, speeds: Any) -> LocalRunner:
    """The usual factory of a host that measures."""
    return LocalRunner(order.target, order.threads, ceilings=speeds, **order.options)


class BuildRunner:
    """Builders without a timer: what comes back is built, or says why not."""

    def __init__(self, target: str, count: int, builder: str = BUILDER) -> None:
        limits = default_limits()
        setup = child_setup(builder, {"target": target}, limits.build_memory)
        self._builders = Builders(lambda: Child(setup, builder_environment()), count, limits.start, limits.of_build())
        self.capacity = count * DEPTH + count

    def submit(self, job: Job, built: Built | None = None) -> None:
        """Takes a job."""
        self._builders.submit(job)
        self._builders.feed(self.capacity)

    def collect(self, timeout: float | None = None) -> list[tuple[int, Outcome]]:
        """Returns what is built; waits up to `timeout` seconds for the first."""
        end = float("inf") if timeout is None else monotonic() + timeout
        done: list[tuple[int, Outcome]] = []
        while not done and self._builders.load:
            wait_for(self._builders.stations, end)
            done = [(job.number, outcome) for job, outcome in self._builders.poll()]
            self._builders.feed(self.capacity)
            if monotonic() >= end:
                break
        return done

    def confirm(self, jobs: Sequence[Job]) -> list[tuple[int, Measurement]]:
        """Refuses: builders measure nothing."""
        raise NotImplementedError

    def close(self) -> None:
        """Ends the children."""
        self._builders.close()


def build_runner(order: Order, speeds: Any) -> BuildRunner:
    """The factory of a host that only builds."""
    return BuildRunner(order.target, order.builders, **order.options)
