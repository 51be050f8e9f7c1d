"""Exports of PT2E: quantised numbers are their arithmetic, and sums of their products are sums of integers.

The graphs are written with torch's own `quantized_decomposed` operators, as torchao's `convert_pt2e` leaves them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilesmith
from tilesmith.tensor.oracle.reference import evaluate

torch = pytest.importorskip("torch")
decomposed: Any = pytest.importorskip("torch.ao.quantization.fx._decomposed") and torch.ops.quantized_decomposed


class Quantised(torch.nn.Module):  # type: ignore[misc, name-defined]
    """A convolution by channel, a product, and results that are quantised again."""

    def __init__(self, zero: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.zero = zero
        for name, shape in (("filters", (6, 5, 3, 3)), ("weights", (7, 6))):
            numbers = torch.randint(-127, 128, shape, generator=generator, dtype=torch.int8)
            self.register_buffer(name, numbers)
            self.register_buffer(f"{name}_scale", torch.rand(shape[0], generator=generator) * 0.01 + 0.001)
            self.register_buffer(f"{name}_zero", torch.zeros(shape[0], dtype=torch.int64))
        self.register_buffer("bias", torch.randn(6, generator=generator))

    def through(self, x: Any, scale: float) -> Any:
        """What is left of floats."""
        numbers = decomposed.quantize_per_tensor.default(x, scale, self.zero, 0, 255, torch.uint8)
        return decomposed.dequantize_per_tensor.default(numbers, scale, self.zero, 0, 255, torch.uint8)

    def dequantised(self, name: str) -> Any:
        """The floats of some weights."""
        numbers, scale, zero = (getattr(self, f"{name}{part}") for part in ("", "_scale", "_zero"))
        return decomposed.dequantize_per_channel.default(numbers, scale, zero, 0, -127, 127, torch.int8)

    def forward(self, x: Any) -> Any:
        y = torch.conv2d(self.through(x, 0.03), self.dequantised("filters"), self.bias, padding=1)
        return torch.nn.functional.linear(self.through(y.relu().mean((2, 3)), 0.02), self.dequantised("weights"))


@pytest.mark.parametrize("zero", [0, 111])
def test_sums_become_sums_of_integers(zero: int) -> None:
    module, x = Quantised(zero).eval(), torch.randn(2, 5, 8, 9, generator=torch.Generator().manual_seed(1))
    model = tilesmith.from_torch(module, (x,))
    sums = [stage for stage in model.program.stages if stage.combiner == "sum" and len(stage.reads()) == 2]
    assert sums and all(str(stage.tensors[0].dtype) == "i32" for stage in sums)
    with torch.no_grad():
        truth = module(x).numpy()
    (found,) = evaluate(model.program, [model.constants.get(i.tensor.name, x.numpy()) for i in model.program.inputs])
    steps = np.abs(found - truth) / (0.02 * 127 * 0.011)  # of the numbers in the middle
    assert np.median(steps) < 1e-3 and steps.max() <= 2.1


class ByTensors(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Quantises by channel, and by numbers that are tensors."""

    def forward(self, x: Any, scale: Any, zero: Any, scales: Any) -> Any:
        one = decomposed.quantize_per_tensor.tensor(x, scale, zero, 3, 200, torch.uint8)
        zeros = torch.zeros(x.shape[1], dtype=torch.int64)
        other = decomposed.quantize_per_channel.default(x, scales, zeros, 1, -100, 90, torch.int8)
        return one, other, decomposed.dequantize_per_tensor.tensor(one, scale, zero, 3, 200, torch.uint8)


def test_numbers_may_be_tensors() -> None:
    generator = torch.Generator().manual_seed(2)
    given = (
        torch.randn(4, 6, generator=generator) * 5,
        torch.tensor(0.07), torch.tensor(50, dtype=torch.int64), torch.rand(6, generator=generator) * 0.1 + 0.01,
    )  # fmt: skip
    model = tilesmith.from_torch(ByTensors(), given)
    values = iter([value.numpy() for value in given])
    inputs = [
        model.constants[i.tensor.name] if i.tensor.name in model.constants else next(values)
        for i in model.program.inputs
    ]
    for found, truth in zip(evaluate(model.program, inputs), ByTensors()(*given), strict=True):
        np.testing.assert_allclose(found, truth.numpy(), rtol=1e-6)
