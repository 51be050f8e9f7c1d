"""What a fork leaves behind, and what is done about it: all handlers of forks that keep a child from waiting for ever.

Only the thread that forked goes on in the child. What others did then stays as it was in that moment:

* A lock that another thread held is never released there. Those made by `lock` are free in the child, so each guards what is
  whole between any two steps of Python.
* LLVM is whole only between its calls: a fork waits for the end of one that another thread has made. llvmlite makes one call at
  a time, under a lock of its own.
* libgomp keeps a team for each thread that opened a parallel region. A fork copies that memory, but not the threads: in the
  child, the thread that forked would wait for them for ever (https://gcc.gnu.org/bugzilla/show_bug.cgi?id=58378). Threads that
  start later in the child get teams as anywhere.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, TypeVar
from weakref import WeakSet

Result = TypeVar("Result")
_forked: list[int] = []  # the thread of this process that came out of a fork, and those before it
_locks: WeakSet[Any] = WeakSet()  # of `lock`
_compilers: list[Any] = []  # locks of llvmlite that are held for a fork that is under way


def lock() -> AbstractContextManager[object]:
    """A lock that a thread may take again, and that is free in a forked child unless the thread that forked holds it."""
    made: Any = threading.RLock()
    _locks.add(made)
    return made  # type: ignore[no-any-return]


def with_team(work: Callable[[], Result]) -> Result:
    """Returns what `work` returns: done in this thread, or, where it came out of a fork, in a new one."""
    if not _forked or threading.get_ident() != _forked[-1]:
        return work()
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def _wait_for_compiler() -> None:
    # looked up, as nothing here should import LLVM: it is loaded late, or by somebody else
    found = getattr(getattr(sys.modules.get("llvmlite.binding.ffi"), "lib", None), "_lock", None)
    if found is not None:
        found.__enter__()
        _compilers.append(found)


def _let_compiler_go() -> None:
    if _compilers:
        _compilers.pop().__exit__(None, None, None)


def _clean_child() -> None:
    _forked.append(threading.get_ident())
    for one in list(_locks):
        if not one._is_owned():
            one._at_fork_reinit()
    _let_compiler_go()


os.register_at_fork(before=_wait_for_compiler, after_in_parent=_let_compiler_go, after_in_child=_clean_child)
