"""Streams: whose a call works on, that nothing races or waits, that calls can be captured into graphs; and lost arrays."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tilesmith as ts
from contracts.fake_arrays import Exported, Interfaced, torch_on
from contracts.fake_drivers import installed
from contracts.fake_gpu import FakeGpu
from tilesmith.codegen.artifact import Artifact
from tilesmith.codegen.pipeline import build
from tilesmith.common.errors import ArgumentError, DeviceLost, EnvironmentFailure, KernelFault
from tilesmith.runtime.devices.cuda.device import CudaPort
from tilesmith.runtime.devices.cuda.opening import open_driver
from tilesmith.runtime.devices.gpu import GpuDevice
from tilesmith.runtime.kernel import Kernel
from tilesmith.schedules.sketch import UNSCHEDULED
from tilesmith.targets.target import parse_target

# two launches, with a workspace between them
PROGRAM = ts.parse("""\
input A: f32[6, 5]
C[i: 6] = sum[k: 5](A[i, k])
D[i: 6, j: 5] = A[i, j] - C[i]
return D
""")
SIDE, OTHER = 0x7000, 0x9000
A = np.arange(30, dtype=np.float32).reshape(6, 5)
WANTED = A - A.sum(1, keepdims=True)
WAITS = {"cuCtxSynchronize", "cuStreamSynchronize", "cuEventSynchronize", "cuMemcpyDtoHAsync"}


@pytest.fixture(scope="module")
def pair() -> tuple[Artifact, Artifact]:
    real, emulated = (build(PROGRAM, UNSCHEDULED, {}, parse_target(t), 1) for t in ("cuda:sm_90", "cuda:emulator"))
    assert len(real.launches) == 2 and real.workspace_bytes
    return real, emulated


@pytest.fixture
def gpu(pair: tuple[Artifact, Artifact]) -> Iterator[FakeGpu]:
    fake = FakeGpu()
    fake.knows(*pair)
    with installed(fake, "bindings"):
        yield fake
    assert fake.contexts == ["of the caller"]


@pytest.fixture
def kernel(gpu: FakeGpu, pair: tuple[Artifact, Artifact]) -> Kernel:
    return Kernel(pair[0], device=GpuDevice(CudaPort(open_driver(0), 0)))


def port_of(kernel: Kernel) -> CudaPort:
    return kernel.device.port  # type: ignore[attr-defined, no-any-return]


def launched(gpu: FakeGpu) -> list[int]:
    return [stream for name, stream in gpu.work if "_" in name and not name.startswith("wait")]


def a_and_out(kernel: Kernel) -> tuple[Any, Any]:
    return kernel.device.upload(A), kernel.device.empty((6, 5), np.dtype("f4"))


# ---- which stream


def test_a_tensor_of_torch_is_worked_on_in_its_current_stream(
    gpu: FakeGpu, kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", torch_on(SIDE))
    tensor = Exported(kernel.device.upload(A))
    gpu.calls.clear()
    found = kernel(tensor)
    assert launched(gpu) == [SIDE, SIDE]
    assert tensor.asked == [-1], "torch is on this stream already: nothing has to be ordered"
    assert not WAITS & set(gpu.calls)
    assert found.__cuda_array_interface__["stream"] == SIDE
    assert np.allclose(found.numpy(), WANTED)
    assert gpu.work[-1] == ("synchronize", SIDE) and gpu.work[-2] == ("download", SIDE)


def test_torch_on_its_default_stream(gpu: FakeGpu, kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", torch_on(0))
    kernel(Exported(kernel.device.upload(A)))
    assert launched(gpu) == [0, 0]


@pytest.mark.parametrize("stream", [
    SIDE, SimpleNamespace(cuda_stream=SIDE), SimpleNamespace(__cuda_stream__=lambda: (0, SIDE)),
    SimpleNamespace(__cuda_stream__=(0, SIDE)),
])  # fmt: skip
def test_a_stream_can_be_asked_for(
    gpu: FakeGpu, kernel: Kernel, stream: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", torch_on(OTHER))
    tensor = Exported(kernel.device.upload(A))
    kernel(tensor, stream=stream)
    assert launched(gpu) == [SIDE, SIDE]
    assert tensor.asked == [SIDE], "torch orders its own stream before this one"


@pytest.mark.parametrize("stream", ["fast", -1, 2, True, SimpleNamespace(cuda_stream="no")])
def test_what_is_no_stream_is_refused(kernel: Kernel, stream: object) -> None:
    with pytest.raises(ArgumentError, match="stream"):
        kernel(a_and_out(kernel)[0], stream=stream)


def test_a_kernel_of_processors_has_no_stream() -> None:
    cpu = Kernel(build(PROGRAM, UNSCHEDULED, {}, parse_target("host"), 1))
    with pytest.raises(ArgumentError, match="for kernels on a GPU"):
        cpu(A, stream=SIDE)


def test_other_producers_are_told_the_stream(gpu: FakeGpu, kernel: Kernel) -> None:
    first, second = (Exported(kernel.device.upload(A)) for _ in range(2))
    kernel(first)
    kernel(second, stream=SIDE)
    assert (first.asked, second.asked) == ([1], [SIDE])
    assert launched(gpu) == [0, 0, SIDE, SIDE]


def test_an_array_that_names_its_stream(gpu: FakeGpu, kernel: Kernel) -> None:
    a, _ = a_and_out(kernel)
    kernel(Interfaced(a, SIDE))
    assert launched(gpu) == [SIDE, SIDE]
    gpu.work.clear()
    kernel(Interfaced(a, SIDE), stream=OTHER)
    assert gpu.work.index((f"wait for {SIDE}", OTHER)) < gpu.work.index(
        next(w for w in gpu.work if w[0].endswith("_0"))
    )


# ---- order between streams, and the life of memory


def test_what_is_used_on_two_streams_is_ordered_between_them(gpu: FakeGpu, kernel: Kernel) -> None:
    a, out = a_and_out(kernel)
    kernel(a, out=out, stream=SIDE)
    gpu.work.clear()
    gpu.calls.clear()
    kernel(a, out=out, stream=OTHER)
    first = next(n for n, (name, _) in enumerate(gpu.work) if name.endswith("_0"))
    assert gpu.work[:first].count((f"wait for {SIDE}", OTHER)) == 3, "input, output, and the workspace"
    assert not WAITS & set(gpu.calls)
    assert out.stream == OTHER


def test_memory_serves_again_only_where_it_was_freed(gpu: FakeGpu, kernel: Kernel) -> None:
    size = (4000,), np.dtype("f4")
    pointer = kernel.device.empty(*size, SIDE).pointer  # type: ignore[call-arg]
    assert kernel.device.empty(*size).pointer != pointer
    assert kernel.device.empty(*size, SIDE).pointer == pointer  # type: ignore[call-arg]


def test_what_was_lent_is_held_until_the_device_has_done_with_it(gpu: FakeGpu, kernel: Kernel) -> None:
    gpu.done = False
    kernel(Exported(kernel.device.upload(A)), stream=SIDE)
    kernel(Exported(kernel.device.upload(A)), stream=SIDE)
    assert len(port_of(kernel)._held) == 2
    gpu.done = True
    kernel(Exported(kernel.device.upload(A)), stream=SIDE)
    assert len(port_of(kernel)._held) == 1


# ---- graphs


def test_a_call_can_be_captured(gpu: FakeGpu, kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", torch_on(SIDE))
    tensor, out = Exported(kernel.device.upload(A)), Exported(kernel.device.empty((6, 5), np.dtype("f4")))
    kernel(tensor, out=out)  # as torch asks for it: once on a side stream before the capture
    monkeypatch.setitem(sys.modules, "torch", torch_on(OTHER))
    gpu.captures[OTHER] = 7
    gpu.work.clear()
    gpu.calls.clear()
    kernel(tensor, out=out)
    kernel(tensor, out=out)
    assert gpu.work == [(name, OTHER) for name in [x.symbol for x in kernel.artifact.launches] * 2]
    assert not {"cuMemAlloc", "cuMemFree", *WAITS} & set(gpu.calls)
    gpu.captures.clear()


def test_a_graph_has_a_workspace_of_its_own(gpu: FakeGpu, kernel: Kernel) -> None:
    a, out = a_and_out(kernel)
    loaded: Any = kernel._loaded
    kernel(a, out=out, stream=SIDE)
    usual = loaded._workspace.pointer
    for number in (7, 8):
        gpu.captures[OTHER] = number
        kernel(a, out=out, stream=OTHER)
        gpu.captures.clear()
    spaces = {usual, *(x.pointer for x in loaded._captured.values())}
    assert len(spaces) == 3
    modules = gpu.loaded
    del kernel, loaded
    assert gpu.loaded == modules, "the graphs still need the code"


def test_host_arrays_are_no_part_of_a_graph(gpu: FakeGpu, kernel: Kernel) -> None:
    gpu.captures[SIDE] = 3
    with pytest.raises(ArgumentError, match=r"(?s)argument 0.*captured.*before the capture"):
        kernel(A, stream=SIDE)


# ---- contexts, modules, faults


def test_the_callers_context_is_left_as_it_was(gpu: FakeGpu, kernel: Kernel) -> None:
    assert gpu.contexts == ["of the caller"]
    kernel(A)
    kernel.time()
    gpu.breaks("CUDA_ERROR_ILLEGAL_ADDRESS")
    with pytest.raises(KernelFault):
        kernel(A)
    assert gpu.contexts == ["of the caller"]


@pytest.mark.parametrize("binding", ["bindings", "pycuda"])
def test_modules_are_unloaded(pair: tuple[Artifact, Artifact], binding: str) -> None:
    fake = FakeGpu()
    fake.knows(*pair)
    with installed(fake, binding):
        device = GpuDevice(CudaPort(open_driver(0), 0))
        for _ in range(6):
            Kernel(pair[0], device=device)(A)
        assert fake.loaded <= 2


@pytest.mark.parametrize("binding", ["bindings", "pycuda"])
def test_arrays_from_before_a_fault_are_refused(pair: tuple[Artifact, Artifact], binding: str) -> None:
    fake = FakeGpu()
    fake.knows(*pair)
    with installed(fake, binding):
        kernel = Kernel(pair[0], device=GpuDevice(CudaPort(open_driver(0), 0)))
        lost = list(a_and_out(kernel))
        fake.breaks("CUDA_ERROR_ILLEGAL_ADDRESS")
        with pytest.raises(KernelFault):
            kernel(A)
        for use in (
            lambda: kernel(lost[0]), lambda: kernel(A, out=lost[1]), lost[0].numpy,
            lambda: lost[0].__cuda_array_interface__, lambda: lost[0].fill(A), lambda: kernel.repeat(lost, 1),
            lambda: lost[1].copy_from(lost[0]),
        ):  # fmt: skip
            with pytest.raises(ArgumentError, match="was lost"):
                use()
        new, out = a_and_out(kernel)
        del use
        lost.clear()  # whose address may be one of theirs by now: it must not be freed
        assert np.allclose(kernel(new, out=out).numpy(), WANTED)


def test_an_error_from_before_is_not_this_kernels(
    gpu: FakeGpu, kernel: Kernel, pair: tuple[Artifact, Artifact]
) -> None:
    kernel(A)
    gpu.broken = "CUDA_ERROR_ECC_UNCORRECTABLE"
    with pytest.raises(DeviceLost, match="was broken before loading"):
        kernel.device.load(pair[0])
    assert np.allclose(kernel(A), WANTED)
    gpu.broken = "CUDA_ERROR_LAUNCH_FAILED"
    with pytest.raises(DeviceLost, match="was broken before"):
        kernel(A)


def test_pycuda_refuses_streams_that_it_does_not_know(pair: tuple[Artifact, Artifact]) -> None:
    fake = FakeGpu()
    fake.knows(*pair)
    with installed(fake, "pycuda"):
        kernel = Kernel(pair[0], device=GpuDevice(CudaPort(open_driver(0), 0)))
        with pytest.raises(EnvironmentFailure, match=r"(?s)pycuda cannot.*cuda-bindings"):
            kernel(A, stream=SIDE)
        assert np.allclose(kernel(A, stream=1), WANTED)
