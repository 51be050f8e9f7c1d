"""What every device must do: one class of tests for the CPU, the emulator, and CUDA through each binding."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tilesmith as ts
from tilesmith.codegen.artifact import Artifact
from tilesmith.codegen.pipeline import build
from tilesmith.common.errors import TargetError
from tilesmith.runtime.devices.base import Device, LoadedKernel
from tilesmith.schedules.sketch import UNSCHEDULED
from tilesmith.targets.target import parse_target

PLAIN = ts.parse("""\
input A: f32[6, 5]
input B: f32[5, 4]
C[i: 6, j: 4] = sum[k: 5](A[i, k] * B[k, j])
D[i: 6, j: 4] = C[i, j] + 1
return D
""")
CONSTANT = ts.parse("""\
input A: f32[6, 5]
constant B: f32[5]
C[i: 6, j: 5] = A[i, j] * B[j]
return C
""")


class DeviceContract:
    """Subclasses give a fixture `device` and the text of its target."""

    target: str

    def artifact(self, program: ts.Program) -> Artifact:
        return build(program, UNSCHEDULED, {}, parse_target(self.target), 1)

    def load(self, device: Device, program: ts.Program) -> LoadedKernel:
        return device.load(self.artifact(program))

    def arrays(self) -> tuple[Any, Any]:
        generator = np.random.default_rng(0)
        return generator.random((6, 5), np.float32), generator.random((5, 4), np.float32)

    def on_host(self, array: Any) -> Any:
        return array if isinstance(array, np.ndarray) else array.numpy()

    def test_arrays_go_there_and_back(self, device: Device) -> None:
        a, _ = self.arrays()
        assert (self.on_host(device.upload(a)) == a).all()
        assert self.on_host(device.empty((3, 2), np.dtype("f8"))).shape == (3, 2)

    def test_a_kernel_computes(self, device: Device) -> None:
        a, b = self.arrays()
        kernel = self.load(device, PLAIN)
        out = device.empty((6, 4), np.dtype("f4"))
        kernel.run([device.upload(a), device.upload(b), out])
        assert np.allclose(self.on_host(out), a @ b + 1, atol=1e-5)

    def test_repeats_take_time(self, device: Device) -> None:
        a, b = self.arrays()
        kernel = self.load(device, PLAIN)
        arrays = [device.upload(a), device.upload(b), device.empty((6, 4), np.dtype("f4"))]
        assert kernel.run_repeat(arrays, 3) > 0
        assert np.allclose(self.on_host(arrays[2]), a @ b + 1, atol=1e-5)

    def test_constants(self, device: Device) -> None:
        a = np.ones((6, 5), np.float32)
        b = np.arange(5, dtype=np.float32)
        kernel = self.load(device, CONSTANT)
        kernel.prepare([b])
        out = device.empty((6, 5), np.dtype("f4"))
        kernel.run([device.upload(a), out])
        assert (self.on_host(out) == a * b).all()

    def test_code_of_another_device_is_refused(self, device: Device) -> None:
        with pytest.raises(TargetError, match="artifact"):
            device.load(replace(self.artifact(PLAIN), format="of nobody"))

    def test_facts_are_numbers_of_kernels(self, device: Device) -> None:
        artifact = self.artifact(PLAIN)
        for symbol, numbers in device.load(artifact).facts.items():
            assert symbol in {launch.symbol for launch in artifact.launches}
            assert {"registers", "local_bytes", "shared_bytes", "blocks"} <= numbers.keys()
