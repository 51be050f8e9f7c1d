"""A setting of the whole process that holds while anybody wants it."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from types import TracebackType


class SharedContext(ABC):
    """A context, entered by any number of threads; when the last of them leaves, all is as it was before the first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # held while `_begin` and `_end` run
        self._inside = 0

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._begin()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._end()

    @abstractmethod
    def _begin(self) -> None:
        """The first one enters."""

    @abstractmethod
    def _end(self) -> None:
        """The last one leaves: all is to be as it was."""
