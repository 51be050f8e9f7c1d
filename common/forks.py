"""Work for a team of OpenMP threads in a process that was forked.

libgomp keeps a team for each thread that opened a parallel region. A fork copies that memory, but not the threads: in the
child, the thread that forked would wait for them for ever (https://gcc.gnu.org/bugzilla/show_bug.cgi?id=58378). Threads that
start later in the child get teams as anywhere.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")
_forked: list[int] = []  # the thread of this process that came out of a fork, and those before it


def _note() -> None:
    _forked.append(threading.get_ident())


os.register_at_fork(after_in_child=_note)


def with_team(work: Callable[[], Result]) -> Result:
    """Returns what `work` returns: done in this thread, or, where it came out of a fork, in a new one."""
    if not _forked or threading.get_ident() != _forked[-1]:
        return work()
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()
