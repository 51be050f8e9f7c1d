"""ONNX Runtime, with inputs and outputs that are the caller's own memory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ...measure.compare.serving import PlainCall
from ...targets.matrix_instructions import vector_instruction
from ...targets.target import parse_target
from .calls import Array, ModelWay, NamedArrays, Sizes, TensorNames
from .images import ReturnedElsewhere, channels_first, onnx_shape, returning, seen_back
from .onnx_models import onnx_model


def onnxruntime_call(
    operator: str, arrays: NamedArrays, outputs: Sequence[Array], threads: int, constants: TensorNames, sizes: Sizes
) -> PlainCall | None:
    """ONNX Runtime with bound inputs and outputs, so that nothing is copied or allocated."""
    arrays, shape = channels_first(operator, sizes, arrays), onnx_shape(operator, sizes, outputs[0])
    model = onnx_model(operator, arrays, shape, constants, sizes)
    if model is None:
        return None
    given = [array for name, array in arrays.items() if name not in constants]
    run, (out,) = bound_session(model.SerializeToString(), given, [np.zeros(shape, outputs[0].dtype)], threads)
    return returning(run, ReturnedElsewhere(lambda: seen_back(operator, sizes, out.numpy(), outputs[0]), arrays))


def onnxruntime_model(path: str, inputs: Sequence[Array], outputs: Sequence[Array], threads: int) -> ModelWay:
    """An ONNX file in ONNX Runtime."""
    run, made = bound_session(path, inputs, outputs, threads)
    return ModelWay(run, lambda: [value.numpy() for value in made])


def bound_session(
    model: str | bytes, inputs: Sequence[Array], outputs: Sequence[Array], threads: int
) -> tuple[PlainCall, list[Any]]:
    """A call of a model, a path or its bytes, on inputs in their order; and the values that it writes, shaped as `outputs`."""
    import onnxruntime

    session = session_of(model, threads)
    binding = session.io_binding()
    for item, array in zip(session.get_inputs(), inputs, strict=True):
        binding.bind_cpu_input(item.name, array)
    made = [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in outputs]
    for item, value in zip(session.get_outputs(), made, strict=True):
        binding.bind_ortvalue_output(item.name, value)
    return partial(session.run_with_iobinding, binding), made


def session_of(model: str | bytes, threads: int) -> Any:
    """An onnxruntime.InferenceSession of a model, a path or its bytes, on processors."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    if vector_instruction(parse_target("host").matrix_instructions, "u8", "i8") is None:
        # without it sums of two products of bytes saturate at 16 bits, and results are others; elsewhere they are right, and it
        # makes them 12 times slower (1024 x 1024 x 1024, a matrix unit, two threads)
        options.add_session_config_entry("session.x64quantprecision", "1")
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
