"""A whole ONNX model: read, cut into kernels, tuned, called, profiled.

    python examples/onnx_model.py [trials]

The model is built here, so that no file is needed: two convolutions with a residual, a pooling, a classifier. Where it comes
from a file, `tilesmith.from_onnx("model.onnx", sizes={"batch": 1})` reads it. Needs `pip install 'tilesmith[onnx]'`.
"""

from __future__ import annotations

import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import tilesmith

CHANNELS, SIZE, CLASSES = 16, 14, 10


def network() -> onnx.ModelProto:
    """relu(conv(relu(conv(x))) + x), the mean of each channel, a linear layer. The size of the batch is left open."""
    random = np.random.default_rng(0)
    shapes = {"w1": (CHANNELS, CHANNELS, 3, 3), "w2": (CHANNELS, CHANNELS, 3, 3), "w3": (CLASSES, CHANNELS)}
    weights = {name: (random.standard_normal(shape) / 12).astype(np.float32) for name, shape in shapes.items()}
    padded = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["c1"], "block/conv1", **padded),
        helper.make_node("Relu", ["c1"], ["r1"], "block/relu1"),
        helper.make_node("Conv", ["r1", "w2"], ["c2"], "block/conv2", **padded),
        helper.make_node("Add", ["c2", "x"], ["sum"], "block/add"),
        helper.make_node("Relu", ["sum"], ["r2"], "block/relu2"),
        helper.make_node("GlobalAveragePool", ["r2"], ["mean"], "pool"),
        helper.make_node("Flatten", ["mean"], ["flat"], "flatten"),
        helper.make_node("Gemm", ["flat", "w3"], ["y"], "classifier", transB=1),
    ]
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", CHANNELS, SIZE, SIZE])
    made = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", CLASSES])
    values = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "example", [given], [made], values)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def main(trials: int = 64) -> None:
    """Reads, explains, tunes, compiles, checks, profiles."""
    proto = network()
    model = tilesmith.from_onnx(proto, sizes={"batch": 1})
    print(model)  # a table of its layers
    print(tilesmith.explain(model))  # the kernels that it is cut into

    tilesmith.tune(model, trials=trials)  # the kernels share the trials
    compiled = tilesmith.compile(model)
    x = np.random.default_rng(1).standard_normal((1, CHANNELS, SIZE, SIZE), dtype=np.float32)
    (expected,) = ReferenceEvaluator(proto).run(None, {"x": x})
    np.testing.assert_allclose(compiled(x), expected, rtol=1e-4, atol=1e-5)
    print(compiled.profile(x))  # where the time goes
    print(compiled.provenance)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
