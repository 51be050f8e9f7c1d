"""How libraries multiply bytes and hold the results in bytes again, as linear layers of quantised models do.

    torch.onednn      oneDNN's linear layers with packed weights, as torch.compile freezes them
    onnxruntime       QLinearMatMul
    openvino          a graph of its own, whose numbers are quantised by FakeQuantize

Sums are multiplied with a scale for each column, rounded and held in a byte; no zero points.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from narrow.convolutions import quantised_mark
from narrow.programs import step_of
from tilesmith.tuner.bench.images import ReturnedElsewhere, returning
from tilesmith.tuner.bench.onnxruntime_calls import bound_session
from tilesmith.tuner.bench.openvino_calls import bound_request

Arrays = Mapping[str, np.ndarray]
Call = Callable[[], Any]


def column_scales(arrays: Arrays) -> np.ndarray:
    """The numbers that the sums of each column are multiplied with."""
    return np.abs(arrays["scale"]) * np.float32(step_of(arrays["B"].shape[0]))


def onednn_requantised(arrays: Arrays) -> Call:
    """Weights packed beforehand; the result is allocated at each call."""
    import torch

    x, scales = torch.from_numpy(arrays["A"]), torch.from_numpy(column_scales(arrays))
    zeros = torch.zeros(len(scales), dtype=torch.int64)
    packed = torch.ops.onednn.qlinear_prepack(torch.from_numpy(arrays["B"]).t().contiguous(), list(x.shape))

    def linear() -> Any:
        with torch.no_grad():
            result = torch.ops.onednn.qlinear_pointwise(
                x, 1.0, 0, packed, scales, zeros, None, 1.0, 0, torch.uint8, "none", [], ""
            )
            return ReturnedElsewhere(result.numpy, arrays)

    return linear


def onnxruntime_requantised(arrays: Arrays, out: np.ndarray, threads: int) -> Call:
    """QLinearMatMul with a bound input and result."""
    from onnx import TensorProto, helper, numpy_helper

    numbers = {
        "one": np.float32(1), "zero": np.uint8(0), "B": arrays["B"], "scales": column_scales(arrays),
        "zeros": np.zeros(out.shape[1], np.int8),
    }  # fmt: skip
    graph = helper.make_graph(
        [helper.make_node("QLinearMatMul", ["A", "one", "zero", "B", "scales", "zeros", "one", "zero"], ["out"])],
        "product",
        [helper.make_tensor_value_info("A", TensorProto.UINT8, arrays["A"].shape)],
        [helper.make_tensor_value_info("out", TensorProto.UINT8, out.shape)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in numbers.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    run, (result,) = bound_session(model.SerializeToString(), [arrays["A"]], [np.zeros(out.shape, out.dtype)], threads)
    return returning(run, ReturnedElsewhere(result.numpy, arrays))


def openvino_requantised(arrays: Arrays, out: np.ndarray, threads: int) -> Call:
    """A product of numbers that are marked as quantised, on both sides and as results."""
    import openvino
    from openvino import opset13 as ops

    data = ops.parameter(arrays["A"].shape, openvino.Type.u8)
    rows = quantised_mark(ops.convert(data, "f32"), np.float32(0), np.float32(255))
    scales = column_scales(arrays)[None, :]
    columns = quantised_mark(ops.constant(arrays["B"] * scales), -128 * scales, 127 * scales)
    made = quantised_mark(ops.matmul(rows, columns, False, False), np.float32(0), np.float32(255))
    model = openvino.Model([ops.convert(made, "u8")], [data])
    run = bound_request(model, [arrays["A"]], [out], threads, INFERENCE_PRECISION_HINT="f32")
    return returning(run, ReturnedElsewhere(lambda: out, arrays))


def requantised_call(library: str, arrays: Arrays, outputs: Sequence[np.ndarray], threads: int) -> Call | None:
    """Returns how a library computes a row of `product` whose results are bytes; None where it has no way."""
    match library:
        case "torch.onednn":
            import torch

            torch.set_num_threads(threads)
            return onednn_requantised(arrays)
        case "onnxruntime":
            return onnxruntime_requantised(arrays, outputs[0], threads)
        case "openvino":
            return openvino_requantised(arrays, outputs[0], threads)
    return None
