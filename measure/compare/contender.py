"""A contender in a process of its own: neither its threads nor its allocator nor its settings touch the others'.

The parent and the child exchange lines of JSON over the child's standard input and output:

    {"prepare": {...}}  ->  whatever the child tells of it, or {"missing": why there is no such contender}
    {"run": seconds}    ->  {"seconds": median seconds of one call, "calls": their number}
    end of input        ->  the child ends

`serving.py` is the child's side.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

REST = 0.05  # seconds between contenders: an idle OpenMP team spins for some milliseconds


class MissingContender(Exception):
    """A contender that cannot take part: not installed, or without a way to compute the operator."""


class ContenderProcess:
    """The parent's side of a process that serves one contender: a `method.Contender` that stays for many rows, so that its
    library is loaded once. `script`: what the process runs, which calls `serve`; `log`: a file for what it prints. Errors:
    RuntimeError when it fails."""

    def __init__(self, name: str, threads: int, *script: str, log: Path | None = None) -> None:
        self.name = name
        self.threads = threads
        with nullcontext() if log is None else log.open("wb") as errors:
            self._child = subprocess.Popen(
                [sys.executable, *script],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=_environment(threads),
            )
        self.process = self._child.pid

    def run(self, seconds: float) -> float:
        """Runs for about that long; the median seconds of one call. Rests after."""
        self.tell({"run": seconds})
        answer = self.answer()
        time.sleep(REST)
        return float(answer["seconds"])

    def close(self) -> None:
        """Ends the child."""
        assert self._child.stdin is not None and self._child.stdout is not None
        with suppress(BrokenPipeError):
            self._child.stdin.close()
        self._child.stdout.close()
        try:
            self._child.wait(timeout=10)
        except subprocess.TimeoutExpired:  # it is in the middle of something that nobody waits for
            self._child.kill()
            self._child.wait(timeout=10)

    def close_at_once(self) -> None:
        """Ends the child in the middle of what it does."""
        self._child.kill()

    def tell(self, request: dict[str, object]) -> None:
        """Sends a request."""
        assert self._child.stdin is not None
        with suppress(BrokenPipeError):  # it has ended: who waits for the answer is told
            self._child.stdin.write(json.dumps(request) + "\n")
            self._child.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """Waits for the answer to the request before. Errors: MissingContender."""
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        if not line:
            raise RuntimeError(f"the process of {self.name} ended with code {self._child.wait()}")
        answer: dict[str, Any] = json.loads(line)
        if "missing" in answer:
            raise MissingContender(answer["missing"])
        return answer


def _environment(threads: int) -> dict[str, str]:
    """The caller's, with the number of threads of every runtime, and an allocator that keeps its pages: large results would
    otherwise cost fresh page faults on each call, in libraries that allocate them."""
    counts = dict.fromkeys(
        ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "HL_NUM_THREADS"), str(threads)
    )
    keep_pages = {"MALLOC_MMAP_THRESHOLD_": 1 << 32, "MALLOC_TRIM_THRESHOLD_": 1 << 33, "MALLOC_TOP_PAD_": 1 << 26}
    return {**os.environ, **counts, **{name: str(value) for name, value in keep_pages.items()}}
