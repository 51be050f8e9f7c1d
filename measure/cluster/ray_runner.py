"""A runner whose devices are anywhere on a Ray cluster.

Ray itself runs in a child of this process (`service.py`). When that child ends (a cluster that goes away takes it along),
another one is started, waits for the cluster for a while, and gets the jobs that were not answered. So a head that is
started again costs time, and no trial: each job is answered once.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from shutil import disk_usage
from tempfile import gettempdir
from time import monotonic, sleep
from typing import Any

from ...common.errors import ArgumentError, EnvironmentFailure, MissingExtra
from ...targets.ceilings import Ceilings
from ..machine import machine_key
from ..process.child import Child, child_setup
from ..process.station import Answered, Station, WorkItem
from ..result import AtEnd, Job, Measurement
from .messages import ClusterReady, Compare, Compared, ConnectRequest, Goodbye, Note, Refused, Results, Submit

RETURN = 180.0  # seconds in which a cluster that went away must be back
_ROOM = 1 << 30  # bytes that Ray needs for its session
_ENVIRONMENT = {"RAY_DEDUP_LOGS": "0", "RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
_SERVICE = f"{__package__}.service:ClusterService"
_INSPECTOR = f"{__package__}.service:Inspector"


def say(text: str) -> None:
    """Tells a person on stderr."""
    print(f"cluster: {text}", file=sys.stderr, flush=True)


def address_of(runner: str) -> str:
    """Returns what `ray.init` is to be given for "ray" (nothing: start one here), "ray://host:port" or a file with an address.

    Raises ArgumentError for a file that is none, or holds no address.
    """
    if runner == "ray":
        return os.environ.get("RAY_ADDRESS", "").strip()
    text = runner
    if not runner.startswith("ray://"):
        try:
            text = Path(runner.removeprefix("ray:")).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ArgumentError(
                f"the address file {runner.removeprefix('ray:')} cannot be read", found=str(error),
                advice="give ray, ray://host:port, or a file that holds an address such as 10.0.0.1:6379",
            ) from None  # fmt: skip
    host, colon, port = text.removeprefix("ray://").rpartition(":")
    if not (host and colon and port.isascii() and port.isdecimal()):
        raise ArgumentError(
            "this is no address of a Ray cluster",
            expected="ray://host:port, or host:port in an address file",
            found=repr(text[:100]),
        )
    return text


def check_ray(address: str) -> None:
    """Errors: MissingExtra without Ray, EnvironmentFailure when a Ray that is started here would not have room."""
    if find_spec("ray") is None:
        raise MissingExtra("ray", "ray", "tuning on a cluster")
    if address.startswith("ray://") and find_spec("grpc") is None:
        raise MissingExtra("grpcio", "ray", "a ray:// address")
    if not address:
        folder = Path(os.environ.get("RAY_TMPDIR") or os.environ.get("RAY_TEMP_DIR") or gettempdir())
        free = disk_usage(folder).free if folder.exists() else 0
        if free < _ROOM:
            raise EnvironmentFailure(
                "there is not enough disk for Ray's session folder",
                expected=f"{_ROOM >> 20} MB free in {folder}",
                found=f"{free >> 20} MB",
                advice="make room, or set RAY_TMPDIR to a folder with more (its path must be short)",
            )


class RayRunner(AtEnd):
    """Devices of a Ray cluster (implements `measure.result.Runner`).

    Args:
        address: as `address_of` gives it; "" starts a Ray on this machine.
        target: the target's text.
        threads: threads of the kernels.
        tell: called with a sentence when a node is left out, lost or set aside.
        options: other fields of `messages.ConnectRequest`.

    Attributes:
        machine: identity of the machines that measure (all are of one kind).
        ceilings: what they can do; None where hosts were told not to calibrate.

    Raises:
        MissingExtra, ArgumentError, TargetError (no node is such a target), EnvironmentFailure (no cluster, or one that
        cannot be used).
    """

    name = "ray"

    def __init__(
        self,
        address: str,
        target: str,
        threads: int,
        *,
        tell: Callable[[str], None] = say,
        back_within: float = RETURN,
        **options: Any,
    ) -> None:
        if threads < 1:
            raise ArgumentError("a runner needs at least one thread", found=str(threads))
        check_ray(address)
        self._call = ConnectRequest(address, target, threads, **options)
        self._tell, self._back_within = tell, back_within
        self._waiting: list[Job] = []
        self._flying: dict[int, Job] = {}
        self._finished: list[tuple[int, Measurement]] = []
        self._contest: tuple[Job, ...] | None = None
        self._compared: Sequence[tuple[int, Measurement]] | None = None
        self._opened: ClusterReady | None = None
        self._closed = False
        self._lost_at: float | None = None
        self.capacity = 1
        self._child = self._start()
        try:
            opened = self._wait_for_device()
        except BaseException:
            self.close()
            raise
        self.machine = opened.machine
        self.ceilings = Ceilings.from_json(opened.ceilings) if opened.ceilings else None
        self._call = replace(self._call, machine=machine_key(self.machine))

    def _start(self) -> Child:
        child = Child(child_setup(_SERVICE, {}), _ENVIRONMENT)
        child.send(self._call)
        return child

    def _wait_for_device(self) -> ClusterReady:
        while True:
            if self._opened is not None:
                return self._opened
            self._hear(float("inf"))

    def submit(self, job: Job) -> None:
        """Takes a job; it goes out with the next `collect`."""
        if self._closed:
            raise ArgumentError("this runner was closed", advice="make a new one")
        self._waiting.append(job)
        self._flying[job.number] = job

    def collect(self, timeout: float | None = None) -> Sequence[tuple[int, Measurement]]:
        """Finished jobs as (number, measurement); see `Runner.collect`."""
        end = float("inf") if timeout is None else monotonic() + timeout
        self._flush()
        self._hear(0.0)
        while not self._finished and self._flying and not self._closed and monotonic() < end:
            self._hear(end)
        done, self._finished = self._finished, []
        return done

    def _flush(self) -> None:
        if self._waiting and not self._closed:
            self._child.send(Submit(tuple(self._waiting)))
            self._waiting = []

    def confirm(self, jobs: Sequence[Job]) -> Sequence[tuple[int, Measurement]]:
        """Compares contenders on one device, interleaved; see `Runner.confirm`. What is in flight ends first."""
        self._contest, self._compared = tuple(jobs), None
        self._flush()
        self._child.send(Compare(self._contest))
        try:
            return self._wait_for_end_of_contest()
        finally:
            self._contest = None

    def _wait_for_end_of_contest(self) -> Sequence[tuple[int, Measurement]]:
        while True:
            if self._compared is not None:
                return self._compared
            self._hear(float("inf"))

    # ---- the child

    def _hear(self, end: float) -> None:
        """Takes what the child has said; waits for it until `end`. Errors: what the child says is the matter."""
        poller = select.poll()
        for descriptor in self._child.descriptors:
            poller.register(descriptor, select.POLLIN)
        poller.poll(max(0.0, min(end - monotonic(), 1.0)) * 1000)
        for message in self._child.messages():
            self._take(message)
        if self._child.ended and not self._closed:
            self._again()

    def _take(self, message: object) -> None:
        match message:
            case Results(finished=finished, capacity=capacity):
                self.capacity = max(1, capacity)
                self._finished += [(n, m) for n, m in finished if self._flying.pop(n, None) is not None]
            case Compared(answers=answers):
                self._compared = answers
            case ClusterReady(capacity=capacity):
                self._opened, self.capacity, self._lost_at = message, max(1, capacity), None
            case Note(text=text):
                self._tell(text)
            case Refused(error=error):
                if self._opened is None or self._lost_at is None:
                    self._child.close()
                    self._closed = True
                    raise error
                self._wait_or_give_up(error.problem)

    def _again(self) -> None:
        """The child is gone: another one takes over what was not answered."""
        why = self._child.ending().message
        if self._opened is None:
            raise EnvironmentFailure("the process that speaks to Ray does not start", found=why[-2000:])
        if self._lost_at is None:
            self._lost_at = monotonic()
            self._tell(f"the cluster is gone; waiting up to {self._back_within:.0f} s for it to come back")
        self._wait_or_give_up(why)

    def _wait_or_give_up(self, why: str) -> None:
        assert self._lost_at is not None
        if monotonic() - self._lost_at > self._back_within:
            self.close()
            raise EnvironmentFailure(
                "the Ray cluster went away and did not come back",
                found=why[-2000:],
                advice="start it again; what was measured is in the database, and the same command continues",
            )
        self._child.close()
        sleep(1.0)
        self._child = self._start()
        self._waiting = list(self._flying.values())
        self._flush()
        if self._contest is not None:
            self._child.send(Compare(self._contest))

    def close(self) -> None:
        """Ends the hosts, and a Ray that was started here."""
        if not self._closed:
            self._closed = True
            self._child.send(Goodbye())
            self._wait_for_end()
            self._child.close()

    def _wait_for_end(self) -> None:
        end = monotonic() + 5.0
        while not self._child.ended and monotonic() < end:
            poller = select.poll()
            for descriptor in self._child.descriptors:
                poller.register(descriptor, select.POLLIN)
            poller.poll(100)
            if any(type(message).__name__ == "Answer" for message in self._child.messages()):
                return


def ask_cluster(what: str, call: ConnectRequest) -> Any:
    """Returns what `service.Inspector` answers. Errors: those that it gives back."""
    check_ray(call.address)
    setup = child_setup(_INSPECTOR, {})
    station = Station(lambda: Child(setup, _ENVIRONMENT), 60.0, 1, lambda _: False)
    try:
        station.give(WorkItem(None, (what, call), {"ask": 180.0}))
        event = station.wait()
    finally:
        station.close()
    if not isinstance(event, Answered):
        raise EnvironmentFailure("the cluster could not be asked", found=str(event)[-2000:])
    if isinstance(event.value, Exception):
        raise event.value
    return event.value
