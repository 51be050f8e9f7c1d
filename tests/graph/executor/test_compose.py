"""Programs cut at every stage, joined and run: equal to the oracle, beside guard pages."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

import tilesmith as ts
from helpers.graph.cut import Builds, cut, joined
from helpers.pipeline.candidates import random_config, run
from helpers.random_programs import any_programs, programs
from tilesmith.codegen.artifact import Artifact
from tilesmith.codegen.cache import ArtifactCache
from tilesmith.codegen.pipeline import build
from tilesmith.codegen.stored import from_bytes, to_bytes
from tilesmith.common.errors import InternalError, TargetError
from tilesmith.graph.executor.compose import compose
from tilesmith.graph.partition.partition import partition
from tilesmith.measure.checking.verify import Checker
from tilesmith.runtime.kernel import Kernel
from tilesmith.schedules.sketch import UNSCHEDULED
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor.oracle.random_inputs import random_inputs
from tilesmith.tensor.program import Program

HOST = parse_target("host")
BUILDS = {threads: Builds(threads) for threads in (1, 2)}
PICKED = Builds(2, analytic=True)


def complaint(program: Program, artifact: Artifact, seed: int, at_end: bool = True) -> str | None:
    """What is wrong with the outputs of an artifact, whose arguments lie beside guard pages."""
    inputs = random_inputs(program, seed)
    return Checker(program, inputs, seed).check(run(artifact, Task(program, HOST, artifact.threads), inputs, at_end))


@settings(max_examples=25)
@given(any_programs())
def test_random_programs(program: Program) -> None:
    for at_end in (True, False):
        assert complaint(program, joined(program, BUILDS[1]), 3, at_end) is None


@settings(max_examples=25)
@given(programs(max_stages=8, dtypes=("f32", "f16", "bf16", "i8")))
def test_more_stages_and_narrow_types(program: Program) -> None:
    assert complaint(program, joined(program, BUILDS[2]), 5) is None


@settings(max_examples=12)
@given(programs(max_stages=6, dtypes=("f32",)))
def test_with_the_candidates_that_are_picked(program: Program) -> None:
    assert complaint(program, joined(program, PICKED), 7) is None


NET = ts.parse("""
    input a: f32[24, 40]
    constant w: f32[40, 40]
    constant z: f32[40, 40]
    t[i: 24, j: 40] = sum[k: 40](a[i, k] * w[k, j])
    u[i: 24, j: 40] = max(t[i, j], 0)
    v[i: 24, j: 40] = sum[k: 40](u[i, k] * z[k, j])
    x[i: 24, j: 40] = sum[k: 40](v[i, k] * w[k, j])
    y[i: 24, j: 40] = x[i, j] + u[i, j]
    return y, u
""")


def test_equal_kernels_share_code_and_each_has_its_constants() -> None:
    """Three products by two matrices: one kernel, and what is kept of each matrix is kept once."""
    artifact = joined(NET, PICKED)
    assert len(artifact.launches) == 5 and len(artifact.kernels) == 3
    product = artifact.kernels[0]
    assert product.prepared_bytes and artifact.prepared_bytes == 2 * product.prepared_bytes
    assert complaint(NET, artifact, 1) is None


TABLE = ts.parse("""
    input n: i64[5]
    constant w: f32[7, 30]
    constant b: f32[30]
    t[i: 5, j: 30] = w[min(6, max(0, n[i])), j] + b[j]
    y[i: 5] = max[j: 30](t[i, j])
    return y, t
""")


def test_constants_that_are_inputs_of_kernels_stay_where_they_are(tmp_path: Path) -> None:
    """Mapped ones are not copied; what its owner may change is."""
    kernels = partition(TABLE).kernels
    assert [tensor.name for kernel in kernels for tensor in kernel.constant_inputs] == ["b"]
    artifact = from_bytes(to_bytes(compose(TABLE, kernels, [BUILDS[2](kernel) for kernel in kernels], {})))
    assert artifact.held == (0,) and artifact.prepared_bytes == 128
    n, w, b = random_inputs(TABLE, 3)
    n %= 7
    w.tofile(tmp_path / "w")
    mapped = np.memmap(tmp_path / "w", np.float32, "r", 0, w.shape)
    changed = w.copy()
    for value in (mapped, changed):
        kernel = Kernel(artifact, {"w": value, "b": b})
        if value is changed:
            changed[:] = 0
        assert np.shares_memory(kernel._loaded.kept()[1], value) == (value is mapped)
        for one in (kernel, pickle.loads(pickle.dumps(kernel))):
            assert np.allclose(one(n)[1], w[n] + b) and np.allclose(one(n)[0], (w[n] + b).max(1))
    for at_end in (True, False):
        assert complaint(TABLE, artifact, 2, at_end) is None


FAST = ts.parse("""
    input x: f32[1, 9, 9, 48]
    constant w: f32[48, 48, 3, 3]
    t[n: 1, p: 9, q: 9, c: 48] = max(x[n, p, q, c], 0)
    y[n: 1, p: 9, q: 9, o: 48] = sum[c: 48, r: 3, s: 3](select(p + r >= 1 and p + r < 10 and q + s >= 1 and q + s < 10,
        t[n, p + r - 1, q + s - 1, c], 0) * w[o, c, r, s])
    return y
