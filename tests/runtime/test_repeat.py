"""The loops that are timed: how often they call, and what is dropped before each call."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
import pytest

import tilesmith as ts
from tilesmith.runtime.devices.cpu import repeat
from tilesmith.runtime.devices.cpu.cold import drop_address
from tilesmith.runtime.devices.cpu.jit import linked
from tilesmith.runtime.devices.cpu.memory import address
from tilesmith.runtime.devices.cpu.repeat import repeat_cold, repeat_loop

CALL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
DROP = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)


def place(function: object) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [0, 1, 7])
def test_each_call_comes_behind_its_drops(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    seen: list[tuple[int, ...]] = []
    kernel = CALL(lambda *given: seen.append(given))
    drop = DROP(lambda *given: seen.append(given))
    monkeypatch.setattr(repeat, "drop_address", lambda: place(drop))
    arrays = [np.zeros(5, np.float32), np.zeros(3, np.int8)]
    seconds = repeat_cold(place(kernel), 8, 16, 24, count, arrays)
    dropped = [(address(array), array.nbytes) for array in arrays]
    assert seen == [*dropped, (8, 16, 24)] * count
    assert (seconds > 0) == (count > 0)
    seen.clear()
    repeat_loop()(place(kernel), 8, 16, 24, count)
    assert seen == [(8, 16, 24)] * count


def test_the_clock_stands_still_while_memory_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A drop that takes long is no part of the time."""
    from time import sleep

    kernel, drop = CALL(lambda *_: None), DROP(lambda *_: sleep(0.02))
    monkeypatch.setattr(repeat, "drop_address", lambda: place(drop))
    assert repeat_cold(place(kernel), 0, 0, 0, 3, [np.zeros(5)]) < 0.02


def dropper(text: str) -> Callable[[int, int], None]:
    library = linked(text, "drop")
    function = DROP(library["drop"])
    function.library = library  # type: ignore[attr-defined]
    return function


@pytest.mark.parametrize("bytes", [1, 63, 64, 65, 4096])
def test_what_is_dropped_keeps_its_values(bytes: int) -> None:
    from tilesmith.runtime.devices.cpu import cold

    data = np.random.default_rng(0).integers(0, 255, 3 * 4096, np.uint8)
    before = data.copy()
    ways = [DROP(drop_address()), dropper(cold._overwriting()), dropper(cold._dropping("sse2.clflush"))]
    for drop in ways:
        drop(address(data) + 100, bytes)
        np.testing.assert_array_equal(data, before)


def test_a_kernel_drops_what_it_keeps_of_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    program = ts.parse("""
        input a: f32[48, 32]
        constant w: f32[32, 64]
        t[i: 48, j: 64] = sum[k: 32](a[i, k] * w[k, j])
        return t
    """)
    seen: list[int] = []
    drop = DROP(lambda start, size: seen.append(size))
    monkeypatch.setattr(repeat, "drop_address", lambda: place(drop))
    kernel = ts.compile(program, constants=[np.ones((32, 64), np.float32)], threads=1)
    a, out = np.ones((48, 32), np.float32), np.empty((48, 64), np.float32)
    kernel(a, out=out)
    loaded = kernel._loaded
    assert loaded.run_repeat([a, out], 3, cold=True) > 0 and sum(seen) == 3 * kernel.artifact.prepared_bytes
    seen.clear()
    assert loaded.run_repeat([a, out], 3) > 0 and not seen
    free = ts.compile(ts.ops.row_sum(8, 40), threads=1)._loaded
    assert free.run_repeat([np.ones((8, 40), np.float32), np.empty(8, np.float32)], 3, cold=True) > 0 and not seen
