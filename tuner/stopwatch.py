"""A clock that runs while a `with` block does."""

from __future__ import annotations

from time import perf_counter
from types import TracebackType


class Stopwatch:
    """`seconds`: the time spent inside of all `with` blocks on it so far."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._start = 0.0

    def __enter__(self) -> None:
        self._start = perf_counter()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.seconds += perf_counter() - self._start
