"""Python's look for garbage in cycles, made rare while a program makes many objects that stay.

A collection looks at all objects that survived earlier ones: with XGBoost imported 300,000, half a second of a search of 11.
"""

from __future__ import annotations

import gc

from .shared import SharedContext

RARELY = 100_000  # objects more than before until the next look; Python's own number is 700


class CollectedRarely(SharedContext):
    """A context in which Python collects garbage rarely."""

    def __init__(self) -> None:
        super().__init__()
        self._before = gc.get_threshold()

    def _begin(self) -> None:
        self._before = gc.get_threshold()
        youngest, *older = self._before
        gc.set_threshold(max(youngest, RARELY) if youngest else 0, *older)  # 0: never, as somebody wants it

    def _end(self) -> None:
        gc.set_threshold(*self._before)


COLLECTED_RARELY = CollectedRarely()
