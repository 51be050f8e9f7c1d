"""What a process has once, however many threads ask for it first at the same time."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from .forks import lock

Value = TypeVar("Value")


def once(make: Callable[[], Value]) -> Callable[[], Value]:
    """Makes `make` run once in a process; all callers get what it returned. What it raises is raised, and the next call tries
    again.

    functools' caches let threads that come at once make one each, and keep one of them: code or a linker that the others still
    use would be freed.
    """
    guard = lock()
    made: list[Value] = []

    @wraps(make)
    def kept() -> Value:
        if not made:
            with guard:
                if not made:
                    made.append(make())
        return made[0]

    return kept
