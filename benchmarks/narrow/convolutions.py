"""How libraries convolve bfloat16 and bytes, with channels last and packed weights.

    torch             bf16: conv2d on images with channels last
    torch.onednn      oneDNN's convolutions with packed weights, as torch.compile freezes them; they quantise bytes again
    onnxruntime       bytes: QLinearConv with channels last
    openvino          both, from a graph of its own in the layout of the row

Bytes are multiplied with a scale for each output channel, rounded and held in a byte; no zero points.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from narrow.programs import step_of
from tilesmith.tuner.bench.images import ReturnedElsewhere, returning
from tilesmith.tuner.bench.onnxruntime_calls import bound_session
from tilesmith.tuner.bench.openvino_calls import bound_request

Arrays = Mapping[str, np.ndarray]
Sizes = Mapping[str, Any]
Call = Callable[[], Any]


def filters_of(arrays: Arrays, sizes: Sizes) -> np.ndarray:
    """The weights as [o, c or 1, kernel, kernel]."""
    filters = arrays["W"][..., None, :] if sizes.get("depthwise") else arrays["W"]
    return np.ascontiguousarray(filters.transpose(3, 2, 0, 1))


def scales_of(arrays: Arrays, sizes: Sizes) -> np.ndarray:
    """The numbers that the sums of each output channel are multiplied with."""
    terms = sizes["kernel"] ** 2 * (1 if sizes.get("depthwise") else sizes["c"])
    return np.abs(arrays["scale"]) * np.float32(step_of(terms))


def _window(sizes: Sizes) -> tuple[list[int], list[int], list[int], int]:
    """Stride, padding, dilation, groups."""
    return [sizes["stride"]] * 2, [sizes["kernel"] // 2] * 2, [1, 1], sizes["c"] if sizes.get("depthwise") else 1


def _nchw(array: np.ndarray) -> Any:
    """A view of an image with channels last, in torch's order of dimensions."""
    import torch

    return torch.from_numpy(array).permute(0, 3, 1, 2)


def torch_convolution(arrays: Arrays, sizes: Sizes) -> Call | None:
    """bf16 as a person writes it."""
    import torch

    if sizes["left"] != "bf16":
        return None
    stride, padding, dilation, groups = _window(sizes)
    x = _nchw(arrays["X"]).view(torch.bfloat16)
    weights = torch.from_numpy(filters_of(arrays, sizes)).view(torch.bfloat16)
    weights = weights.contiguous(memory_format=torch.channels_last)

    def call() -> Any:
        with torch.no_grad():
            result = torch.nn.functional.conv2d(x, weights, None, stride, padding, dilation, groups)
            return ReturnedElsewhere(lambda: result.permute(0, 2, 3, 1).view(torch.uint16).numpy(), arrays)

    return call


def onednn_convolution(arrays: Arrays, sizes: Sizes) -> Call:
    """Weights packed beforehand; the result is allocated at each call."""
    import torch

    stride, padding, dilation, groups = _window(sizes)
    x, filters = _nchw(arrays["X"]), torch.from_numpy(filters_of(arrays, sizes))
    if sizes["left"] == "bf16":
        x, filters = x.view(torch.bfloat16), filters.view(torch.bfloat16)
        packed = torch.ops.mkldnn._reorder_convolution_weight(filters, padding, stride, dilation, groups, list(x.shape))

        def convolved() -> Any:
            with torch.no_grad():
                result = torch.ops.mkldnn._convolution_pointwise(
                    x, packed, None, padding, stride, dilation, groups, "none", [], ""
                )
                return ReturnedElsewhere(lambda: result.permute(0, 2, 3, 1).view(torch.uint16).numpy(), arrays)

        return convolved
    scales, count = torch.from_numpy(scales_of(arrays, sizes)), filters.shape[0]
    zeros = torch.zeros(count, dtype=torch.int64)
    packed = torch.ops.onednn.qconv_prepack(filters, scales, 1.0, 0, stride, padding, dilation, groups, list(x.shape))

    def quantised() -> Any:
        with torch.no_grad():
            result = torch.ops.onednn.qconv_pointwise(
                x, 1.0, 0, packed, scales, zeros, None, stride, padding, dilation, groups, 1.0, 0, torch.uint8, "none",
                [], "",
            )  # fmt: skip
            return ReturnedElsewhere(lambda: result.permute(0, 2, 3, 1).numpy(), arrays)

    return quantised


