"""ONNX Runtime, with inputs and outputs that are the caller's own memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...measure.compare.serving import Call
from .calls import Array, Arrays, ModelWay, Names, Sizes
from .images import ReturnedElsewhere, channels_first, onnx_shape, seen_back
from .onnx_models import onnx_model


def onnxruntime_call(
    operator: str, arrays: Arrays, outputs: Sequence[Array], threads: int, constants: Names, sizes: Sizes
) -> Call | None:
    """ONNX Runtime with bound inputs and outputs, so that nothing is copied or allocated."""
    arrays, shape = channels_first(operator, sizes, arrays), onnx_shape(operator, sizes, outputs[0])
    model = onnx_model(operator, arrays, shape, constants, sizes)
    if model is None:
        return None
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, array in arrays.items():
        if name not in constants:
            binding.bind_cpu_input(name, array)
    out = onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros(shape, outputs[0].dtype))
    binding.bind_ortvalue_output("out", out)
    returned = ReturnedElsewhere(lambda: seen_back(operator, sizes, out.numpy(), outputs[0]), arrays)

    def call() -> Any:
        session.run_with_iobinding(binding)
        return returned

    return call


def onnxruntime_model(path: str, inputs: Sequence[Array], outputs: Sequence[Array], threads: int) -> ModelWay:
    """An ONNX file in ONNX Runtime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for item, array in zip(session.get_inputs(), inputs, strict=True):
        binding.bind_cpu_input(item.name, array)
    made = [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in outputs]
    for item, value in zip(session.get_outputs(), made, strict=True):
        binding.bind_ortvalue_output(item.name, value)
    return ModelWay(lambda: session.run_with_iobinding(binding), lambda: [value.numpy() for value in made])
