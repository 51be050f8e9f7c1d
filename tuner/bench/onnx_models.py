"""Each operator as an ONNX model, for the libraries that read such models."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from .images import onnx_nodes

_AXIS = {"row_sum": 1, "column_sum": 0}  # operators that reduce along one axis
_OF_ONE = {
    "relu": "Relu", "gelu": "Gelu", "sigmoid": "Sigmoid", "tanh": "Tanh", "exp": "Exp", "log": "Log", "sqrt": "Sqrt",
    "abs": "Abs", "neg": "Neg", "erf": "Erf", "sin": "Sin", "cos": "Cos", "mish": "Mish", "copy": "Identity",
}  # fmt: skip
_OF_TWO = {"add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "maximum": "Max", "minimum": "Min"}
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
    **{name: [(kind, ["x"], "out")] for name, kind in _OF_ONE.items()},
    **{name: [(kind, ["x", "y"], "out")] for name, kind in _OF_TWO.items()},
}


def onnx_model(
    operator: str,
    arrays: Mapping[str, np.ndarray],
    out: tuple[int, ...],
    constants: Collection[str],
    sizes: Mapping[str, Any],
) -> Any | None:
    """The model of an operator at the shapes of its arrays; constants are initializers. None for an unknown operator."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    one_axis: dict[str, Any] = {"keepdims": 0} if operator in _AXIS else {}
    if operator in _NODES:
        steps = [(kind, inputs, result, one_axis) for kind, inputs, result in _NODES[operator]]
    else:
        steps = list(onnx_nodes(operator, sizes, arrays) or ())
    if not steps:
        return None
    nodes = [helper.make_node(kind, list(inputs), [result], **more) for kind, inputs, result, more in steps]
    fixed = [numpy_helper.from_array(arrays[name], name) for name in constants]
    if operator in _AXIS:
        fixed.append(numpy_helper.from_array(np.array([_AXIS[operator]], np.int64), "axis"))
    literals = {name for _, inputs, _, _ in steps for name in inputs if name.startswith("#")}
    for text in sorted(literals):
        axis = text.startswith("#axis")
        value = np.array([int(text[5:])], np.int64) if axis else np.array(float(text[1:]), np.float32)
        fixed.append(numpy_helper.from_array(value, text))
    given = {name: array for name, array in arrays.items() if name not in constants}
    described = [helper.make_tensor_value_info(n, TensorProto.FLOAT, a.shape) for n, a in given.items()]
    result = helper.make_tensor_value_info("out", TensorProto.FLOAT, out)
    graph = helper.make_graph(nodes, operator, described, [result], fixed)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.checker.check_model(model)
    return model
