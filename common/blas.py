"""Linear algebra in the calling thread alone, while others need the cores.

After a product the other threads of OpenBLAS spin for 0.1 s before they sleep. While a search thinks, kernels are built and
timed on the same cores: of 384 trials of a layer normalization of 0.25 ms 22 took 2 to 8 ms, and were dropped.
"""

from __future__ import annotations

from typing import Any

from .shared import SharedContext


class OneThread(SharedContext):
    """BLAS libraries use the calling thread alone inside."""

    def __init__(self) -> None:
        super().__init__()
        self._limits: list[Any] = []

    def _begin(self) -> None:
        self._limit()

    def _end(self) -> None:
        while self._limits:  # the last first: it found what the others had set
            self._limits.pop().restore_original_limits()

    def loaded(self) -> None:
        """Limits the threads of a BLAS that came with a library which was loaded just now."""
        with self._lock:
            if self._inside:
                self._limit()

    def _limit(self) -> None:
        try:
            from threadpoolctl import threadpool_limits
        except ModuleNotFoundError:  # a checkout, with little more than NumPy: a search without a model has no products
            return
        self._limits.append(threadpool_limits(1, user_api="blas"))


ONE_THREAD = OneThread()
