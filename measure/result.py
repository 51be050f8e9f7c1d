"""The result of a trial, which is a value whatever happened, and the protocol of everything that can run trials."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median
from types import TracebackType
from typing import Protocol, Self, runtime_checkable

from .given import digest


class Status(StrEnum):
    """Says how a trial ended."""

    OK = "ok"
    INVALID = "invalid"  # the config breaks a require; found before or at lowering
    COMPILE_ERROR = "compile_error"
    WRONG_RESULT = "wrong_result"
    CRASH = "crash"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    UNSTABLE = "unstable"  # times that cannot be trusted


class Purpose(StrEnum):
    """Says why a measurement was made."""

    SEARCH = "search"
    CONFIRM = "confirm"
    MODEL = "model"  # chosen inside of the model that it is a kernel of
    YARDSTICK = "yardstick"  # for a confirmation: what others are compared with; checked, not timed, and no record


DEVICE = "device"  # where a trial failed that is not to blame: what was before it had broken the device


@dataclass(frozen=True, slots=True)
class Failure:
    """Says where a trial failed (lower, compile, load, verify, time, DEVICE) and the message of it."""

    stage: str
    message: str


@dataclass(frozen=True, slots=True)
class Measurement:
    """The end of one trial. `times`: seconds for one run, one entry for each repeat; empty unless it was timed.

    `remark`: what the check of its outputs could not tell, for people; it is not recorded.
    """

    status: Status
    times: tuple[float, ...] = ()
    failure: Failure | None = None
    abandoned: bool = False  # ok, but dropped early because it was clearly slower than the best
    compile_seconds: float = 0.0  # of processor time
    check_seconds: float = 0.0
    measure_seconds: float = 0.0
    builder: str = ""
    device: str = ""
    remark: str = ""

    @property
    def ok(self) -> bool:
        """True when it ran, was right and was timed."""
        return self.status is Status.OK

    @property
    def seconds(self) -> float:
        """Median seconds of one run; infinity when it failed."""
        return median(self.times) if self.ok and self.times else float("inf")


Config = Mapping[str, int | str | bool]


@dataclass(frozen=True, slots=True)
class Job:
    """A trial to make: pure data, so that any process on any machine can do it.

    `sketch` is the sketch's text ("" for the unscheduled nest); `limit` is the best time known in seconds, infinity before
    there is any: what is clearly slower may be dropped after its first repeat (None: measure fully, as it is). `inputs`: those
    that a person gave (given.py); the others are drawn. `cold`: each run that is timed reads constants from memory.
    """

    number: int
    program: str
    sketch: str
    config: Config
    target: str
    threads: int
    purpose: Purpose = Purpose.SEARCH
    limit: float | None = None
    inputs: bytes = b""
    cold: bool = False

    @property
    def program_and_inputs(self) -> str:
        """Identifies the jobs whose times can be compared: those of the same program with the same inputs, all cold or none."""
        return f"{self.program}{digest(self.inputs)}{' cold' if self.cold else ''}"


class AtEnd:
    """Closes itself at the end of a `with`: the base of runners."""

    def close(self) -> None:
        """Ends all children; safe to call twice."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Beside(Protocol):
    """A child process of the caller that computes on the processors of the trials, such as the one in which a search thinks."""

    @property
    def descriptors(self) -> list[int]:
        """Returns what is readable when it has said something or has ended."""
        ...

    def pause(self) -> None:
        """Takes the processor away from it."""
        ...

    def resume(self) -> None:
        """Lets it go on."""
        ...


@runtime_checkable
class Tended(Protocol):
    """A runner that gets on with its trials only when it is called, and whose clock other work of this machine disturbs."""

    def tend(self, beside: Beside, done: Callable[[], bool]) -> None:
        """Moves the works along until `done`, which is asked whenever `beside` has said something; no clock is read then.

        From the first call on, `beside` is stopped while a clock is read, here and in all other calls.
        """
        ...


@runtime_checkable
class Continuing(Protocol):
    """A runner that tells all times of a task in the units of one moment, however its machine drifts."""

    def go_on_from(self, job: Job, seconds: float) -> None:
        """Follows trials of elsewhere, of a task that has none here yet: its times are to be in the units in which this job
        once took so long."""
        ...


class Runner(Protocol):
    """Builds and measures candidates somewhere. Never raises for what a candidate does."""

    @property
    def name(self) -> str:
        """One of "local", "ray", "replay"."""
        ...

    @property
    def capacity(self) -> int:
        """Says how many jobs should be in flight to keep it busy."""
        ...

    def submit(self, job: Job) -> None:
        """Takes a job; returns at once."""
        ...

    def collect(self, timeout: float | None = None) -> Sequence[tuple[int, Measurement]]:
        """Finished jobs as (number, measurement); waits up to `timeout` seconds for the first (None: as long as it takes).

        Empty when nothing is in flight or the time is over. Each job is returned exactly once.
        """
        ...

    def confirm(self, jobs: Sequence[Job]) -> Sequence[tuple[int, Measurement]]:
        """Measures the last few contenders again, interleaved: each round times every job once, in an order of its own.

        So a drift of the machine touches all alike. Before they are timed their outputs are checked more thoroughly than those
        of trials; who fails it is WRONG_RESULT. Blocks until done; answers in the order of `jobs`, whose purpose is CONFIRM
        (one may be a YARDSTICK) and whose `limit` is not looked at. Nothing else may be in flight.
        """
        ...

    def close(self) -> None:
        """Ends all children; safe to call twice."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
