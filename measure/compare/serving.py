"""The child's side of a contender: what it is asked over its standard input, it does and answers (contender.py)."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import numpy as np

from .contender import MissingContender

PlainCall = Callable[[], Any]
Timed = Callable[[float], tuple[float, int]]  # runs for some seconds -> (median seconds of one call, number of calls)
# what runs it, the answer to the parent, and the memory that it works on, which some libraries do not hold
ReadyCall = tuple[Timed, dict[str, object], object]
_SHORTEST = 50e-6  # seconds; shorter calls are timed several at a time


def aligned(shape: Sequence[int], dtype: np.dtype, fill: np.ndarray | None = None) -> np.ndarray:
    """An array whose data begins at a cache line and whose pages have been touched."""
    count = int(np.prod(shape, dtype=np.int64))
    raw = np.empty(count * dtype.itemsize + 64, np.uint8)
    raw[:] = 0
    start = -raw.ctypes.data % 64
    array = raw[start : start + count * dtype.itemsize].view(dtype).reshape(tuple(shape))
    if fill is not None:
        array[...] = fill
    return array


def time_calls(call: PlainCall, seconds: float) -> tuple[float, int]:
    """(median seconds of one call, number of calls). The first calls wake threads and caches and do not count."""
    warm_up = time.perf_counter() + min(0.05, seconds / 4)
    calls, begin = 0, time.perf_counter()
    while calls < 2 or time.perf_counter() < warm_up:
        call()
        calls += 1
    each = (time.perf_counter() - begin) / calls
    batch = max(1, round(_SHORTEST / each))
    times: list[float] = []
    end = time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        begin = time.perf_counter()
        for _ in range(batch):
            call()
        times.append((time.perf_counter() - begin) / batch)
    return median(times), len(times) * batch


def serve(prepare: Callable[[dict[str, Any]], ReadyCall]) -> None:
    """Answers requests until the input ends. What libraries print goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    timed: Timed | None = None
    held: object = None  # keeps what the library works on alive
    for line in sys.stdin:
        request = json.loads(line)
        answer: dict[str, object]
        if "prepare" in request:
            try:
                timed = held = None  # what the row before took is free again
                timed, answer, held = prepare(request["prepare"])  # noqa: RUF059
            except (MissingContender, ImportError) as error:
                answer = {"missing": str(error)}
        else:
            assert timed is not None
            seconds, calls = timed(request["run"])
            answer = {"seconds": seconds, "calls": calls}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    os._exit(0)  # some libraries crash when their destructors run in an order that they did not expect
