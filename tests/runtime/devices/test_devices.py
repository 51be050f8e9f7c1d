"""The device contract on everything that is a device here; and what the CUDA driver is asked, with a driver that is none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from contracts.device import CONSTANT, PLAIN, DeviceContract
from contracts.fake_drivers import installed
from contracts.fake_gpu import FakeGpu
from tilesmith.codegen.artifact import Artifact
from tilesmith.codegen.pipeline import build
from tilesmith.common.errors import (
    DeviceLost,
    EnvironmentFailure,
    KernelFault,
    MissingExtra,
    OutOfDeviceMemory,
    TargetError,
)
from tilesmith.runtime.devices.base import Device
from tilesmith.runtime.devices.choose import open_device
from tilesmith.runtime.devices.cuda.device import CudaPort, flush
from tilesmith.runtime.devices.cuda.occupancy import blocks_of
from tilesmith.runtime.devices.cuda.opening import open_driver
from tilesmith.runtime.devices.driver import DeviceFacts
from tilesmith.runtime.devices.gpu import GpuDevice
from tilesmith.schedules.sketch import UNSCHEDULED
from tilesmith.targets.backend import Gpu
from tilesmith.targets.cuda import devices as nvidia
from tilesmith.targets.cuda.devices import gpus
from tilesmith.targets.target import parse_target

SM = parse_target("cuda:sm_90")
EMULATED = parse_target("cuda:emulator")


class TestCpu(DeviceContract):
    target = "host"

    @pytest.fixture
    def device(self) -> Device:
        return open_device("cpu")


class TestEmulator(DeviceContract):
    target = "cuda:emulator"

    @pytest.fixture
    def device(self) -> Device:
        return open_device("cuda:emulator")


@pytest.mark.gpu
@pytest.mark.skipif(not gpus(), reason="no NVIDIA device")
class TestCuda(DeviceContract):
    target = "cuda:sm_80"

    @pytest.fixture
    def device(self) -> Device:
        return open_device("cuda:0")


def ptx(program: Any) -> Artifact:
    return build(program, UNSCHEDULED, {}, SM, 1)


@pytest.fixture(scope="module")
def pairs() -> list[tuple[Artifact, Artifact]]:
    return [(ptx(program), build(program, UNSCHEDULED, {}, EMULATED, 1)) for program in (PLAIN, CONSTANT)]


@pytest.fixture(params=["bindings", "pycuda"])
def gpu(request: pytest.FixtureRequest, pairs: list[tuple[Artifact, Artifact]]) -> Iterator[FakeGpu]:
    fake = FakeGpu()
    for real, emulated in pairs:
        fake.knows(real, emulated)
    with installed(fake, request.param):
        yield fake


def opened() -> GpuDevice:
    return GpuDevice(CudaPort(open_driver(0), 0))


class TestCudaWithAFakeDriver(DeviceContract):
    target = "cuda:sm_90"

    @pytest.fixture
    def device(self, gpu: FakeGpu) -> Device:
        return opened()


def run_once(device: GpuDevice, artifact: Artifact) -> Any:
    kernel = device.load(artifact)
    a, b = np.ones((6, 5), np.float32), np.ones((5, 4), np.float32)
    out = device.empty((6, 4), np.dtype("f4"))
    kernel.run([device.upload(a), device.upload(b), out])
    return out.numpy()


def test_each_timed_run_is_between_events_with_the_cache_emptied(gpu: FakeGpu) -> None:
    device = opened()
    kernel = device.load(ptx(PLAIN))
    arrays = [device.empty(shape, np.dtype("f4")) for shape in ((6, 5), (5, 4), (6, 4))]
    gpu.calls.clear()
    seconds = kernel.run_repeat(arrays, 70)
    launches = len(kernel.artifact.launches)
    assert gpu.calls.count("cuEventRecord") == 140
    names = [name for name, _ in gpu.work if name == flush.SYMBOL or name.startswith(kernel.artifact.symbol)]
    assert len(names) == 1 + 70 * (1 + launches)  # the buffer is read once when it is made, then before each run
    assert "cuMemsetD8Async" not in gpu.calls[gpu.calls.index("cuEventRecord") :], "lines that must be written back"
    assert seconds == pytest.approx(70 * launches * 1e-3)


def test_registers_local_memory_and_occupancy_come_from_the_driver(gpu: FakeGpu) -> None:
    artifact = ptx(PLAIN)
    facts = opened().load(artifact).facts[artifact.launches[0].symbol]
    assert facts["registers"] == 40 and facts["local_bytes"] == 0 and facts["blocks"] >= 1


def test_freed_memory_serves_again(gpu: FakeGpu) -> None:
    device = opened()
    device.empty((100,), np.dtype("f4"))
    gpu.calls.clear()
    device.empty((101,), np.dtype("f4"))
    assert "cuMemAlloc" not in gpu.calls


# ---- bad input


def test_no_binding(gpu: FakeGpu) -> None:
    with installed(gpu, ""), pytest.raises(MissingExtra, match=r"tilesmith\[cuda-bindings\]"):
        open_driver(0)


def test_no_driver(gpu: FakeGpu) -> None:
    gpu.fails["cuInit"] = "CUDA_ERROR_NOT_SUPPORTED", 9
    with pytest.raises(EnvironmentFailure, match=r"(?s)cannot be used.*libcuda"):
        open_driver(0)


def test_no_driver_library(gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise RuntimeError('"cuda" is an NVIDIA driver library and can only be found via system search')

    monkeypatch.setattr(gpu, "call", missing)
    with pytest.raises(EnvironmentFailure, match=r"(?s)cannot be used.*NVIDIA driver library"):
        open_driver(0)


def test_no_such_device(gpu: FakeGpu) -> None:
    with pytest.raises(EnvironmentFailure, match="CUDA device 3 cannot be used"):
        open_driver(3)


def test_refused_ptx_shows_the_log_and_the_kernel(gpu: FakeGpu) -> None:
    gpu.fails["cuModuleLoadDataEx"] = "CUDA_ERROR_INVALID_PTX", 1
    gpu.log = "ptxas fatal: line 12: syntax error"
    artifact = ptx(PLAIN)
    with pytest.raises(TargetError, match=rf"(?s)refuses the PTX of kernel {artifact.symbol}.*line 12.*version"):
        opened().load(artifact)


def test_code_for_a_newer_device(gpu: FakeGpu) -> None:
    artifact = replace(ptx(PLAIN), target=parse_target("cuda:sm_100").text)
    with pytest.raises(TargetError, match=r"(?s)cuda:0 cannot run code for cuda:sm_100.*9\.0"):
        opened().load(artifact)


def test_out_of_memory_gives_up_what_is_kept_and_then_says_so(gpu: FakeGpu) -> None:
    device = opened()
    device.empty((100,), np.dtype("f4"))  # freed, and kept
    gpu.fails["cuMemAlloc"] = "CUDA_ERROR_OUT_OF_MEMORY", 1
    device.empty((1 << 20,), np.dtype("f4"))
    assert "cuMemFree" in gpu.calls
    gpu.fails["cuMemAlloc"] = "CUDA_ERROR_OUT_OF_MEMORY", 2
    with pytest.raises(OutOfDeviceMemory, match=r"(?s)no memory left.*12345 bytes free"):
        device.empty((1 << 22,), np.dtype("f4"))


def test_after_an_illegal_address_the_context_is_made_anew(gpu: FakeGpu) -> None:
    device, artifact = opened(), ptx(PLAIN)
    kernel = device.load(artifact)
    arrays = [device.empty(shape, np.dtype("f4")) for shape in ((6, 5), (5, 4), (6, 4))]
    gpu.breaks("CUDA_ERROR_ILLEGAL_ADDRESS")
    with pytest.raises(KernelFault, match=rf"(?s){artifact.launches[0].symbol} failed on cuda:0: illegal address"):
        kernel.run_repeat(arrays, 1)
    assert device.port.generation == 1
    del arrays  # of the old context: nobody frees them
    ones = [device.upload(np.ones(shape, np.float32)) for shape in ((6, 5), (5, 4))]
    out = device.empty((6, 4), np.dtype("f4"))
    kernel.run([*ones, out])  # loads itself again
    assert (out.numpy() == 6).all()


def test_a_device_that_does_not_recover(gpu: FakeGpu) -> None:
    device = opened()
    gpu.breaks("CUDA_ERROR_LAUNCH_FAILED")
    for call in ("cuDevicePrimaryCtxReset", "cuDevicePrimaryCtxRelease"):
        gpu.fails[call] = "CUDA_ERROR_LAUNCH_FAILED", 1
    with pytest.raises(KernelFault, match="does not recover"):
        run_once(device, ptx(PLAIN))
    with pytest.raises(DeviceLost, match=r"(?s)cannot be used any more.*new one"):
        run_once(device, ptx(PLAIN))


def test_a_block_that_does_not_fit(gpu: FakeGpu) -> None:
    artifact = ptx(PLAIN)
    large = replace(artifact, launches=tuple(replace(one, block=(2048,)) for one in artifact.launches))
    with pytest.raises(KernelFault, match=r"(?s)does not fit.*1024 threads with 40 registers.*2048 threads"):
        opened().load(large)


def test_a_target_newer_than_llvm_knows() -> None:
    from tilesmith.codegen.backends.gpu import compile_kernels

    class Newer:
        cpu, triple, level = "sm_999", SM.triple, "sm_999"
        emission = SM.emission

        def __hash__(self) -> int:
            return 1

    with pytest.raises(TargetError, match=r"(?s)sm_999.*llvmlite"):
        compile_kernels("", Newer())  # type: ignore[arg-type]


@pytest.mark.parametrize(("registers", "threads", "shared", "expected"), [
    (128, 256, 0, 2), (32, 1024, 0, 2), (40, 256, 0, 6), (32, 64, 0, 32), (32, 128, 100 << 10, 2), (255, 512, 0, 0),
])  # fmt: skip
def test_occupancy(registers: int, threads: int, shared: int, expected: int) -> None:
    device = DeviceFacts("", "", (9, 0), 132, 0, 65536, 2048, 228 << 10, 227 << 10)
    assert blocks_of(device, registers, threads, shared) == expected


def test_the_target_cuda_is_the_gpu_that_is_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvidia, "gpus", lambda: (Gpu("H", (9, 0), 130, 50 << 20, 80 << 30),))
    target = parse_target("cuda")
    assert target.level == "sm_90a" and target.cores == 130 and target.text.startswith("cuda:sm_90a;")
    monkeypatch.setattr(nvidia, "gpus", lambda: ())
    with pytest.raises(TargetError, match=r"(?s)this machine's GPU.*cuda:emulator"):
        parse_target("cuda")
