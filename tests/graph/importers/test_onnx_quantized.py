"""A quantised network against ONNX's own reference: each layer is right from the data that it had, up to ties of rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from helpers.onnx_models import computed
from tilesmith import compile, from_onnx
from tilesmith.graph.model import Model

onnx = pytest.importorskip("onnx")

Array = np.ndarray[Any, Any]
QUANTISED = ("image", "first", "depthwise", "point", "sum", "flat", "scores")


class _Network:
    """Layers of a small network for images: data are bytes without a sign, weights bytes of all 8 bits by channel."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.values: list[Any] = []
        self.rng = np.random.default_rng(0)

    def value(self, name: str, array: Array) -> str:
        self.values.append(onnx.numpy_helper.from_array(array, name))
        return name

    def node(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self.nodes.append(onnx.helper.make_node(kind, inputs, [output], **attributes))
        return output

    def quantised(self, x: str, name: str, scale: float, zero: int) -> str:
        """Rounded to bytes, the output `name`; the result is what these stand for."""
        how = [self.value(f"{name}_s", np.array(scale, np.float32)), self.value(f"{name}_z", np.array(zero, np.uint8))]
        self.node("QuantizeLinear", [x, *how], name)
        return self.node("DequantizeLinear", [name, *how], f"{name}_real")

    def weights(self, name: str, shape: tuple[int, ...], data: float) -> list[str]:
        """Weights, with both ends of their range, and a bias in 32 bits."""
        numbers = self.rng.integers(-128, 128, shape, np.int8)
        numbers.reshape(-1)[:2] = -128, 127
        scales = (self.rng.random(shape[0]) * 1e-3 + 1e-3).astype(np.float32)
        by = self.value(f"{name}_ws", scales)
        zeros = self.value(f"{name}_wz", np.zeros(shape[0], np.int8))
        real = self.node("DequantizeLinear", [self.value(f"{name}_w", numbers), by, zeros], f"{name}_wr", axis=0)
        bias = self.value(f"{name}_b", self.rng.integers(-3000, 3000, shape[0], np.int32))
        of_bias = self.value(f"{name}_bs", (scales * np.float32(data)).astype(np.float32))
        return [real, self.node("DequantizeLinear", [bias, of_bias], f"{name}_br", axis=0)]

    def model(self) -> Any:
        """image -> 3x3 over colours -> depthwise -> 1x1, added to what it began with -> mean -> scores."""
        x = self.quantised("x", "image", 0.02, 121)
        y = self.node("Conv", [x, *self.weights("a", (16, 3, 3, 3), 0.02)], "a", strides=[2, 2], pads=[1, 1, 1, 1])
        first = self.quantised(self.node("Relu", [y], "ra"), "first", 0.01, 0)
        y = self.node("Conv", [first, *self.weights("d", (16, 1, 3, 3), 0.01)], "d", group=16, pads=[1, 1, 1, 1])
        y = self.quantised(y, "depthwise", 0.012, 128)
        y = self.node("Conv", [y, *self.weights("p", (16, 16, 1, 1), 0.012)], "p")
        y = self.quantised(y, "point", 0.02, 117)
        y = self.quantised(self.node("Add", [y, first], "s"), "sum", 0.03, 99)
        y = self.node("Flatten", [self.node("GlobalAveragePool", [y], "g")], "f")
        y = self.quantised(y, "flat", 0.005, 90)
        y = self.node("Gemm", [y, *self.weights("m", (24, 16), 0.005)], "m", transB=1)
        self.quantised(y, "scores", 0.01, 128)
        outputs = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.UINT8, None) for name in QUANTISED]
        given = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 3, 16, 16])
        graph = onnx.helper.make_graph(self.nodes, "network", [given], outputs, self.values)
        return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=9)


def _compiled(model: Model, *arrays: Array) -> list[Array]:
    return list(compile(model, threads=1)(*arrays))


@pytest.mark.parametrize("run", [computed, _compiled])
def test_each_layer_is_that_of_the_reference(run: Any) -> None:
    from onnx.reference import ReferenceEvaluator

    proto = _Network().model()
    x = np.random.default_rng(1).standard_normal((1, 3, 16, 16)).astype(np.float32)
    model = from_onnx(proto)
    sums = [s for s in model.program.stages if s.combiner == "sum" and len(s.reads()) == 2]
    assert len(sums) == 4 and all(stage.tensors[0].dtype.name == "i32" for stage in sums)
    found = {name: value.astype(np.uint8) for name, value in zip(QUANTISED, run(model, x), strict=True)}
    for place, name in enumerate(QUANTISED):
        exact = _before_rounding(ReferenceEvaluator, proto, x, found, place)
        wanted = np.clip(np.rint(exact), 0, 255)
        ties = np.abs(exact - np.floor(exact) - 0.5) < 1e-4
        assert found[name].min() < found[name].max(), "a layer of which nothing can be seen"
        assert ((found[name] == wanted) | (ties & (np.abs(found[name] - wanted) <= 1))).all(), name


def _before_rounding(evaluator: Any, proto: Any, x: Array, found: dict[str, Array], place: int) -> Array:
    """What the reference has for a layer, in steps of its scale, from the bytes that were found before it."""
    name = QUANTISED[place]
    last = next(node for node in proto.graph.node if node.output[0] == name)
    known = {"x": x, **{one: found[one] for one in QUANTISED[:place]}}
    nodes = [node for node in proto.graph.node if node.output[0] not in known and node.output[0] != name]
    kept = nodes[: 1 + next((n for n, node in enumerate(nodes) if node.output[0] == last.input[0]), -1)]
    inputs = [
        onnx.helper.make_tensor_value_info(one, onnx.helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for one, value in known.items()
    ]
    wanted = onnx.helper.make_tensor_value_info(last.input[0], onnx.TensorProto.FLOAT, None)
    graph = onnx.helper.make_graph(kept, "layer", inputs, [wanted], proto.graph.initializer)
    before = onnx.helper.make_model(graph, opset_imports=proto.opset_import, ir_version=9)
    (real,) = evaluator(before).run(None, known) if last.input[0] != "x" else (x,)
    values = {one.name: onnx.numpy_helper.to_array(one) for one in proto.graph.initializer}
    exact: Array = real.astype(np.float64) / values[f"{name}_s"] + values[f"{name}_z"]
    return exact
