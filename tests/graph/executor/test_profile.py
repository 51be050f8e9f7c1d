"""A model says what it is made of and where its time goes."""

from __future__ import annotations

import pickle
import time

import numpy as np
import pytest

import tilesmith as ts
from helpers.graph.cut import Builds, cut
from tilesmith.common.errors import ArgumentError
from tilesmith.graph.executor.compose import compose
from tilesmith.graph.executor.provenance import ModelProvenance, call_origins, profile
from tilesmith.runtime.devices.cpu.device import CpuDevice
from tilesmith.runtime.kernel import Kernel
from tilesmith.tensor.origins import originating
from tilesmith.tensor.program import Origin
from tilesmith.tuner.roofline import program_work

BUILDS = Builds()


def model() -> Kernel:
    """A product that takes nearly all of the time between two small calls, and an output that is a copy."""
    with originating(Origin("linear", "layer.1", "net.py", 3)):
        a, w = ts.placeholder((160, 160), name="a"), ts.constant((160, 160), name="w")
        k = ts.reduce_axis(160, "k")
        t = ts.compute((160, 160), lambda i, j: a[i, j] + 1, name="t")
        y = ts.compute((160, 160), lambda i, j: ts.sum(t[i, k] * w[k, j], k), name="y")
    z = ts.compute((160, 160), lambda i, j: y[i, j] * 2, name="z")
    flat = ts.compute((25600,), lambda i: z[i // 160, i % 160], name="flat")
    program = ts.program([z, flat])
    kernels = cut(program)[:3]
    artifacts = [BUILDS(kernel) for kernel in kernels]
    artifact = compose(program, kernels, artifacts, {"flat": "z"})
    origins = call_origins(
        kernels,
        [one.name for one in artifacts],
        lambda kernel: program_work(kernel).flops,
        ["exact", "default", "exact"],
    )
    return Kernel(artifact, [np.eye(160, dtype=np.float32)], provenance=origins)


def test_the_calls_of_a_profile() -> None:
    kernel = model()
    a = np.ones((160, 160), np.float32)
    found = profile(kernel, a)
    assert len(found.rows) == 3 and all(row.seconds > 0 for row in found.rows) and found.copies > 0
    assert [row.call.operations for row in found.rows] == [160**2, 2 * 160**3, 160**2]
    assert found.rows[1].share > 0.5 and sum(
        row.share for row in found.rows
    ) + found.copies / found.seconds == pytest.approx(1)
    assert found.rows[1].gflops == pytest.approx(2 * 160**3 / found.rows[1].seconds / 1e9)
    assert found.rows[1].call.origins[0].layer == "layer.1"
    first = str(found).splitlines()[1]
    assert "(layer.1)" in first and found.rows[1].call.name in first
    z, flat = kernel(a)
    assert (z == 4).all() and (flat == 4).all()


def test_the_times_of_calls_add_up_to_the_time_of_a_run() -> None:
    """Of the very same run, so that it does not matter what else the machine does."""
    loaded = CpuDevice().load(model().artifact)
    loaded.prepare([np.eye(160, dtype=np.float32)])
    arrays = [np.ones((160, 160), np.float32), np.empty((160, 160), np.float32), np.empty(25600, np.float32)]
    shares = []
    for _ in range(20):
        started = time.perf_counter()
        parts = loaded.run_timed(arrays)
        shares.append(sum(parts) / (time.perf_counter() - started))
    assert 0.8 < max(shares) <= 1.0


def test_a_provenance_counts_kernels_and_goes_with_a_pickle() -> None:
    kernel = pickle.loads(pickle.dumps(model()))
    assert isinstance(kernel.provenance, ModelProvenance)
    assert str(kernel.provenance).splitlines()[0] == "3 calls of 3 kernels"
    assert "    1 x " in str(kernel.provenance) and ": default" in str(kernel.provenance)
    assert len(profile(kernel).rows) == 3


def test_other_kernels_have_no_profile() -> None:
    kernel = ts.compile(ts.parse("input a: f32[8]\nt[i: 8] = a[i] + 1\nreturn t"))
    with pytest.raises(ArgumentError, match="is no model"):
        profile(kernel)
