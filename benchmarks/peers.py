"""A contender in a process of its own: neither its threads nor its allocator nor its settings touch the others'.

The parent and the child exchange lines of JSON over the child's standard input and output:

    {"prepare": {library, operator, sizes, ...}}  ->  {"sample": [values of the output at fixed points], "provenance": ...}
                                                  or  {"missing": why there is no such contender}
    {"run": seconds}                              ->  {"seconds": median seconds of one call, "calls": their number}
    end of input                                  ->  the child ends

`python benchmarks/peers.py` is the child. Arrays are drawn from the same seed in every child, so the samples must agree.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import Any

import numpy as np
from ceiling import CEILING, ceiling_of
from libraries import LIBRARIES, Call
from narrow import product_call
from weights import weights_call
from workloads import Row

OURS = "tilesmith"
BESIDE = "beside"  # our kernel of the row that another row is measured beside
SAMPLES = 64
REST = 0.05  # seconds between contenders: an idle OpenMP team spins for some milliseconds
Timed = Callable[[float], tuple[float, int]]  # runs for some seconds -> (median seconds of one call, number of calls)
# what runs it, the answer to the parent, and the memory that it works on, which some libraries do not hold
Prepared = tuple[Timed, dict[str, object], object]
_SHORTEST = 50e-6  # seconds; shorter calls are timed several at a time


class Missing(Exception):
    """A contender that cannot take part: not installed, or without a way to compute the operator."""


class Child:
    """The parent's side of a process that serves one contender: a `method.Contender` that stays for many rows, so that its
    library is loaded once. `script`: what the process runs, which calls `serve`. Errors: RuntimeError when it fails."""

    def __init__(self, name: str, threads: int, script: str) -> None:
        self.name = name
        self.threads = threads
        self._child = subprocess.Popen(
            [sys.executable, script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
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
        self._child.stdin.close()
        self._child.stdout.close()
        self._child.wait(timeout=10)

    def close_at_once(self) -> None:
        """Ends the child in the middle of what it does."""
        self._child.kill()

    def tell(self, request: dict[str, object]) -> None:
        """Sends a request."""
        assert self._child.stdin is not None
        self._child.stdin.write(json.dumps(request) + "\n")
        self._child.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """Waits for the answer to the request before. Errors: Missing."""
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        if not line:
            raise RuntimeError(f"the process of {self.name} ended with code {self._child.wait()}")
        answer: dict[str, Any] = json.loads(line)
        if "missing" in answer:
            raise Missing(answer["missing"])
        return answer


class Peer(Child):
    """A contender for rows of single operators.

    `library`: whose way of computing it is; the contender's name unless given. Errors: Missing (by `prepared`),
    RuntimeError when the child fails.
    """

    def __init__(self, name: str, threads: int, library: str | None = None) -> None:
        super().__init__(name, threads, __file__)
        self.library = library or name
        self.sample: list[float] = []
        self.provenance = ""

    def prepare(self, row: Row, database: str | None = None) -> None:
        """Begins to prepare a row; `prepared` waits until that is done."""
        request = {
            "library": self.library,
            "operator": row.operator,
            "sizes": dict(row.sizes),
            "constants": list(row.constants),
            "threads": self.threads,
            "database": database,
        }
        self.tell({"prepare": request})

    def prepared(self) -> None:
        """Waits until the row is prepared. Errors: Missing."""
        answer = self.answer()
        self.sample = answer["sample"]
        self.provenance = answer["provenance"]


def _environment(threads: int) -> dict[str, str]:
    """The caller's, with the number of threads of every runtime, and an allocator that keeps its pages: large results would
    otherwise cost fresh page faults on each call, in libraries that allocate them."""
    counts = dict.fromkeys(
        ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "HL_NUM_THREADS"), str(threads)
    )
    keep_pages = {"MALLOC_MMAP_THRESHOLD_": 1 << 32, "MALLOC_TRIM_THRESHOLD_": 1 << 33, "MALLOC_TOP_PAD_": 1 << 26}
    return {**os.environ, **counts, **{name: str(value) for name, value in keep_pages.items()}}


# the child


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


def time_calls(call: Call, seconds: float) -> tuple[float, int]:
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


def prepare(request: dict[str, Any]) -> Prepared:
    """A row of a single operator: the answer is a sample of its output, and where it comes from."""
    from tilesmith.tensor.oracle.random_inputs import random_inputs

    row = Row("", request["operator"], request["sizes"], constants=tuple(request["constants"]))
    program, threads = row.program(), request["threads"]
    if request["library"] == CEILING:
        run, provenance = ceiling_of(program, threads)
        return run, {"sample": [], "provenance": provenance}, None
    values = random_inputs(program, seed=1)
    arrays = {
        item.tensor.name: aligned(value.shape, value.dtype, value)
        for item, value in zip(program.inputs, values, strict=True)
    }
    tensors = [program.tensors[name] for name in program.outputs]
    outputs = [aligned(t.shape, t.dtype.numpy) for t in tensors]
    if request["library"] == OURS:
        call, provenance = _our_call(program, arrays, outputs, threads, request["database"])
    else:
        found = _peer_call(request["library"], row, arrays, outputs, threads)
        if found is None:
            raise Missing(f"{request['library']} has no {row.operator} here")
        call, provenance = found, request["library"]
    answer = {"sample": _sample(call, outputs[0], tensors[0].dtype), "provenance": provenance}
    return partial(time_calls, call), answer, (arrays, outputs)


def _peer_call(
    library: str, row: Row, arrays: dict[str, np.ndarray], outputs: list[np.ndarray], threads: int
) -> Call | None:
    if row.operator == "weights":
        return weights_call(library, arrays, outputs, threads, row.sizes)
    if row.operator == "product":
        return product_call(library, arrays, outputs, threads, row.constants, row.sizes)
    return LIBRARIES[library](row.operator, arrays, outputs, threads, row.constants, row.sizes)


def _our_call(
    program: Any, arrays: dict[str, np.ndarray], outputs: list[np.ndarray], threads: int, database: str | None
) -> tuple[Call, str]:
    import tilesmith

    fixed = {t.name: arrays[t.name] for t in program.constant_inputs}
    kernel = tilesmith.compile(program, db=database, threads=threads, constants=fixed or None)
    inputs = [arrays[t.name] for t in program.dynamic_inputs]
    out = outputs[0] if len(outputs) == 1 else tuple(outputs)
    return (lambda: kernel(*inputs, out=out)), str(kernel.provenance)


def _sample(call: Call, out: np.ndarray, dtype: Any) -> list[float]:
    """The output at fixed points: written to `out`, or returned by libraries that allocate it."""
    from tilesmith.tensor.oracle.evaluate import from_memory

    poison = np.full(out.nbytes, 0xA5, np.uint8).view(out.dtype).reshape(out.shape)
    out[...] = poison
    result = call()
    if np.array_equal(out, poison):
        out[...] = (result[0] if isinstance(result, list) else result).numpy()
    points = np.random.default_rng(2).integers(0, out.size, SAMPLES)
    return [float(v) for v in from_memory(out.reshape(-1)[points], dtype)]


def serve(prepare: Callable[[dict[str, Any]], Prepared]) -> None:
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
            except (Missing, ImportError) as error:
                answer = {"missing": str(error)}
        else:
            assert timed is not None
            seconds, calls = timed(request["run"])
            answer = {"seconds": seconds, "calls": calls}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    os._exit(0)  # some libraries crash when their destructors run in an order that they did not expect


if __name__ == "__main__":
    serve(prepare)
