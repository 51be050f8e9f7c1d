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
from tilesmith.graph.executor.profile import Cost, Profile, profile_of
from tilesmith.graph.executor.provenance import CallOrigin, ModelProvenance, call_origins
from tilesmith.runtime.devices.cpu.device import CpuDevice
from tilesmith.runtime.kernel import Kernel
from tilesmith.runtime.profiled import MeasuredRuns
from tilesmith.targets.ceilings import default_ceilings
from tilesmith.targets.target import parse_target
from tilesmith.tensor.origins import originating
from tilesmith.tensor.program import Origin
from tilesmith.tuner.apply.profiler import Profiler, cost_of
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
    target = parse_target("host")
    profiler = Profiler(origins.calls, tuple(kernels), target, 1)
    return Kernel(artifact, [np.eye(160, dtype=np.float32)], provenance=origins, profiler=profiler)


def test_the_calls_of_a_profile() -> None:
    kernel = model()
    a = np.ones((160, 160), np.float32)
    found = kernel.profile(a)
    assert len(found.rows) == 3 and all(row.seconds > 0 for row in found.rows) and found.copies > 0
    assert [row.cost.operations for row in found.rows] == [160**2, 2 * 160**3, 160**2]
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
    assert len(kernel.profile().rows) == 3


def test_the_profile_of_a_kernel_that_is_no_model_is_one_row() -> None:
    kernel = ts.compile(ts.parse("input a: f32[8]\nt[i: 8] = a[i] + 1\nreturn t"))
    found = pickle.loads(pickle.dumps(kernel)).profile(np.ones(8, np.float32))
    assert isinstance(found, Profile) and len(found.rows) == 1 and found.rows[0].share == 1
    assert found.rows[0].cost.operations == 8 and found.copies == 0
    assert str(found).splitlines()[-1].strip().startswith("100.0%") and "1 call," in str(found)


def test_of_what_nobody_knows_there_is_no_profile() -> None:
    kernel = Kernel(BUILDS(ts.parse("input a: f32[8]\nt[i: 8] = a[i] + 1\nreturn t")))
    with pytest.raises(ArgumentError, match="nothing is known of what"):
        kernel.profile()


def test_a_cost_says_what_bounds_it() -> None:
    target = parse_target("x86:avx512;cores=2")
    ceilings = default_ceilings(target, 2)
    product = cost_of(ts.ops.matmul(m=512, n=512, k=512), target, ceilings)
    assert product.bound == "arithmetic" and product.least == pytest.approx(2 * 512**3 / ceilings.flops["f32"])
    bounds = [
        cost_of(ts.ops.relu(shape=(1024 * kilobytes // 8,)), target, ceilings) for kilobytes in (16, 1024, 1 << 18)
    ]
    assert [cost.bound for cost in bounds] == ["L1", "L2", "memory"]
    assert all(
        cost.least == pytest.approx(cost.bytes / ceilings.speed_of_use(cost.bytes, cost.bytes / 2)) for cost in bounds
    )


@pytest.mark.parametrize(
    ("layers", "shown"),
    [
        (["layer1.0.conv1", "layer1.0.bn1", "layer1.0.relu"], "layer1.0: conv1, bn1, relu"),
        (["conv1", "bn1"], "conv1, bn1"),
        (["layer4.0.conv3"], "layer4.0.conv3"),
        (["a.b.c", "a.b.d", "a.e", "a.b.f"], "a: b.c, ..., b.f"),
        ([], ""),
    ],
)
def test_layers_are_told_by_what_they_have_in_common(layers: list[str], shown: str) -> None:
    origins = tuple(Origin("op", layer) for layer in layers)
    (row,) = profile_of([CallOrigin("k", origins, 1)], [Cost(1, 1, 1.0, "L1")], MeasuredRuns((2.0,))).rows
    assert row.layers == shown
