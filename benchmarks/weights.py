"""Products with weights in few bits: the program, and how libraries that offer them compute it.

    torch             packed weights of 4 bits in groups of 64, or bytes with a scale for each column; data in bfloat16
    onnxruntime       MatMulNBits; bytes in groups of 64 with equal scales, for it has none of whole columns
    openvino          the same weights, dequantized in the graph, which it fuses; without rounding the data to bytes

Weights lie as models have them: a row for each column of the result, the first of two half bytes low, 8 counts as zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tilesmith.tensor.program import Program
from tilesmith.tensor.text.parse import parse
from tilesmith.tuner.bench.images import ReturnedElsewhere, returning
from tilesmith.tuner.bench.onnxruntime_calls import bound_session
from tilesmith.tuner.bench.openvino_calls import bound_request

Arrays = Mapping[str, np.ndarray]
Call = Callable[[], Any]
GROUP = 64


def weights_program(m: int, n: int, k: int, bits: int) -> Program:
    """C = x W of float data and weights in 8 bits by column, or in 4 bits in groups of 64."""
    lines = [f"input x: f32[{m}, {k}]"]
    if bits == 8:
        lines += [f"constant w: i8[{n}, {k}]", f"constant s: f32[{n}]"]
        lines += [f"S[i: {m}, j: {n}] = sum[k: {k}](x[i, k] * f32(w[j, k]))"]
        lines += [f"C[i: {m}, j: {n}] = S[i, j] * s[j]", "return C"]
        return parse("\n".join(lines))
    lines += [f"constant w: u8[{n}, {k // 2}]", f"constant s: f32[{n}, {k // GROUP}]"]
    lines += [f"Q[j: {n}, k: {k}] = select(k % 2 == 0, i32(w[j, k // 2]) % 16, i32(w[j, k // 2]) // 16)"]
    lines += [f"W[j: {n}, k: {k}] = f32(Q[j, k] - 8) * s[j, k // {GROUP}]"]
    lines += [f"C[i: {m}, j: {n}] = sum[k: {k}](x[i, k] * W[j, k])", "return C"]
    return parse("\n".join(lines))


def weights_call(
    library: str, arrays: Arrays, outputs: Sequence[np.ndarray], threads: int, sizes: Mapping[str, Any]
) -> Call | None:
    """Returns how a library computes a row; None where it has no way."""
    bits = int(sizes["bits"])
    match library:
        case "torch":
            return _torch(arrays, threads, bits)
        case "onnxruntime":
            return _onnxruntime(arrays, outputs[0], threads, bits)
        case "openvino":
            return _openvino(arrays, outputs[0], threads, bits)
    return None


def _torch(arrays: Arrays, threads: int, bits: int) -> Call:
    import torch

    torch.set_num_threads(threads)
    x = torch.from_numpy(arrays["x"]).to(torch.bfloat16)
    scales = torch.from_numpy(arrays["s"]).to(torch.bfloat16)
    if bits == 8:
        weights = torch.from_numpy(arrays["w"])

        def product() -> Any:
            return torch.ops.aten._weight_int8pack_mm(x, weights, scales)
    else:
        numbers = torch.from_numpy(_numbers(arrays["w"])).to(torch.int32)
        packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(numbers, 2)
        both = torch.stack([scales.t(), torch.zeros_like(scales.t())], dim=-1).contiguous()

        def product() -> Any:
            return torch.ops.aten._weight_int4pack_mm_for_cpu(x, packed, GROUP, both)

    def call() -> Any:
        with torch.no_grad():
            result = product()
            return ReturnedElsewhere(lambda: result.float().numpy(), arrays)

    return call


def _numbers(packed: np.ndarray) -> np.ndarray:
    """The half bytes of each byte, one after the other."""
    return np.stack([packed % 16, packed // 16], axis=-1).reshape(packed.shape[0], -1)


def _onnxruntime(arrays: Arrays, out: np.ndarray, threads: int, bits: int) -> Call:
    from onnx import TensorProto, helper, numpy_helper

    x, weights, scales = arrays["x"], arrays["w"], arrays["s"]
    count, depth = weights.shape[0], x.shape[1]
    if bits == 8:
        weights = (weights.astype(np.int16) + 128).astype(np.uint8)
        scales = np.repeat(scales[:, None], depth // GROUP, axis=1)
    node = helper.make_node(
        "MatMulNBits", ["x", "w", "s"], ["out"], domain="com.microsoft", K=depth, N=count, bits=bits, block_size=GROUP
    )
    blocks = weights.reshape(count, depth // GROUP, GROUP * bits // 8)
    graph = helper.make_graph(
        [node], "product", [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, out.shape)],
        [numpy_helper.from_array(blocks, "w"), numpy_helper.from_array(np.ascontiguousarray(scales).reshape(-1), "s")],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    run, (result,) = bound_session(model.SerializeToString(), [x], [np.zeros(out.shape, out.dtype)], threads)
    return returning(run, ReturnedElsewhere(result.numpy, arrays))


def _openvino(arrays: Arrays, out: np.ndarray, threads: int, bits: int) -> Call:
    import openvino  # type: ignore[import-untyped]
    from openvino import opset13 as ops

    x, weights, scales = arrays["x"], arrays["w"], arrays["s"]
    data, (count, depth) = ops.parameter(x.shape, openvino.Type.f32), (weights.shape[0], x.shape[1])
    if bits == 8:
        floats = ops.multiply(ops.convert(ops.constant(weights), "f32"), ops.constant(scales[:, None]))
    else:
        shape = openvino.Shape([count, depth // GROUP, GROUP])
        packed = openvino.Tensor(openvino.Type.u4, shape)
        packed.data[:] = weights.reshape(packed.data.shape)
        away = ops.subtract(ops.convert(ops.constant(packed), "f32"), ops.convert(ops.constant(np.uint8(8)), "f32"))
        scaled = ops.multiply(away, ops.constant(scales[:, :, None]))
        floats = ops.reshape(scaled, ops.constant(np.array([count, depth])), False)
    model = openvino.Model([ops.matmul(data, floats, False, True)], [data])
    run = bound_request(model, [x], [out], threads, DYNAMIC_QUANTIZATION_GROUP_SIZE=0)
    return returning(run, ReturnedElsewhere(lambda: out, arrays))
