"""The parent's end of a child process: start it, talk to it without waiting, stop and resume it, learn how it ended.

Children are new interpreters (never forks): they start with nothing of the parent but its module path, they do not import
the parent's main module, and an OpenMP team or a compiler lock of the parent cannot come along.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...common.interpreters import interpreter
from ..result import Status
from .frames import Inbox, send
from .oom import memory_kills
from .worker import Setup

_KEPT = 8192  # bytes of a child's last words
_MEMORY_WORDS = ("out of memory", "bad_alloc", "MemoryError", "Cannot allocate memory")


@dataclass(frozen=True, slots=True)
class Ending:
    """Says how a child ended: the status of the candidate it was busy with, and a message that says why."""

    status: Status
    message: str
    shot: bool = False  # by somebody else, as far as can be known: that is not the candidate's fault


class Child:
    """A process that runs `worker.main`.

    Raises nothing after construction for what the child does: a dead child has `ended` set, and `ending()` says why.
    """

    def __init__(self, setup: Setup, environment: Mapping[str, str]) -> None:
        self._kills_before = memory_kills()
        ours, theirs = socket.socketpair()
        output, their_output = os.pipe()
        os.set_blocking(output, False)
        self._process = new_process(theirs.fileno(), their_output, {**os.environ, **environment})
        theirs.close()
        os.close(their_output)
        self._connection = ours
        self._output = output
        self._inbox = Inbox(ours)
        self._words = bytearray()
        self._paused = False
        self._killed_for: Ending | None = None
        self.send(setup)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def descriptors(self) -> list[int]:
        """Returns what to wait for: readable when it has said something or has ended."""
        return [fd for fd in (self._connection.fileno(), self._output) if fd >= 0]

    @property
    def ended(self) -> bool:
        """True once the child is gone or cannot be understood any more, and all it had said has been read."""
        return self._inbox.ended

    def send(self, message: object) -> None:
        """Sends a message; a dead child is noticed when it is read from."""
        with contextlib.suppress(OSError):
            send(self._connection, message)

    def messages(self) -> list[Any]:
        """Returns what it has said since the last call; never waits."""
        self._listen()
        found = self._inbox.messages()
        if self._inbox.nonsense:
            self.kill(Ending(Status.CRASH, "what it sent cannot be read: its memory was overwritten"))
        return found

    def pause(self) -> None:
        """Takes the processor away from it."""
        if not self._paused:
            self._paused = True
            self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Lets it go on."""
        if self._paused:
            self._paused = False
            self._signal(signal.SIGCONT)

    def kill(self, ending: Ending | None = None) -> None:
        """Ends it now; `ending` is what `ending()` will say."""
        self._killed_for = self._killed_for or ending
        self._signal(signal.SIGKILL)

    def ending(self) -> Ending:
        """Says how it ended; waits for the end, which is sure to come."""
        try:
            code = self._process.wait(timeout=2.0)
        except subprocess.TimeoutExpired:  # it closed its connection and lives on
            self._signal(signal.SIGKILL)
            code = self._process.wait()
        self._listen()
        return self._killed_for or _explain(code, self.last_words, starved=memory_kills() > self._kills_before)

    @property
    def last_words(self) -> str:
        """The end of what it wrote to its standard output and error."""
        return self._words.decode(errors="replace").strip()

    def close(self) -> None:
        """Ends it and gives back what it held."""
        self._signal(signal.SIGKILL)
        self._process.wait()
        self._connection.close()
        if self._output >= 0:
            os.close(self._output)
            self._output = -1
        if self._process.stdin is not None:
            self._process.stdin.close()

    def _signal(self, number: int) -> None:
        if self._process.poll() is None:
            self._process.send_signal(number)

    def _listen(self) -> None:
        """Drains its output, so that it never waits for us, and keeps the last of it."""
        while self._output >= 0:
            try:
                part = os.read(self._output, 1 << 16)
            except BlockingIOError:
                break
            if not part:
                os.close(self._output)
                self._output = -1
            self._words += part
            del self._words[:-_KEPT]


def new_process(connection: int, output: int, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Starts the interpreter of a child that inherits these descriptors, and ends when its standard input does."""
    return subprocess.Popen(
        interpreter(f"{__package__}.worker", f"main({connection})"),
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=output,
        pass_fds=(connection,),
        env=environment,
        process_group=0,  # so that ctrl-C at the terminal is the parent's alone
    )


def child_setup(handler: str, options: Mapping[str, Any], memory: int = 0, nice: int = 0) -> Setup:
    """A setup for a child of this process and thread."""
    main_thread = threading.current_thread() is threading.main_thread()
    return Setup(handler, options, memory, nice, parent=os.getpid(), die_with_parent=main_thread)


def _explain(code: int, words: str, *, starved: bool) -> Ending:
    tail = f": {words[-1000:]}" if words else ""
    if any(word in words for word in _MEMORY_WORDS):
        return Ending(Status.OUT_OF_MEMORY, f"ran out of memory{tail}")
    if code == -signal.SIGKILL and starved:
        return Ending(Status.OUT_OF_MEMORY, f"killed by the system for want of memory{tail}")
    if code == -signal.SIGKILL:
        return Ending(Status.CRASH, f"{_signal_name(signal.SIGKILL)}: somebody killed it{tail}", shot=True)
    if code < 0:
        return Ending(Status.CRASH, f"{_signal_name(-code)}{tail}")
    return Ending(Status.CRASH, f"the process ended with code {code}{tail}")


def _signal_name(number: int) -> str:
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"
