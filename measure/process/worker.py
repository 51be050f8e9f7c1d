"""The life of a child process: set up, then answer one request after the other until the parent is gone.

What a child does is its *handler*: a class named by `module:Name`, made once with the options of the `Setup`. It is given
each request and a `Link` back to the parent, and returns the answer. Its constructor does what is slow (imports, a first
compile), before the child says that it is ready.
"""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol

from ...common.garbage import RARELY
from .frames import receive, send

_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15


@dataclass(frozen=True, slots=True)
class Setup:
    """Holds what a child is told first.

    Attributes:
        handler: "module:Class".
        options: keyword arguments of that class.
        memory: bytes of writable private memory (RLIMIT_DATA) above which allocations fail; 0: no limit.
        nice: added to the niceness, so that a builder gives way to a timer.
        parent: process id of the parent.
        die_with_parent: ask the kernel to kill this child when the parent's thread ends (only if that is its main thread).
    """

    handler: str
    options: Mapping[str, Any] = field(default_factory=dict)
    memory: int = 0
    nice: int = 0
    parent: int = 0
    die_with_parent: bool = False


@dataclass(frozen=True, slots=True)
class Ready:
    """Tells the parent that the child waits for requests."""


@dataclass(frozen=True, slots=True)
class StageBegun:
    """The child enters a part of its work: the deadline of that part begins, and a crash is said to be there."""

    name: str
    item: int = 0  # which of several candidates, for a request that holds several


@dataclass(frozen=True, slots=True)
class QuietPlease:
    """The child waits for `Go`: it is about to read the clock."""


@dataclass(frozen=True, slots=True)
class Go:
    """The parent has stopped what would disturb the clock."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Tells the parent how a request ended."""

    value: Any


class Link:
    """The way back to the parent while a request is being worked on."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def stage(self, name: str, item: int = 0) -> None:
        """Tells the parent which part of the work begins."""
        send(self._connection, StageBegun(name, item))

    def quiet(self) -> None:
        """Waits until the machine is quiet."""
        send(self._connection, QuietPlease())
        reply = receive(self._connection)
        if not isinstance(reply, Go):
            raise RuntimeError(f"expected Go, got {reply!r}")

    def tell(self, message: object) -> None:
        """Says something to the parent; for handlers that hold a conversation instead of answering once."""
        send(self._connection, message)

    def hear(self) -> Any:
        """Waits for what the parent says next. Raises EOFError when it is gone."""
        return receive(self._connection)


class Handler(Protocol):
    """Says what a kind of child does."""

    def handle(self, request: Any, link: Link) -> Any:
        """The answer to a request. An exception ends the child."""
        ...


def main(descriptor: int) -> None:
    """The whole life of a child; `descriptor` is the inherited socket to the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl-C is the parent's business
    threading.Thread(target=_end_with_parent, daemon=True).start()
    connection = socket.socket(fileno=descriptor)
    try:
        setup: Setup = receive(connection)
        _confine(setup)
        _be_named(setup.handler.rpartition(":")[2])
        handler = _load(setup.handler)(**setup.options)
        _limit_memory(setup.memory)
        gc.freeze()
        gc.set_threshold(RARELY, *gc.get_threshold()[1:])
        send(connection, Ready())
        link = Link(connection)
        while True:
            send(connection, Answer(handler.handle(receive(connection), link)))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass  # the parent has closed the connection: that is how it says goodbye
    sys.stderr.flush()
    os._exit(0)  # not through destructors: a kernel may have left anything behind


def _end_with_parent() -> None:
    """Ends this process when the parent does, whatever the main thread is in: nobody ever writes to this pipe."""
    os.read(sys.stdin.fileno(), 1)
    os._exit(0)


def _confine(setup: Setup) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if setup.nice:
        os.nice(setup.nice)
    if setup.die_with_parent and sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != setup.parent:
            os._exit(0)  # it died before we asked


def _be_named(name: str) -> None:
    """Sets what tools that list processes call this one: Builder, Timer, ..."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)


def _limit_memory(limit: int) -> None:
    if limit:
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        soft = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _load(name: str) -> Any:
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)
