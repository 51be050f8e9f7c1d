"""What `kernel.time()` says: what a loop over calls sees."""

from __future__ import annotations

import time

import numpy as np
import pytest

import tilesmith as ts
from tilesmith.common.errors import ArgumentError
from tilesmith.runtime.devices.cpu import device as cpu
from tilesmith.runtime.devices.cpu import memory
from tilesmith.runtime.devices.cpu.cold import evict
from tilesmith.runtime.devices.cpu.memory import address

ADD = ts.parse("input a: f32[64]\ninput b: f32[64]\nt[i: 64] = a[i] + b[i]\nreturn t")


def loop(kernel: ts.Kernel, *inputs: object, out: object, count: int = 3000) -> float:
    started = time.perf_counter()
    for _ in range(count):
        kernel(*inputs, out=out)
    return (time.perf_counter() - started) / count


def test_the_call_is_in_it() -> None:
    """A compiled loop over this kernel, without the call, takes 1% of the time."""
    kernel = ts.compile(ADD, threads=1)
    a, b, out = (np.ones(64, np.float32) for _ in range(3))
    ratios = [kernel.time() / loop(kernel, a, b, out=out) for _ in range(5)]
    assert 0.6 < sorted(ratios)[2] < 1.7, ratios  # 0.95 to 1.05 on a quiet machine
    ratios = [kernel.time(a, b, out=out) / loop(kernel, a, b, out=out) for _ in range(5)]
    assert 0.6 < sorted(ratios)[2] < 1.7, ratios
    assert (out == 2).all()


def test_where_default_arrays_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    """As NumPy's mostly do, and always alike: chance does not decide whether a kernel can store past the caches."""
    seen: set[tuple[bool, ...]] = set()

    def calls(kernel: ts.Kernel, inputs: tuple[np.ndarray, ...], out: np.ndarray, count: int) -> float:
        seen.add(tuple(address(array) % 64 == 16 for array in (*inputs, out)))
        return 1e-3 * count

    monkeypatch.setattr(ts.Kernel, "_calls", calls)
    for size in (64, 1000, 100_000, 3_000_000):  # NumPy's own store, the heap, pages of their own, large pages
        kernel = ts.compile(ts.ops.add(size=size), threads=1)
        others = [np.empty(size, np.float32) for _ in range(4)]  # so that the next ones would lie elsewhere
        for _ in range(3):
            kernel.time()
            others.append(np.empty(size + 4 * len(others), np.float32))
    assert seen == {(True, True, True)}


def test_much_memory_is_on_large_pages_to_its_end() -> None:
    page = memory.LARGE_PAGE
    for size, pages in ((page, 1), (page + page // 4, 1), (page + page // 2, 2), (2 * page, 2), (2 * page + 64, 3)):
        assert memory._in_large_pages(size) == pages * page
        kept = memory.kept_memory(size)
        assert kept.nbytes == size and address(kept) % memory.ALIGNMENT == 0


def test_evicted_lines_come_from_memory() -> None:
    """Read in a random order, which nothing foresees: 5 us out of the caches, 33 us out of memory."""
    lines = 4096
    a, out = np.zeros(lines * 8, np.int64), np.empty(lines, np.int64)
    order = np.random.default_rng(0).permutation(lines) * 8

    def read(cold: bool) -> float:
        if cold:
            evict([a])
        started = time.perf_counter()
        a.take(order, out=out)
        return time.perf_counter() - started

    warm, cold = (min(read(cold) for _ in range(100)) for cold in (False, True))
    assert cold > 1.5 * warm
    a[:] = 7
    evict([a[1:5], a, a[:0]])
    assert (a == 7).all()


def test_cold_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that a call reads and writes is out of the caches, before each."""
    program = ts.parse("""
        input a: f32[48, 32]
        constant w: f32[32, 64]
        t[i: 48, j: 64] = sum[k: 32](a[i, k] * w[k, j])
        return t
    """)
    kernel = ts.compile(program, constants=[np.ones((32, 64), np.float32)], threads=1)
    evicted: list[list[int]] = []
    monkeypatch.setattr(cpu, "evict", lambda arrays: evicted.append([array.nbytes for array in arrays]))
    a, out = np.ones((48, 32), np.float32), np.empty((48, 64), np.float32)
    assert kernel.time(a, out=out, cold=True) > 0
    assert len(evicted) >= 9 and evicted[0] == [a.nbytes, out.nbytes, kernel.artifact.prepared_bytes]
    assert kernel.time(a, out=out) > 0 and (out == 32).all()


def test_wrong_arrays_are_refused() -> None:
    kernel = ts.compile(ADD, threads=1)
    with pytest.raises(ArgumentError, match="wrong number of arrays"):
        kernel.time(np.ones(64, np.float32))
    with pytest.raises(ArgumentError, match="wrong shape"):
        kernel.time(np.ones(64, np.float32), np.ones(63, np.float32))
