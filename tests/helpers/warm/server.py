"""A process that has imported what children of the product and the command line import, and forks one of them for each request.

It has no threads and no OpenMP, so that a fork is like a new interpreter that has done its imports. It ends with the
process that started it.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import os
import pickle
import runpy
import select
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import NoReturn

from helpers.small_drafts import draft_little

SIZE = 1 << 18  # of a message, at most
MODULES = (  # of handlers, and of commands
    "helpers.warm.client",
    "tilesmith.codegen.pipeline",
    "tilesmith.measure.calibrate.calibrate",
    "tilesmith.measure.local",
    "tilesmith.measure.timing.timer",
    "tilesmith.runtime.devices.cpu.device",
    "tilesmith.tuner.cli.main",
    "tilesmith.tuner.thinking.thinker",
    "tilesmith.tuner.tune",
)
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class ForkRequest:
    """Holds what a process has of the one that asks for it. Its standard input, output and error, and the connection of a child
    of the product, come beside it.

    Attributes:
        words: as behind `python`: a script, `-m` and a module, or `-c` and code, with arguments; none for a child.
        small: little is drafted (helpers/small_drafts.py).
    """

    words: Sequence[str]
    parent: int
    folder: str
    path: Sequence[str]
    environment: Mapping[str, str]
    processors: frozenset[int]
    small: bool


def serve(address: str) -> None:
    """Forks processes for those that connect to `address`, until its own standard input ends."""
    _prepare()
    waking, woken = socket.socketpair()
    waking.setblocking(False)
    woken.setblocking(False)
    signal.set_wakeup_fd(waking.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(address)
    listener.listen()
    print("ready", flush=True)
    callers: dict[int, socket.socket] = {}
    owners: dict[int, socket.socket] = {}
    poller = select.poll()
    for descriptor in (0, woken.fileno(), listener.fileno()):
        poller.register(descriptor, select.POLLIN)
    while True:
        for descriptor, _ in poller.poll():
            if descriptor == 0:
                return
            if descriptor == woken.fileno():
                woken.recv(SIZE)
                _bury(owners)
            elif descriptor == listener.fileno():
                caller = listener.accept()[0]
                callers[caller.fileno()] = caller
                poller.register(caller, select.POLLIN)
            elif not _answer(address, callers[descriptor], owners):
                poller.unregister(descriptor)
                callers.pop(descriptor).close()


def _prepare() -> None:
    from tilesmith.measure.process.builder import Builder

    for name in MODULES:
        import_module(name)
    Builder("host")  # starts LLVM
    gc.collect()
    gc.freeze()


def _answer(address: str, caller: socket.socket, owners: dict[int, socket.socket]) -> bool:
    """Forks what is asked for; False where the caller is gone."""
    try:
        message, descriptors, _, _ = socket.recv_fds(caller, SIZE, 4)
    except ConnectionResetError:
        return False
    if not message:
        return False
    pid = os.fork()
    if pid == 0:
        _live(address, pickle.loads(message), descriptors)
    for descriptor in descriptors:
        os.close(descriptor)
    owners[pid] = caller
    _tell(caller, ("started", pid, 0))
    return True


def _bury(owners: dict[int, socket.socket]) -> None:
    while owners:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        _tell(owners.pop(pid), ("ended", pid, os.waitstatus_to_exitcode(status)))


def _tell(caller: socket.socket, message: tuple[str, int, int]) -> None:
    with contextlib.suppress(OSError):  # it has ended
        caller.send(pickle.dumps(message))


def _live(address: str, request: ForkRequest, descriptors: Sequence[int]) -> NoReturn:
    """The whole life of a process."""
    code = 1
    try:
        connection = _settle(request, descriptors)
        if connection is not None:
            import_module("tilesmith.measure.process.worker").main(connection)
        else:
            client = import_module("helpers.warm.client")
            client.join(address)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            _run(request.words)
            threading._shutdown()  # type: ignore[attr-defined]  # as an interpreter ends
            atexit._run_exitfuncs()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def _settle(request: ForkRequest, descriptors: Sequence[int]) -> int | None:
    """Makes of the fork what was asked for; the connection of a child."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setpgid(0, 0)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    for place, descriptor in enumerate(descriptors[:3]):
        os.dup2(descriptor, place)
    kept = descriptors[3] if len(descriptors) > 3 else 2
    os.closerange(3, kept)
    os.closerange(kept + 1, 1 << 10)
    os.chdir(request.folder)
    os.sched_setaffinity(0, request.processors)
    sys.path[:] = request.path
    os.environ.clear()
    os.environ.update(request.environment)
    os.getppid = lambda: request.parent
    if request.small:
        draft_little()
    gc.unfreeze()
    # Those of the server know what was there: a file can be sought in, a pipe cannot.
    sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, errors="backslashreplace", closefd=False)
    return kept if kept > 2 else None


def _run(words: Sequence[str]) -> None:
    """As `python` does with these words behind it."""
    match words:
        case ["-m", name, *arguments]:
            sys.argv = [name, *arguments]
            runpy.run_module(name, run_name="__main__", alter_sys=True)
        case ["-c", code, *arguments]:
            sys.argv = ["-c", *arguments]
            exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
        case [script, *arguments]:
            sys.argv = [script, *arguments]
            sys.path.insert(0, os.path.dirname(script))
            runpy.run_path(script, run_name="__main__")
