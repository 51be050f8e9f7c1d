"""Exceptions that come from outside of the code they are met in: a signal's handler may raise one at any line of Python.

Where whatever fails costs a candidate, a record or a file alone, these are not meant: who set an alarm, or pressed a key, wants
the whole to end.

    try:
        found = attempt()
    except Exception as error:
        let_through(error)
        found = None
"""

from __future__ import annotations

from collections.abc import Iterator
from inspect import CO_OPTIMIZED
from types import FrameType, TracebackType


def let_through(error: BaseException) -> None:
    """Raises what a signal's handler raised, be it the error itself or what it was made from. Of others it does nothing."""
    outside = from_outside(error)
    if outside is not None:
        raise outside


def from_outside(error: BaseException) -> BaseException | None:
    """The exception, of an error and its causes, that no code of ours is to blame for; None without any.

    Nothing here waits with a limit that is an exception, so each TimeoutError is somebody else's.
    """
    for found in _causes(error):
        if not isinstance(found, Exception) or isinstance(found, TimeoutError):
            return found
        if any(_interrupts(frame) for frame in _frames(found.__traceback__)):
            return found
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yields an error and what it was raised from; not what was handled meanwhile: that may be done with."""
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        yield found
        found = found.__cause__


def _frames(trace: TracebackType | None) -> Iterator[FrameType]:
    while trace is not None:
        yield trace.tb_frame
        trace = trace.tb_next


def _interrupts(frame: FrameType) -> bool:
    """Tells whether a call was made by a signal: Python hands a handler the frame that it stands in."""
    caller, values = frame.f_back, frame.f_locals
    found = caller is not None and any(
        value is caller or (isinstance(value, tuple) and len(value) == 2 and value[1] is caller)
        for value in values.values()
    )
    if (
        isinstance(values, dict) and frame.f_code.co_flags & CO_OPTIMIZED
    ):  # a copy that the frame would keep, and with it
        values.clear()  # the error whose frame this is, until the collector finds both
    return found
