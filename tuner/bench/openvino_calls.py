"""OpenVINO, with inputs and outputs that are the caller's own memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...measure.compare.serving import Call
from .calls import Array, Arrays, ModelWay, Names, Sizes
from .images import ReturnedElsewhere, channels_first, onnx_shape, seen_back
from .onnx_models import onnx_model


def openvino_call(
    operator: str, arrays: Arrays, outputs: Sequence[Array], threads: int, constants: Names, sizes: Sizes
) -> Call | None:
    """OpenVINO, one request whose tensors are the caller's own memory. It would compute in bfloat16 where the processor can,
    unless told not to."""
    arrays, shape = channels_first(operator, sizes, arrays), onnx_shape(operator, sizes, outputs[0])
    model = onnx_model(operator, arrays, shape, constants, sizes)
    if model is None:
        return None
    import openvino

    core = openvino.Core()
    settings = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
    request = core.compile_model(core.read_model(model.SerializeToString()), "CPU", settings).create_infer_request()
    for name, array in arrays.items():
        if name not in constants:
            request.set_tensor(name, openvino.Tensor(array, shared_memory=True))
    out = outputs[0] if outputs[0].shape == shape else np.zeros(shape, outputs[0].dtype)
    request.set_tensor("out", openvino.Tensor(out, shared_memory=True))
    returned = ReturnedElsewhere(lambda: seen_back(operator, sizes, out, outputs[0]), arrays)

    def call() -> Any:
        request.start_async()  # without the dictionary of results that `infer` makes
        request.wait()
        return returned

    return call


def openvino_model(path: str, inputs: Sequence[Array], outputs: Sequence[Array], threads: int) -> ModelWay:
    """An ONNX file in OpenVINO."""
    import openvino

    settings = {
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
    }
    core = openvino.Core()
    model = core.compile_model(core.read_model(path), "CPU", settings).create_infer_request()
    for number, array in enumerate(inputs):
        model.set_input_tensor(number, openvino.Tensor(array, shared_memory=True))
    for number, array in enumerate(outputs):
        model.set_output_tensor(number, openvino.Tensor(array, shared_memory=True))

    def call() -> None:
        model.start_async()  # without the dictionary of results that `infer` makes
        model.wait()

    return ModelWay(call, lambda: outputs)
