"""Counters of the system's own events, which are there on machines without hardware counters too."""

from __future__ import annotations

import errno

import numpy as np
import pytest

import tilesmith as ts
from tilesmith.runtime.devices.cpu.counters import SOFTWARE, Counters, CountersAbsent, absent
from tilesmith.runtime.devices.cpu.device import CpuDevice
from tilesmith.runtime.devices.cpu.observed import ObservedKernel
from tilesmith.runtime.profiled import counted, counted_or_why

MODEL = """
    input x: f32[256, 256]
    y[i: 256, j: 256] = sum[k: 256](x[i, k] * x[k, j])
    z[i: 256, j: 256] = sum[k: 256](y[i, k] * x[k, j])
    return z
"""


def allowed() -> bool:
    try:
        with Counters(1, SOFTWARE):
            return True
    except CountersAbsent:
        return False


@pytest.mark.skipif(not allowed(), reason="perf_event_open is not allowed")
def test_each_call_of_a_model_is_counted() -> None:
    kernel = ts.compile(ts.parse(MODEL), threads=1)
    calls = len(kernel.artifact.launches)
    loaded, arrays = (
        CpuDevice().load(kernel.artifact),
        [np.ones((256, 256), np.float32), np.empty((256, 256), np.float32)],
    )
    loaded.prepare([])
    counts = counted(loaded, arrays, SOFTWARE)
    assert len(counts) == calls > 1
    seconds = sum(one["nanoseconds"] for one in counts) / 1e9
    assert 0.2 < seconds / (loaded.run_repeat(arrays, 4) / 4) < 5
    assert (arrays[1] == 65536).all()


def test_hardware_counters_are_there_or_said_to_be_absent() -> None:
    kernel = ts.compile(ts.ops.relu(64), threads=1)
    found = kernel.profile()
    assert bool(found.rows[0].counts) != bool(found.absent)
    assert ("no hardware counters: " in str(found)) == bool(found.absent)
    assert not kernel.profile(counters=False).absent


@pytest.mark.parametrize(
    ("number", "said"), [(errno.EACCES, "not allowed"), (errno.ENOENT, "virtual machines"), (errno.EMFILE, "many")]
)
def test_why_there_are_none(number: int, said: str) -> None:
    import os

    error = absent(OSError(number, os.strerror(number)))
    assert said in str(error)


def test_calls_are_told_in_order() -> None:
    import ctypes

    told: list[tuple[str, int]] = []
    kind = ctypes.CFUNCTYPE(None, ctypes.c_int64)
    before, after = (kind(lambda n, word=word: told.append((word, n))) for word in ("before", "after"))
    kernel = ts.compile(ts.parse(MODEL), threads=2)
    loaded = CpuDevice().load(kernel.artifact)
    loaded.prepare([])
    places = [ctypes.cast(one, ctypes.c_void_p).value or 0 for one in (before, after)]
    observed = ObservedKernel(loaded, *places)
    arrays = [np.eye(256, dtype=np.float32), np.empty((256, 256), np.float32)]
    observed.run(arrays)
    calls = len(loaded.artifact.launches)
    assert [word for word, _ in told] == ["before", "after"] * calls
    assert [n for word, n in told if word == "before"] == [n for word, n in told if word == "after"]
    assert (arrays[1] == arrays[0]).all()
    told.clear()
    loaded.run(arrays)
    assert not told


def test_of_another_device_there_are_none() -> None:
    assert counted_or_why(object(), [])[1] == "there are none of this device"  # type: ignore[arg-type]