""")


def test_filters_that_only_outliers_ask_for_stay_where_they_are(tmp_path: Path) -> None:
    """A fast convolution keeps its filter transformed. As it was it is in its file, and read where an outlier is."""
    kernels = cut(FAST)
    artifacts = [_fast(Task.of(kernel, HOST, 2)) for kernel in kernels]
    assert [artifact.held for artifact in artifacts] == [(), (0,)]
    artifact = from_bytes(to_bytes(compose(FAST, kernels, artifacts, {})))
    x, w = random_inputs(FAST, 3)
    assert artifact.held == (0,) and artifact.prepared_bytes < 4.5 * w.nbytes, "four times the filter, and no fifth"
    w.tofile(tmp_path / "w")
    mapped = np.memmap(tmp_path / "w", np.float32, "r", 0, w.shape)
    changed, spoiled = w.copy(), x.copy()
    spoiled[0, 4, 4, 5] = 1e30
    for value in (mapped, changed):
        kernel = Kernel(artifact, {"w": value})
        if value is changed:
            changed[:] = 0
        assert np.shares_memory(kernel._loaded.kept()[1], value) == (value is mapped)
        for one in (kernel, pickle.loads(pickle.dumps(kernel))):
            for image in (x, spoiled):
                assert Checker(FAST, [image, w], 3).check([one(image)]) is None
    for at_end in (True, False):
        assert complaint(FAST, artifact, 2, at_end) is None


def _fast(task: Task) -> Artifact:
    """Some candidate with tiles of 4 x 4, where the task has such, of float32 and no parts of it."""
    variants = [(sketch, dict(sketch.variants)) for sketch in task.sketches[1:]]
    fast = [sketch for sketch, taken in variants if 4 in taken.values() and not taken.get("matrix unit")]
    sketch = (fast or task.sketches[1:])[0]
    values = random_config(task, sketch, np.random.default_rng(4))
    assert values is not None
    return build(task.program, sketch, values, HOST, task.threads)


TWICE = ts.parse("""
    input a: f32[40, 4000]
    constant w: f32[4000]
    constant z: f32[4000]
    long[i: 5, j: 4000] = w[j] * f32(i)
    short[j: 4000] = long[1, j] + long[3, j]
    t[i: 40, j: 4000] = a[i, j] + short[j]
    wide[i: 60, j: 4000] = z[j] - f32(i)
    narrow[j: 4000] = wide[5, j] * wide[7, j]
    y[i: 40, j: 4000] = t[i, j] * narrow[j]
    return y
