"""Runs an artifact in the emulator and compares it with the oracle."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilesmith.codegen.artifact import Artifact
from tilesmith.runtime.devices.emulator import emulator
from tilesmith.tensor.dtype import DType, bf16
from tilesmith.tensor.oracle.reference import evaluate
from tilesmith.tensor.program import Program


def agrees_with_the_oracle(program: Program, artifact: Artifact, given: Sequence[np.ndarray], units: float) -> None:
    """AssertionError for an output that is further away than `units` times what rounding explains; KernelFault for a fault."""
    device = emulator(seed=1)
    loaded = device.load(artifact)
    pairs = list(zip(given, program.inputs, strict=True))
    inputs = [device.upload(array) for array, declared in pairs if not declared.constant]
    outputs = [device.empty(program.tensors[o].shape, program.tensors[o].dtype.numpy) for o in program.outputs]
    loaded.prepare([array for array, declared in pairs if declared.constant])
    loaded.run([*inputs, *outputs])
    wanted, scales = evaluate(program, given), evaluate(program, given, absolute=True)
    for name, output, want, scale in zip(program.outputs, outputs, wanted, scales, strict=True):
        dtype = program.tensors[name].dtype
        tolerance = units * dtype.eps * scale + 1e-30
        found = _numbers(output.numpy(), dtype).reshape(want.shape)
        assert np.all(np.abs(found - want) <= tolerance), name


def _numbers(array: np.ndarray, dtype: DType) -> np.ndarray:
    if dtype == bf16:  # NumPy has it as bits
        array = (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float64)
