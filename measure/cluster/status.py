"""What a run on a cluster tells about itself while it goes on, and the board on which it does."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from time import time

from .pool import HostPool


@dataclass(frozen=True, slots=True)
class HostStatus:
    """One host: `busy` names its works in flight, `pace` how it compares with its twins (1: like the median)."""

    place: str
    builds: bool
    busy: int
    done: int
    failed: int
    pace: float
    steady: bool


@dataclass(frozen=True, slots=True)
class RunStatus:
    """One run: `refused` are places and nodes that are not used any more, with the reason."""

    driver: str
    target: str
    started: float
    at: float
    hosts: tuple[HostStatus, ...]
    refused: tuple[str, ...]

    @property
    def speed(self) -> float:
        """Trials per second since it started."""
        return sum(host.done for host in self.hosts if not host.builds) / max(1e-3, self.at - self.started)


def status_of(pool: HostPool, reasons: Mapping[str, str], target: str, started: float) -> RunStatus:
    """Gives the status at this moment."""
    hosts = tuple(
        HostStatus(
            lane.facts.place, lane.builds, lane.load, lane.done, lane.failed, pool.pace_of(lane), lane.gauge.steady
        )
        for lane in list(pool.lanes.values())
    )
    refused = tuple(f"{place[:40]}: {why}" for place, why in {**pool.refused, **reasons}.items())
    return RunStatus(f"{platform.node()} pid {os.getpid()}", target, started, time(), hosts, refused)


class StatusBoard:
    """Keeps the last status of a run where others can read it; an actor that ends with the run."""

    def __init__(self) -> None:
        self._status: RunStatus | None = None

    def put(self, status: RunStatus) -> None:
        """Replaces the status on the board."""
        self._status = status

    def get(self) -> RunStatus | None:
        """Gives the last status that was put on the board."""
        return self._status
