"""Kernels by name in the traces of PyTorch's profiler, where it is on. Torch is not imported: who profiles has done so."""

from __future__ import annotations

import sys
from typing import Any


def is_profiling() -> bool:
    """Says whether PyTorch's profiler is on in this thread; about 0.1 us."""
    torch = sys.modules.get("torch")
    return torch is not None and bool(torch.autograd._profiler_enabled())


class TorchRanges:
    """A `RangeEmitter`; each thread has ranges of its own."""

    def __init__(self) -> None:
        import threading

        self._record: Any = sys.modules["torch"].profiler.record_function
        self._open = threading.local()

    def push(self, name: str) -> None:
        """See RangeEmitter."""
        entered = self._record(name)
        entered.__enter__()
        self._stack().append(entered)

    def pop(self) -> None:
        """See RangeEmitter."""
        self._stack().pop().__exit__(None, None, None)

    def _stack(self) -> list[Any]:
        if not hasattr(self._open, "stack"):
            self._open.stack = []
        stack: list[Any] = self._open.stack
        return stack
