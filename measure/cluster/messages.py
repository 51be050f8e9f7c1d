"""What a `RayRunner` and the process that speaks Ray for it say to each other: plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...common.errors import TilesmithError
from ..result import Job, Measurement

LOCAL_HOST = f"{__package__}.host:local_runner"
BUILD_HOST = f"{__package__}.host:build_runner"


@dataclass(frozen=True, slots=True)
class ConnectRequest:
    """Holds what to connect to, and what to look for there.

    Attributes:
        address: "" starts a Ray on this machine; else as `ray.init` takes it.
        target, threads: of the kernels.
        wait: seconds to wait for a cluster that does not answer.
        devices: how many hosts that measure; None: as many as fit.
        exclusive: hosts claim cores and calibrate; simulated ones do not.
        factory, build_factory, options, build_options: of the hosts; see `host.Order`.
        silence: seconds after which a host that does not answer is given up.
        local_processors: CPUs that a Ray on this machine lends out; None: as it finds.
        machine: keep to this kind of machine; "": the most numerous one.
    """

    address: str
    target: str
    threads: int
    wait: float = 20.0
    devices: int | None = None
    exclusive: bool = True
    factory: str = LOCAL_HOST
    build_factory: str = BUILD_HOST
    options: Mapping[str, Any] = field(default_factory=dict)
    build_options: Mapping[str, Any] = field(default_factory=dict)
    silence: float = 60.0
    local_processors: int | None = None
    machine: str = ""


@dataclass(frozen=True, slots=True)
class ClusterReady:
    """The cluster has a device that is ready: its machine, and what that can do (JSON, "" where it was not measured)."""

    machine: str
    ceilings: str
    capacity: int


@dataclass(frozen=True, slots=True)
class Refused:
    """Says that what was asked cannot be done, and why."""

    error: TilesmithError


@dataclass(frozen=True, slots=True)
class Note:
    """A sentence for a person."""

    text: str


@dataclass(frozen=True, slots=True)
class Submit:
    """Jobs to make."""

    jobs: tuple[Job, ...]


@dataclass(frozen=True, slots=True)
class Compare:
    """Contenders to confirm."""

    jobs: tuple[Job, ...]


@dataclass(frozen=True, slots=True)
class Results:
    """Jobs that are finished, and how many should now be in flight."""

    finished: tuple[tuple[int, Measurement], ...]
    capacity: int


@dataclass(frozen=True, slots=True)
class Compared:
    """The end of a confirmation."""

    answers: Sequence[tuple[int, Measurement]]


@dataclass(frozen=True, slots=True)
class Goodbye:
    """Tells hosts that the runner is closed."""
