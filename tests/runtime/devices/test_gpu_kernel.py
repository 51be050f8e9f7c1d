"""Kernels on a device with memory of its own: the emulator, through the whole way from a program."""

from __future__ import annotations

import numpy as np
import pytest

import tilesmith as ts
from tilesmith.codegen.pipeline import build
from tilesmith.common.errors import ArgumentError
from tilesmith.runtime.devices.gpu import DeviceArray
from tilesmith.runtime.kernel import Kernel
from tilesmith.schedules.sketch import UNSCHEDULED
from tilesmith.targets.target import parse_target

TARGET = parse_target("cuda:emulator")
PROGRAM = ts.parse("""\
input A: f32[6, 5]
input B: f32[5, 4]
C[i: 6, j: 4] = sum[k: 5](A[i, k] * B[k, j])
D[i: 6, j: 4] = C[i, j] + 1
return D
""")
WITH_CONSTANT = ts.parse("""\
input A: f32[6, 5]
constant B: f32[5]
C[i: 6, j: 5] = A[i, j] * B[j]
return C
""")


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    return Kernel(build(PROGRAM, UNSCHEDULED, {}, TARGET, 1))


def arrays() -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    generator = np.random.default_rng(0)
    return generator.random((6, 5), np.float32), generator.random((5, 4), np.float32)


def test_host_arrays_are_copied_there_and_back(kernel: Kernel) -> None:
    a, b = arrays()
    found = kernel(a, b)
    assert isinstance(found, np.ndarray)
    assert np.allclose(found, a @ b + 1)


def test_device_arrays_stay_there(kernel: Kernel) -> None:
    a, b = arrays()
    found = kernel(kernel.device.upload(a), b)
    assert isinstance(found, DeviceArray)
    assert np.allclose(found.numpy(), a @ b + 1)


def test_out_may_be_on_either_side(kernel: Kernel) -> None:
    a, b = arrays()
    out = np.zeros((6, 4), np.float32)
    assert kernel(a, b, out=out) is out
    assert np.allclose(out, a @ b + 1)
    there = kernel.device.empty((6, 4), np.dtype("f4"))
    assert kernel(a, b, out=there) is there
    assert np.allclose(there.numpy(), a @ b + 1)


def test_constants_are_given_once() -> None:
    a, b = np.ones((6, 5), np.float32), np.arange(5, dtype=np.float32)
    kernel = Kernel(build(WITH_CONSTANT, UNSCHEDULED, {}, TARGET, 1), [b])
    assert (kernel(a) == a * b).all()


def test_time_is_measured(kernel: Kernel) -> None:
    assert kernel.time() > 0


class Elsewhere:
    """An array of a CUDA device, as other libraries show theirs."""

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0

    def __dlpack__(self, stream: int | None = None) -> object:
        raise AssertionError("it must not be asked for")


class Numba:
    __cuda_array_interface__ = {"shape": (5, 4), "typestr": "<f4", "data": (4096, False), "version": 3}  # noqa: RUF012


@pytest.mark.parametrize("value", [Elsewhere(), Numba()])
def test_an_array_of_another_device_is_refused(kernel: Kernel, value: object) -> None:
    with pytest.raises(ArgumentError, match=r"(?s)argument 1 .* another device.*cuda:emulator"):
        kernel(arrays()[0], value)


def test_an_array_of_a_gpu_is_refused_by_a_cpu_kernel() -> None:
    a, b = arrays()
    cpu = Kernel(build(PROGRAM, UNSCHEDULED, {}, parse_target("host"), 1))
    with pytest.raises(ArgumentError, match="CUDA device"):
        cpu(a, Elsewhere())
    emulated = Kernel(build(PROGRAM, UNSCHEDULED, {}, TARGET, 1))
    with pytest.raises(ArgumentError, match="argument 1"):
        cpu(a, emulated.device.upload(b))


@pytest.mark.parametrize(("shape", "dtype", "message"), [
    ((5, 5), "f4", "wrong shape"), ((5, 4), "f8", "wrong dtype"),
])  # fmt: skip
def test_wrong_device_arrays_are_refused(kernel: Kernel, shape: tuple[int, int], dtype: str, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        kernel(arrays()[0], kernel.device.empty(shape, np.dtype(dtype)))


def test_out_must_be_apart_from_inputs() -> None:
    program = ts.parse("input A: f32[8]\nB[i: 8] = A[i] + 1\nreturn B\n")
    kernel = Kernel(build(program, UNSCHEDULED, {}, TARGET, 1))
    a = kernel.device.upload(np.zeros(8, np.float32))
    with pytest.raises(ArgumentError, match="shares memory"):
        kernel(a, out=a)


def test_memory_is_given_back(kernel: Kernel) -> None:
    port = kernel.device.port  # type: ignore[attr-defined]
    used = port._used
    array = kernel.device.empty((1024,), np.dtype("f4"))
    assert port._used == used + 4096
    del array
    assert port._used == used
