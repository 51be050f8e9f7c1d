"""OpenVINO, with inputs and outputs that are the caller's own memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...measure.compare.serving import PlainCall
from .calls import Array, ModelWay, NamedArrays, Sizes, TensorNames
from .images import ReturnedElsewhere, channels_first, onnx_shape, returning, seen_back
from .onnx_models import onnx_model


def openvino_call(
    operator: str, arrays: NamedArrays, outputs: Sequence[Array], threads: int, constants: TensorNames, sizes: Sizes
) -> PlainCall | None:
    """OpenVINO, one request whose tensors are the caller's own memory."""
    arrays, shape = channels_first(operator, sizes, arrays), onnx_shape(operator, sizes, outputs[0])
    model = onnx_model(operator, arrays, shape, constants, sizes)
    if model is None:
        return None
    given = [array for name, array in arrays.items() if name not in constants]
    out = outputs[0] if outputs[0].shape == shape else np.zeros(shape, outputs[0].dtype)
    run = bound_request(model.SerializeToString(), given, [out], threads)
    return returning(run, ReturnedElsewhere(lambda: seen_back(operator, sizes, out, outputs[0]), arrays))


def openvino_model(path: str, inputs: Sequence[Array], outputs: Sequence[Array], threads: int) -> ModelWay:
    """An ONNX file in OpenVINO."""
    return ModelWay(bound_request(path, inputs, outputs, threads), lambda: outputs)


def bound_request(
    model: Any, inputs: Sequence[Any], outputs: Sequence[Any], threads: int, **settings: object
) -> PlainCall:
    """A call of a model (a path, bytes of ONNX, or OpenVINO's own) on the memory of inputs and outputs in their order: arrays,
    or OpenVINO's tensors. It would compute in bfloat16 where the processor can, unless told not to."""
    import openvino

    core = openvino.Core()
    read = core.read_model(model) if isinstance(model, str | bytes) else model
    usual = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
    request = core.compile_model(read, "CPU", {**usual, **settings}).create_infer_request()

    def shared(array: Any) -> Any:
        return array if isinstance(array, openvino.Tensor) else openvino.Tensor(array, shared_memory=True)

    for number, array in enumerate(inputs):
        request.set_input_tensor(number, shared(array))
    for number, array in enumerate(outputs):
        request.set_output_tensor(number, shared(array))

    def call() -> None:
        request.start_async()  # without the dictionary of results that `infer` makes
        request.wait()

    return call
