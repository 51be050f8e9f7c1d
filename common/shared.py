"""A setting of the whole process that holds while anybody wants it."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from types import TracebackType

from .forks import lock


class SharedContext(ABC):
    """A context, entered by any number of threads; when the last of them leaves, all is as it was before the first.

    Those that a fork left behind have left it, as far as the child is concerned.
    """

    def __init__(self) -> None:
        self._lock = lock()  # held while `_begin` and `_end` run
        self._inside: list[int] = []  # threads, once for each time that they have entered
        os.register_at_fork(after_in_child=self._stay_alone)

    def __enter__(self) -> None:
        with self._lock:
            self._inside.append(threading.get_ident())
            if len(self._inside) == 1:
                self._begin()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._inside.remove(threading.get_ident())
            if not self._inside:
                self._end()

    def _stay_alone(self) -> None:
        here = threading.get_ident()
        before, self._inside = self._inside, [one for one in self._inside if one == here]
        if before and not self._inside:
            self._end()

    @abstractmethod
    def _begin(self) -> None:
        """The first one enters."""

    @abstractmethod
    def _end(self) -> None:
        """The last one leaves: all is to be as it was."""