""")


def test_what_only_preparation_reads_is_not_kept() -> None:
    """Calls prepare one after the other, in memory that the next one may have."""
    groups = [TWICE.stages[:3], TWICE.stages[3:]]
    kernels = cut(TWICE, groups)
    artifact = compose(TWICE, kernels, [BUILDS[1](kernel) for kernel in kernels], {})
    assert artifact.prepared_bytes == 2 * 16_000 and 60 * 16_000 <= artifact.preparing_bytes < 61 * 16_000
    for at_end in (True, False):
        assert complaint(TWICE, artifact, 1, at_end) is None
    again = pickle.loads(pickle.dumps(Kernel(artifact, random_inputs(TWICE, 2)[1:])))
    a, w, z = random_inputs(TWICE, 2)
    assert np.allclose(again(a), (a + 4 * w) * ((z - 5) * (z - 7)), atol=1e-4)


def test_artifacts_that_came_from_a_disk_one_by_one_share_code() -> None:
    kernels = cut(NET)
    artifact = compose(NET, kernels, [from_bytes(to_bytes(PICKED(kernel))) for kernel in kernels], {})
    assert len(artifact.kernels) == 3 and artifact.code == joined(NET, PICKED).code


def test_different_kernels_of_one_name() -> None:
    program = ts.parse("input a: f32[8, 9]\nt[i: 8, j: 9] = a[i, j] + 1\nu[i: 8, j: 9] = t[i, j] * 3\nreturn u")
    artifact = joined(program, BUILDS[1])
    assert len({kernel.symbol for kernel in artifact.kernels}) == 1 and len(artifact.kernels) == 2
    assert complaint(program, artifact, 1) is None


def test_memory_is_used_again() -> None:
    """A long chain lies in two tensors' memory; the output in the caller's."""
    lines = ["input t0: f32[4096]", *(f"t{n + 1}[i: 4096] = t{n}[i] + {n}" for n in range(9)), "return t9"]
    program = ts.parse("\n".join(lines))
    artifact = joined(program, BUILDS[1])
    assert artifact.workspace_bytes == 2 * 4096 * 4
    assert complaint(program, artifact, 1) is None


RESHAPED = ts.parse("""
    input a: f32[6, 8]
    constant w: f32[48]
    back[i: 6, j: 8] = w[i * 8 + j]
    t[i: 6, j: 8] = a[i, j] * back[i, j]
    flat[i: 48] = t[i // 8, i % 8]
    again[i: 8, j: 6] = flat[i * 6 + j]
    u[i: 48] = flat[i] + again[i // 6, i % 6]
    given[i: 48] = a[i // 8, i % 8]
    return u, flat, given, t
""")
RESHAPES = {"back": "w", "flat": "t", "again": "flat", "given": "a"}


def constant_back(kernel: Program) -> Program:
    """What is a reshaped constant to the program is a constant to its kernel."""
    return replace(kernel, inputs=tuple(replace(one, constant=one.tensor.name == "back") for one in kernel.inputs))


def test_aliases() -> None:
    """Of constants, of tensors between kernels, of inputs, of aliases; as outputs they are copied where they have to be."""
    kernels = [constant_back(one) for one in cut(RESHAPED) if one.outputs[0] not in RESHAPES]
    assert [kernel.outputs for kernel in kernels] == [("t",), ("u",)]
    artifact = compose(RESHAPED, kernels, [BUILDS[1](one) for one in kernels], RESHAPES)
    assert artifact.workspace_bytes == 0
    for at_end in (True, False):
        assert complaint(RESHAPED, artifact, 2, at_end) is None


def test_an_artifact_on_a_disk(tmp_path: Path) -> None:
    artifact = joined(NET, PICKED)
    cache = ArtifactCache(tmp_path)
    cache.put("0" * 64, artifact)
    assert cache.get("0" * 64) == artifact == from_bytes(to_bytes(artifact))
    assert complaint(NET, from_bytes(to_bytes(artifact)), 1) is None
    nested = replace(artifact, kernels=(artifact,))
    with pytest.raises(ValueError, match="a kernel of a model has kernels"):
        from_bytes(to_bytes(nested))
    with pytest.raises(ValueError, match="cut"):
        from_bytes(to_bytes(artifact)[:-1])


@pytest.mark.parametrize("builds", [BUILDS[1], PICKED])
def test_many_threads_call_a_pickled_kernel(builds: Builds) -> None:
    """Each call has memory of its own; constants are as they were."""
    constants = random_inputs(NET, 4)[1:]
    kernel = pickle.loads(pickle.dumps(Kernel(joined(NET, builds), constants)))
    inputs = [np.random.default_rng(n).random((24, 40), np.float32) for n in range(8)]
    wanted = [kernel(one) for one in inputs]
    exact = np.maximum(inputs[0] @ constants[0], 0)
    assert np.allclose(wanted[0][1], exact, atol=1e-4)

    def calls(n: int) -> bool:
        found = [kernel(inputs[n]) for _ in range(50)]
        return all(np.array_equal(y, wanted[n][0]) and np.array_equal(u, wanted[n][1]) for y, u in found)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(calls, range(8)))


def test_what_is_refused() -> None:
    kernels = cut(NET)
    artifacts = [BUILDS[1](kernel) for kernel in kernels]
    with pytest.raises(InternalError, match="each kernel needs an artifact"):
        compose(NET, kernels, artifacts[1:], {})
    with pytest.raises(InternalError, match="does not fit"):
        compose(NET, kernels, [artifacts[1], *artifacts[1:]], {})
    with pytest.raises(InternalError, match="for several targets"):
        compose(NET, kernels, [replace(artifacts[0], target="cpu:x86-64-v3"), *artifacts[1:]], {})
    with pytest.raises(InternalError, match="do not compute the program"):
        compose(NET, kernels[::-1], artifacts[::-1], {})
    on_gpu = build(kernels[1], UNSCHEDULED, {}, parse_target("cuda:emulator"), 1)
    with pytest.raises(TargetError, match="not joined for GPUs yet"):
        compose(NET, kernels, [artifacts[0], on_gpu, *artifacts[2:]], {})
