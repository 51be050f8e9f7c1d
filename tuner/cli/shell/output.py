"""Where the command line's words go: to a terminal, a file or a pipe, which may be closed or full."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_CLOSED = 141  # exit code of what a closed pipe ends, as shells have it
_GONE = (errno.EPIPE, errno.ENOSPC, errno.EIO, errno.EBADF)


@contextmanager
def guarded_output() -> Iterator[None]:
    """Ends the process without a traceback where its output cannot be written: quietly for a closed pipe, with a word else."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # it was closed before we began
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        reconfigure = getattr(getattr(sys, name), "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")  # an encoding without what we print is no reason to stop
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except OSError as error:
        if error.errno not in _GONE:
            raise
        _to_nowhere()
        if error.errno != errno.EPIPE:
            with suppress(OSError):
                print(f"error: the output cannot be written: {error.strerror}", file=sys.stderr, flush=True)
        sys.exit(_CLOSED if error.errno == errno.EPIPE else 1)


def _to_nowhere() -> None:
    """Sends what is still to be written, and what Python writes at its end, where it disturbs nobody."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
