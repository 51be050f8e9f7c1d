"""Each operator as an ONNX model, for the libraries that read such models."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

_AXIS = {"row_sum": 1, "column_sum": 0}  # operators that reduce along one axis
_NODES: dict[str, Sequence[tuple[str, Sequence[str], str]]] = {
    "matmul": [("MatMul", ["A", "B"], "out")],
    "batch_matmul": [("MatMul", ["A", "B"], "out")],
    "matmul_bias_relu": [("Gemm", ["A", "B", "bias"], "t"), ("Relu", ["t"], "out")],
    "matmul_bias_gelu": [("Gemm", ["A", "B", "bias"], "t"), ("Gelu", ["t"], "out")],
    "matmul_residual_layer_norm": [
        ("Gemm", ["A", "B", "residual"], "t"),
        ("LayerNormalization", ["t", "gamma", "beta"], "out"),
    ],
    "silu_add": [("Sigmoid", ["x"], "s"), ("Mul", ["x", "s"], "t"), ("Add", ["t", "y"], "out")],
    "softmax": [("Softmax", ["x"], "out")],
    "layer_norm": [("LayerNormalization", ["x", "gamma", "beta"], "out")],
    "row_sum": [("ReduceSum", ["x", "axis"], "out")],
    "column_sum": [("ReduceSum", ["x", "axis"], "out")],
    "transpose": [("Transpose", ["x"], "out")],
    "bias_relu": [("Add", ["x", "bias"], "t"), ("Relu", ["t"], "out")],
    "bias_gelu": [("Add", ["x", "bias"], "t"), ("Gelu", ["t"], "out")],
}


def onnx_model(
    operator: str, arrays: Mapping[str, np.ndarray], out: np.ndarray, constants: Collection[str]
) -> Any | None:
    """The model of an operator at the shapes of its arrays; constants are initializers. None for an unknown operator."""
    if operator not in _NODES:
        return None
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    one_axis = {"keepdims": 0} if operator in _AXIS else {}
    nodes = [helper.make_node(kind, list(inputs), [result], **one_axis) for kind, inputs, result in _NODES[operator]]
    fixed = [numpy_helper.from_array(arrays[name], name) for name in constants]
    if operator in _AXIS:
        fixed.append(numpy_helper.from_array(np.array([_AXIS[operator]], np.int64), "axis"))
    given = {name: array for name, array in arrays.items() if name not in constants}
    described = [helper.make_tensor_value_info(n, TensorProto.FLOAT, a.shape) for n, a in given.items()]
    result = helper.make_tensor_value_info("out", TensorProto.FLOAT, out.shape)
    graph = helper.make_graph(nodes, operator, described, [result], fixed)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    onnx.checker.check_model(model)
    return model
