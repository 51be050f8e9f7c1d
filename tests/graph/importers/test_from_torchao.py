"""Modules quantised by torchao: its tensors of weights in few bits are read as they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilesmith
from tilesmith.tensor.oracle.reference import evaluate

torch = pytest.importorskip("torch")
quantization = pytest.importorskip("torchao.quantization")


def dynamic_four_bits() -> Any:
    return quantization.Int8DynamicActivationIntxWeightConfig(
        weight_dtype=torch.int4, weight_granularity=quantization.PerGroup(64)
    )


# The way of torchao; in what the products of data and weights are summed; what may differ, of the largest result: data that are
# rounded to bytes may come out one step apart where they lie in the middle of two.
SCHEMES = {
    "weights of 8 bits": (quantization.Int8WeightOnlyConfig, "f32", 1e-5),
    "data and weights of 8 bits": (quantization.Int8DynamicActivationInt8WeightConfig, "i32", 2e-3),
    "weights of 4 bits": (
        lambda: quantization.IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=quantization.PerGroup(64)), "f32", 1e-5,
    ),
    "data of 8 bits and weights of 4": (dynamic_four_bits, "i32", 2e-3),
}  # fmt: skip


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_module_is_what_torchao_computes(scheme: str) -> None:
    config, kind, close = SCHEMES[scheme]
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(256, 192), torch.nn.ReLU(), torch.nn.Linear(192, 128)).eval()
    x = torch.randn(4, 256)
    with torch.no_grad():
        before = module(x).numpy()
        quantization.quantize_(module, config())
        wanted = module(x).numpy()
    model = tilesmith.from_torch(module, (x,))
    weights = [value for value in model.constants.values() if value.dtype == np.int8 and value.size >= 128 * 192]
    assert [value.size for value in weights] == [192 * 256, 128 * 192], "they stay bytes"
    sums = [stage for stage in model.program.stages if stage.combiner == "sum" and len(stage.reads()) == 2]
    assert len(sums) == 2 and all(str(stage.tensors[0].dtype) == kind for stage in sums)
    (found,) = evaluate(model.program, [model.constants.get(i.tensor.name, x.numpy()) for i in model.program.inputs])
    largest = np.abs(wanted).max()
    assert np.abs(found - wanted).max() <= close * largest < np.abs(before - wanted).max()
