"""Processes that start warm: children of the product, and the command line in a process of its own. A server that has imported
what they import forks them (server.py).

A new interpreter takes half a second of processor time until it is a builder, and tests start hundreds.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from helpers.small_drafts import drafts_little
from helpers.warm.server import SIZE, ForkRequest
from tilesmith.common.interpreters import interpreter
from tilesmith.measure.process import child

NEW_PROCESS = child.new_process
_ENVIRONMENT = dict(os.environ)  # before any test has changed it
_address = ""  # of the server that this process was forked by
_starting = threading.Lock()


def join(address: str = "") -> None:
    """From here on children of the product start warm in this process."""
    global _address  # noqa: PLW0603
    _address = address
    child.new_process = WarmChild  # type: ignore[assignment]


class WarmServer:
    """The connection to a server: that which forked this process, or one that ends with it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._codes: dict[int, int] = {}
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.connect(_address or self._started())

    def _started(self) -> str:
        folder = tempfile.mkdtemp(prefix="tilesmith-warm-")
        address = str(Path(folder) / "warm")
        process = subprocess.Popen(
            interpreter("helpers.warm.server", f"serve({address!r})"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**_ENVIRONMENT, "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
            process_group=0,
        )
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        atexit.register(process.kill)
        self._process = process  # whose standard input shall not end
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n", "the server of warm processes does not start"
        return address

    def start(
        self, words: Sequence[str], descriptors: Sequence[int], environment: Mapping[str, str], folder: str
    ) -> int:
        """Returns the process id of a new process with these descriptors."""
        processors, path = frozenset(os.sched_getaffinity(0)), tuple(sys.path)
        request = ForkRequest(tuple(words), os.getpid(), folder, path, dict(environment), processors, drafts_little())
        with self._lock:
            socket.send_fds(self._socket, [pickle.dumps(request)], descriptors)
            while True:
                word, pid, code = pickle.loads(self._socket.recv(SIZE))
                if word == "started":
                    return int(pid)
                self._codes[pid] = code

    def code(self, pid: int, seconds: float) -> int | None:
        """How a process ended; None where it has not within these seconds."""
        end = time.monotonic() + seconds
        while True:
            with self._lock:
                while select.select([self._socket], [], [], 0)[0]:
                    _, ended, code = pickle.loads(self._socket.recv(SIZE))
                    self._codes[ended] = code
                if pid in self._codes:
                    return self._codes.pop(pid)
            left = end - time.monotonic()
            if left <= 0:
                return None
            select.select([self._socket], [], [], min(left, 0.05))


def _server(owner: int) -> WarmServer:
    """One for each process: a fork of this one needs its own. Threads that ask at the same time get the same one."""
    with _starting:
        return _server_of(owner)


@cache
def _server_of(owner: int) -> WarmServer:
    return WarmServer()


class WarmProcess:
    """As much of a `subprocess.Popen` as is asked for."""

    returncode: int | None = None

    def __init__(
        self, words: Sequence[str], descriptors: Sequence[int], environment: Mapping[str, str], folder: str
    ) -> None:
        self._server = _server(os.getpid())
        self.pid = self._server.start(words, descriptors, environment, folder)

    def poll(self) -> int | None:
        """See `Popen.poll`."""
        if self.returncode is None:
            self.returncode = self._server.code(self.pid, 0.0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """See `Popen.wait`."""
        if self.returncode is None:
            self.returncode = self._server.code(self.pid, 1e9 if timeout is None else timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired("a warm process", timeout or 0.0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """See `Popen.send_signal`."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it has ended, and its server has not said so yet
                os.kill(self.pid, signal.Signals(number))

    def kill(self) -> None:
        """See `Popen.kill`."""
        self.send_signal(signal.SIGKILL)


class WarmChild(WarmProcess):
    """A child of the product: what `child.new_process` gives."""

    def __init__(self, connection: int, output: int, environment: Mapping[str, str]) -> None:
        given, writing = os.pipe()
        self.stdin = open(writing, "wb", buffering=0)  # noqa: SIM115
        try:
            super().__init__((), (given, output, output, connection), environment, os.getcwd())
        finally:
            os.close(given)


class WarmPython(WarmProcess):
    """`python WORDS` with its output in pipes."""

    def __init__(
        self, *words: object, env: Mapping[str, str] | None = None, cwd: str | os.PathLike[str] | None = None
    ) -> None:
        nothing, out, err = os.open(os.devnull, os.O_RDONLY), os.pipe(), os.pipe()
        self._pipes = {out[0]: bytearray(), err[0]: bytearray()}
        environment = os.environ if env is None else env
        try:
            super().__init__(
                tuple(map(str, words)), (nothing, out[1], err[1]), environment, os.fspath(cwd or os.getcwd())
            )
        finally:
            for descriptor in (nothing, out[1], err[1]):
                os.close(descriptor)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """See `Popen.communicate`."""
        end, waiting = time.monotonic() + (1e9 if timeout is None else timeout), set(self._pipes)
        while waiting:
            ready = select.select(list(waiting), [], [], max(0.0, end - time.monotonic()))[0]
            if not ready:
                raise subprocess.TimeoutExpired("a warm process", timeout or 0.0)
            for descriptor in ready:
                part = os.read(descriptor, 1 << 16)
                self._pipes[descriptor] += part
                if not part:
                    waiting.remove(descriptor)
                    os.close(descriptor)
        self.wait(max(0.0, end - time.monotonic()))
        out, err = (held.decode() for held in self._pipes.values())
        return out, err


def run_python(
    *words: object,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    timeout: float | None = None,
) -> subprocess.CompletedProcess[str]:
    """`subprocess.run` of this Python, of its text."""
    process = WarmPython(*words, env=env, cwd=cwd)
    try:
        out, err = process.communicate(timeout)
    finally:
        process.kill()
    assert process.returncode is not None
    return subprocess.CompletedProcess(tuple(words), process.returncode, out, err)
