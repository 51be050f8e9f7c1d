"""What a timer is asked, as plain data. A runner makes these, on this machine or on another."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReferenceKernel:
    """A pickled artifact, and the seconds that an earlier timer found it to take."""

    artifact: bytes
    seconds: float


@dataclass(frozen=True, slots=True)
class TimeRequest:
    """One trial: check it, time it. `artifact` is pickled; `limit` is the best time known, in seconds.

    `reference`: in whose units a timer tells times that knows no kernel of the program yet. It is item 1 of what is done.
    `inputs`: the file of inputs that a person gave (given.py), "" for none.
    `cold`: each run that is timed reads constants from memory.
    `yardstick`: a kernel that the contenders of a confirmation are compared with. It is checked before them, and not timed.
    """

    program: str
    artifact: bytes
    threads: int
    limit: float | None = None
    reference: ReferenceKernel | None = None
    yardstick: bool = False
    inputs: str = ""
    cold: bool = False

    @property
    def data(self) -> str:
        """Names those that are checked on the same data: the program, and the inputs that were given for it."""
        return f"{self.program}{self.inputs}"

    @property
    def subject(self) -> str:
        """Names those whose times can be compared."""
        return f"{self.data}{' cold' if self.cold else ''}"


@dataclass(frozen=True, slots=True)
class ConfirmRequest:
    """The last few contenders, all of one program: each is checked thoroughly (verify.py), then all are timed in turns."""

    items: tuple[TimeRequest, ...]


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """Seconds after which a child is ended, by stage, and bytes that it may use.

    Attributes:
        start: a child imports and warms up.
        compile: a builder builds one candidate, without the time it was paused.
        load: a timer links an artifact.
        prepare: a timer draws inputs and computes the true outputs of a new program, all of them before a confirmation.
        verify: the first run of a kernel and the check of what it gave; with a best time known it is much less.
        time: all timed repeats of a kernel.
        build_memory, run_memory: bytes of private memory of a builder and of a timer; 0: no limit.
    """

    start: float = 60.0
    compile: float = 30.0
    load: float = 20.0
    prepare: float = 300.0
    verify: float = 30.0
    time: float = 60.0
    build_memory: int = 4 << 30
    run_memory: int = 0

    def of_build(self) -> Mapping[str, float]:
        """Stage -> seconds, for a builder."""
        return {"compile": self.compile}

    def of_run(self, best: float | None = None, items: int = 1) -> Mapping[str, float]:
        """Stage -> seconds, for a timer; a kernel that runs 100 times longer than the best need not be waited for."""
        verify = self.verify if best is None else min(self.verify, 20.0 + 100 * best)
        return {"load": self.load, "prepare": self.prepare, "verify": verify, "time": self.time * items}


def default_limits() -> TimeLimits:
    """The usual ones; a timer may use three quarters of the machine's memory."""
    return TimeLimits(run_memory=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * 3 // 4)
