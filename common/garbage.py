"""Python's look for garbage in cycles, made rare while a program makes many objects that stay.

A collection looks at all objects that survived earlier ones: with XGBoost imported 300,000, half a second of a search of 11.
"""

from __future__ import annotations

import gc
import threading
from types import TracebackType

RARELY = 100_000  # objects more than before until the next look; Python's own number is 700


class CollectedRarely:
    """A context, entered by any number of threads; when the last of them leaves, all is as it was before the first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._before = gc.get_threshold()

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._before = gc.get_threshold()
                youngest, *older = self._before
                gc.set_threshold(max(youngest, RARELY) if youngest else 0, *older)  # 0: never, as somebody wants it

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                gc.set_threshold(*self._before)


COLLECTED_RARELY = CollectedRarely()