def onnxruntime_convolution(arrays: Arrays, out: np.ndarray, threads: int, sizes: Sizes) -> Call | None:
    """QLinearConv of its own domain, which has channels last, with a bound input and result."""
    from onnx import TensorProto, helper, numpy_helper

    if sizes["left"] == "bf16":
        return None
    stride, padding, dilation, groups = _window(sizes)
    numbers = {
        "one": np.float32(1), "zero": np.uint8(0), "W": filters_of(arrays, sizes), "scales": scales_of(arrays, sizes),
        "zeros": np.zeros(out.shape[-1], np.int8),
    }  # fmt: skip
    node = helper.make_node(
        "QLinearConv", ["X", "one", "zero", "W", "scales", "zeros", "one", "zero"], ["out"], domain="com.microsoft",
        channels_last=1, strides=stride, pads=padding * 2, dilations=dilation, group=groups,
        kernel_shape=[sizes["kernel"]] * 2,
    )  # fmt: skip
    graph = helper.make_graph(
        [node], "convolution", [helper.make_tensor_value_info("X", TensorProto.UINT8, arrays["X"].shape)],
        [helper.make_tensor_value_info("out", TensorProto.UINT8, out.shape)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in numbers.items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    run, (result,) = bound_session(model.SerializeToString(), [arrays["X"]], [np.zeros(out.shape, out.dtype)], threads)
    return returning(run, ReturnedElsewhere(result.numpy, arrays))


def openvino_convolution(arrays: Arrays, out: np.ndarray, threads: int, sizes: Sizes) -> Call:
    """A graph whose images have their channels last outside; numbers that are quantised are told by FakeQuantize."""
    import openvino
    from openvino import opset13 as ops

    stride, padding, dilation, groups = _window(sizes)
    narrow, kind = sizes["left"] == "bf16", openvino.Type.bf16 if sizes["left"] == "bf16" else openvino.Type.u8
    data = ops.parameter(arrays["X"].shape, kind)
    turned = ops.convert(ops.transpose(data, ops.constant([0, 3, 1, 2])), "f32")
    if not narrow:
        turned = quantised_mark(turned, np.float32(0), np.float32(255))
    filters: Any = filters_of(arrays, sizes)
    if narrow:
        weights: Any = ops.constant((filters.astype(np.uint32) << 16).view(np.float32))
    else:
        column = scales_of(arrays, sizes)[:, None, None, None]
        weights = quantised_mark(ops.constant(filters * column), -128 * column, 127 * column)
    shape = (groups, filters.shape[0] // groups, *filters.shape[1:])
    if groups > 1:
        weights = ops.reshape(weights, ops.constant(list(shape)), False)
    make = ops.group_convolution if groups > 1 else ops.convolution
    made = make(turned, weights, stride, padding, padding, dilation)
    if not narrow:
        made = quantised_mark(made, np.float32(0), np.float32(255))
    result = ops.transpose(ops.convert(made, "bf16" if narrow else "u8"), ops.constant([0, 2, 3, 1]))
    model = openvino.Model([result], [data])
    given, into = [arrays["X"], out] if not narrow else [_as_bf16(x) for x in (arrays["X"], out)]
    run = bound_request(model, [given], [into], threads, INFERENCE_PRECISION_HINT="bf16" if narrow else "f32")
    return returning(run, ReturnedElsewhere(lambda: out, arrays))


def quantised_mark(numbers: Any, low: Any, high: Any) -> Any:
    """The mark by which OpenVINO knows numbers that are quantised."""
    from openvino import opset13 as ops

    least, most = ops.constant(low), ops.constant(high)
    return ops.fake_quantize(numbers, least, most, least, most, 256)


def _as_bf16(array: np.ndarray) -> Any:
    import openvino

    return openvino.Tensor(array, list(array.shape), openvino.Type.bf16)


def convolution_call(
    library: str, arrays: Arrays, outputs: Sequence[np.ndarray], threads: int, sizes: Sizes
) -> Call | None:
    """Returns how a library computes a row of `convolution`; None where it has no way."""
    if library in ("torch", "torch.onednn"):
        import torch

        torch.set_num_threads(threads)
    match library:
        case "torch":
            return torch_convolution(arrays, sizes)
        case "torch.onednn":
            return onednn_convolution(arrays, sizes)
        case "onnxruntime":
            return onnxruntime_convolution(arrays, outputs[0], threads, sizes)
        case "openvino":
            return openvino_convolution(arrays, outputs[0], threads, sizes)
    return None
