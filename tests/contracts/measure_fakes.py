"""Children that do what a job's config says, good or bad: the process machinery is tested without a compiler or a clock."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tilesmith.measure.process.builder import Built
from tilesmith.measure.process.worker import Link
from tilesmith.measure.requests import ConfirmRequest, TimeRequest
from tilesmith.measure.result import Failure, Job, Measurement, Purpose, Status

BUILDER = f"{__name__}:FakeBuilder"
TIMER = f"{__name__}:FakeTimer"


def fake_job(
    number: int, purpose: Purpose = Purpose.SEARCH, threads: int = 1, limit: float | None = None, **config: Any
) -> Job:
    """A job for the fakes: build=, run= and later= (as a reference) name a misbehaviour, seconds= is what the timer reports."""
    return Job(number, "program", "", config, "fake", threads, purpose, limit)


def _segfault() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def _abort() -> None:
    print("LLVM ERROR: Cannot select: t7: v16f32 = nonsense", file=sys.stderr, flush=True)
    os.abort()


def _hang() -> None:
    while True:
        time.sleep(3600)


def _spin() -> None:
    while True:
        pass


def _eat() -> None:
    hoard = []
    while True:
        hoard.append(bytearray(1 << 30))


def _nap() -> None:
    time.sleep(0.8)


def _killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _exit() -> None:
    os._exit(3)


def _raise() -> None:
    raise RuntimeError("the handler itself is broken")


def _garbage() -> None:
    for descriptor in range(3, 64):  # one of them is the socket to the parent
        try:
            os.write(descriptor, b"\x05\0\0\0\0\0\0\0nonsense" * 8)
        except OSError:
            continue
    time.sleep(3600)


def _half() -> None:
    for descriptor in range(3, 64):
        try:
            os.write(descriptor, b"\xff\xff\0\0\0\0\0\0half a frame")
        except OSError:
            continue
    os._exit(0)


def _talk() -> None:
    for _ in range(20_000):
        print("so much to say " * 8)
    sys.stdout.flush()


BEHAVIOUR: dict[str, Callable[[], None]] = {
    "ok": lambda: None, "segfault": _segfault, "abort": _abort, "hang": _hang, "spin": _spin, "eat": _eat,
    "nap": _nap, "killed": _killed, "exit": _exit, "raise": _raise, "garbage": _garbage, "half": _half, "talk": _talk,
}  # fmt: skip


def _note(config: Mapping[str, Any], word: str) -> None:
    """Leaves a line in the file named by the config, for tests that look at who ran when."""
    if "log" in config:
        with Path(str(config["log"])).open("a") as file:
            file.write(f"{word} {os.getpid()} {time.monotonic()}\n")


class FakeBuilder:
    """Builds by pickling the config; `work=` seconds of processor time are burnt first."""

    def __init__(self, target: str | None = None) -> None:
        if target == "broken":
            sys.exit("this machine has no compiler")

    def handle(self, request: Job, link: Link) -> Built | Measurement:
        link.stage("compile")
        _note(request.config, "build")
        end = time.process_time() + float(request.config.get("work", 0.0))
        while time.process_time() < end:
            _note(request.config, "tick")
            burnt = time.process_time() + 0.001  # a sleep burns nothing
            while time.process_time() < burnt:
                pass
        build = str(request.config.get("build", "ok"))
        if build == "invalid":
            return Measurement(Status.INVALID, failure=Failure("lower", "a require does not hold"))
        BEHAVIOUR[build]()
        return Built(pickle.dumps(dict(request.config)), "fake 1", 0.25)


class FakeTimer:
    """Reports the time that the config names."""

    def __init__(self, ceilings: object = None, device: str = "cpu", alone: bool = False, seed: int = 0) -> None:
        self._known: set[str] = set()  # programs, as one that has a control

    def handle(self, request: TimeRequest | ConfirmRequest, link: Link) -> Measurement | tuple[Measurement, ...]:
        if isinstance(request, TimeRequest):
            return self._one(request, link, 0)
        return tuple(self._one(item, link, place) for place, item in enumerate(request.items))

    def _one(self, request: TimeRequest, link: Link, item: int) -> Measurement:
        config = pickle.loads(request.artifact)
        link.stage("load", item)
        link.stage("verify", item)
        BEHAVIOUR[config.get("run", "ok")]()
        reference = request.reference if request.program not in self._known else None
        if reference:
            link.stage("load", 1)
            BEHAVIOUR[pickle.loads(reference.artifact).get("later", "ok")]()
        if config.get("run") == "wrong":
            return Measurement(Status.WRONG_RESULT, failure=Failure("verify", "C[0]: expected 1, found 2"))
        link.quiet()
        if reference:
            link.stage("time", 1)
            link.stage("time", 0)
        self._known.add(request.program)
        _note(config, "quiet")
        time.sleep(float(config.get("wait", 0.0)))
        BEHAVIOUR[config.get("time", "ok")]()
        _note(config, "loud")
        if "unstable_until" in config and not (mark := Path(config["unstable_until"])).exists():
            if mark.parent.exists():
                mark.touch()
            return Measurement(Status.UNSTABLE, failure=Failure("time", "the machine is busy"))
        seconds = float(config.get("seconds", 1e-3))
        known = request.reference and request.reference.seconds
        about = f"fake pid={os.getpid()} limit={request.limit} reference={known}"
        return Measurement(Status.OK, (seconds,) * 3, device=about)


BEHAVIOUR["wrong"] = BEHAVIOUR["ok"]
