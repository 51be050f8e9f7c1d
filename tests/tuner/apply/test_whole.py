"""Programs of several kernels: cut, picked, built and tuned apart, called as one."""

from __future__ import annotations

import sys
import weakref
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import tilesmith as ts
from tilesmith.common.errors import EnvironmentFailure, NoRecordError
from tilesmith.graph.executor.provenance import ModelProvenance
from tilesmith.graph.model import Model
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tuner.apply.together import WORTH, first_built_of
from tilesmith.tuner.kernels import Kernels, parts_of, tuned_tasks

HOST = parse_target("host")
compile_module = import_module("tilesmith.tuner.apply.compile")


@pytest.fixture(autouse=True)
def own_cache(cache_with_drafts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILESMITH_DB", str(tmp_path / "records.sqlite"))


def layers(*widths: int, rows: int = 6) -> ts.Program:
    """Dense layers with a bias and a hyperbolic tangent each."""
    value = ts.placeholder((rows, widths[0]), name="x")
    for number, (width, to) in enumerate(pairwise(widths)):
        k, w, b = (
            ts.reduce_axis(width, "k"),
            ts.constant((width, to), name=f"w{number}"),
            ts.constant((to,), name=f"b{number}"),
        )
        product = ts.compute((rows, to), lambda i, j, v=value, w=w, k=k: ts.sum(v[i, k] * w[k, j], k), axes=("i", "j"))
        value = ts.compute((rows, to), lambda i, j, p=product, b=b: ts.tanh(p[i, j] + b[j]), axes=("i", "j"))
    return ts.program(value)


def values(program: ts.Program) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {t.name: rng.normal(0, 0.3, t.shape).astype(np.float32) for t in program.constant_inputs}


def expected(x: np.ndarray, constants: dict[str, np.ndarray]) -> np.ndarray:
    for number in range(len(constants) // 2):
        x = np.tanh(x @ constants[f"w{number}"] + constants[f"b{number}"])
    return x


def test_a_program_of_one_product_is_one_task() -> None:
    assert parts_of(layers(20, 24), HOST) is None
    assert parts_of(ts.ops.attention(heads=2, queries=48, keys=48, width=16), HOST) is None


def test_equal_kernels_are_one_task() -> None:
    parts = parts_of(layers(24, 24, 24, 20), HOST)
    assert parts is not None
    kernels = Kernels.of(parts, HOST, 1, "default")
    assert kernels.number == (0, 0, 1) and len(kernels.tasks) == 2
    apart = tuned_tasks([layers(24, 24, 24, 20), layers(20, 24)], [2, 1], HOST, 1, "default").tasks
    assert [one.count for one in apart] == [4, 2, 1] and [one.task.in_model for one in apart] == [True, True, False]
    assert [one.task.key for one in apart] == [
        *(task.key for task in kernels.tasks),
        Task.of(layers(20, 24), HOST, 1).key,
    ]


def test_layers_are_called_as_one_kernel() -> None:
    program = layers(20, 24, 24, 24, 17)
    constants = values(program)
    kernel = ts.compile(Model(program, constants), threads=1)
    x = np.random.default_rng(1).normal(0, 1, (6, 20)).astype(np.float32)
    np.testing.assert_allclose(kernel(x), expected(x, constants), rtol=1e-5, atol=1e-6)
    assert isinstance(kernel.provenance, ModelProvenance) and len(kernel.provenance.calls) == 4
    assert kernel.text("program") == str(program)
    assert kernel.text("loops").count("# kernel") == 3  # the second layer is the third


def test_strict_wants_a_record_of_each_kernel() -> None:
    with pytest.raises(NoRecordError):
        ts.compile(layers(20, 24, 24), constants=values(layers(20, 24, 24)), strict=True, threads=1)


def test_helpers_pick_what_this_process_does_and_one_that_dies_costs_nothing(
    monkeypatch: pytest.MonkeyPatch, cold_children: None
) -> None:
    monkeypatch.setattr("tilesmith.tuner.apply.together.usable_cores", lambda: 2)
    sizes = [(4, 8 + n, 16) for n in range(WORTH)]
    tasks = [Task.of(ts.ops.matmul(m=m, n=n, k=k), HOST, 1) for m, n, k in sizes]
    found = first_built_of(tasks, None, strict=False)
    monkeypatch.setattr(sys, "executable", "/bin/false")
    again = first_built_of(tasks, None, strict=False)
    assert [pick for pick, _ in found] == [pick for pick, _ in again]
    assert [artifact.symbol for _, artifact in found] == [artifact.symbol for _, artifact in again]


def test_the_kernels_of_a_program_are_tuned_and_then_served() -> None:
    program = layers(20, 24, 24, 24)
    result = ts.tune(program, trials=12, threads=1, progress=False)
    assert len(result.tasks) == 2
    kernel = ts.compile(program, constants=values(program), threads=1)
    assert isinstance(kernel.provenance, ModelProvenance)
    assert {getattr(call.provenance, "tier", "") for call in kernel.provenance.calls} == {"exact"}
    x = np.ones((6, 20), np.float32)
    np.testing.assert_allclose(kernel(x), expected(x, values(program)), rtol=1e-5, atol=1e-6)


def test_what_picking_leaves_is_freed_before_memory_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks of many kernels are megabytes: what C's allocator has of them is given back when nobody holds them any more."""
    made: list[weakref.ref[Kernels]] = []
    held: list[bool] = []

    def remembered(*given: object) -> Kernels:
        found = of(*given)  # type: ignore[arg-type]
        made.append(weakref.ref(found))
        return found

    of = Kernels.of
    monkeypatch.setattr(compile_module, "Kernels", SimpleNamespace(of=remembered))
    monkeypatch.setattr(compile_module, "release_compiler", lambda: held.append(made[0]() is not None))
    program = layers(20, 24, 28, 24, 20, 12)
    kernel = ts.compile(program, threads=1, constants=values(program))
    assert held == [False] and len(made) == 1
    assert kernel.artifact.kernels


def test_the_machine_is_measured_before_kernels_of_a_model_are_picked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once for a program of several kernels; never for another machine, nor for more threads than there are processors."""
    asked: list[tuple[str, int]] = []

    def fails(target: ts.Target, threads: int) -> None:
        asked.append((target.text, threads))
        raise EnvironmentFailure("no loops run here")

    monkeypatch.setattr(compile_module, "ceilings", fails)
    program = layers(8, 8, 8)
    assert ts.compile(program, constants=values(program), threads=1).artifact.kernels, "it is compiled all the same"
    assert asked == [(HOST.text, 1)]
    compile_module.compile_for(program, HOST, None, HOST.cores + 1, values(program))
    compile_module.compile_for(layers(8, 8), HOST, None, 1, values(layers(8, 8)))
    assert len(asked) == 1
