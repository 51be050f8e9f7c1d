"""Profilers of others are told of each kernel, and of nothing where nobody asks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tilesmith as ts
from tilesmith.common.errors import ArgumentError, EnvironmentFailure
from tilesmith.runtime.kernel import Kernel

MODEL = """
input x: f32[48, 48]
y[i: 48, j: 48] = sum[k: 48](x[i, k] * x[k, j])
z[i: 48, j: 48] = sum[k: 48](y[i, k] * y[k, j])
return z
"""
X = np.eye(48, dtype=np.float32)


@pytest.fixture(scope="module")
def model() -> Kernel:
    return ts.compile(ts.parse(MODEL), threads=2)


def again(kernel: Kernel) -> Kernel:
    return Kernel(kernel.artifact)


def expected(kernel: Kernel) -> list[str]:
    """Kernels are pushed inside of the model, in order."""
    artifact = kernel.artifact
    names = {one.symbol: one.name for one in artifact.kernels}
    calls = [names[launch.symbol] for launch in artifact.launches]
    assert len(calls) > 1
    return [f"+{artifact.name}", *(step for name in calls for step in (f"+{name}", "-")), "-"]


@pytest.mark.parametrize("name", ["nvtx", "itt"])
def test_ranges_have_the_names_of_kernels(name: str, model: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    nvtx: Any = ModuleType("nvtx")
    nvtx.push_range = lambda message, domain: steps.append(f"+{message}")
    nvtx.pop_range = lambda domain: steps.append("-")
    itt: Any = ModuleType("ittapi")
    itt.domain = itt.string_handle = lambda text: text
    itt.task_begin = lambda domain, handle: steps.append(f"+{handle}")
    itt.task_end = lambda domain: steps.append("-")
    monkeypatch.setitem(sys.modules, "nvtx", nvtx)
    monkeypatch.setitem(sys.modules, "ittapi", itt)
    monkeypatch.setenv("TILESMITH_RANGES", name)
    kernel = again(model)
    out = np.empty_like(X)
    assert (kernel(X) == X).all() and (kernel(X, out=out) == X).all()
    assert steps == 2 * expected(model)
    steps.clear()
    single = Kernel(ts.compile(ts.ops.relu(16), threads=1).artifact)
    single(np.ones(16, np.float32))
    assert steps == [f"+{single.artifact.name}", "-"]


@pytest.mark.parametrize("name", ["nvtx", "itt"])
def test_what_is_missing_is_said(name: str, model: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, {"itt": "ittapi"}.get(name, name), None)
    monkeypatch.setenv("TILESMITH_RANGES", name)
    with pytest.raises(EnvironmentFailure, match="pip install"):
        again(model)
    monkeypatch.setenv("TILESMITH_RANGES", "vtune")
    with pytest.raises(ArgumentError, match="nvtx, itt"):
        again(model)


class Tensor:
    """An array of a package that is no NumPy."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __array_namespace__(self) -> Any:
        return np


def test_kernels_are_in_the_trace_of_torch_only_while_its_profiler_is_on(
    model: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []

    @contextmanager
    def record(name: str) -> Iterator[None]:
        steps.append(f"+{name}")
        yield
        steps.append("-")

    state = SimpleNamespace(on=False)
    torch: Any = ModuleType("torch")
    torch.autograd = SimpleNamespace(_profiler_enabled=lambda: state.on)
    torch.profiler = SimpleNamespace(record_function=record)
    monkeypatch.setitem(sys.modules, "torch", torch)
    kernel = again(model)
    kernel(Tensor(X))
    assert not steps
    state.on = True
    kernel(X)
    assert not steps
    assert (np.asarray(kernel(Tensor(X))) == X).all()
    assert steps == expected(model)


def test_kernels_are_in_a_real_trace_of_torch(model: Kernel) -> None:
    torch = pytest.importorskip("torch")
    with torch.profiler.profile() as trace:
        again(model)(torch.eye(48))
    found = {one.key: one.count for one in trace.key_averages()}
    assert found[model.artifact.name] == 1 and all(found[one.name] for one in model.artifact.kernels)
