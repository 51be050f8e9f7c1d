"""Files of ONNX become programs: sizes, constants, origins; shapes and control flow are worked out while reading."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from helpers.onnx_models import agrees, computed, written  # noqa: E402
from tilesmith import from_onnx  # noqa: E402

RNG = np.random.default_rng(0)


def numbers(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def test_sizes_are_given_by_name() -> None:
    proto = written("g (float[batch, 4] x) => (float[batch, 4] y) { y = Relu(x) }")
    model = from_onnx(proto, sizes={"batch": 3})
    assert model.program.dynamic_inputs[0].shape == (3, 4)
    agrees(model, proto, numbers(3, 4))


def test_initializers_are_constants_with_values() -> None:
    weights = numbers(4, 2)
    proto = written("g (float[3, 4] x) => (float[3, 2] y) <float[4, 2] w> { y = MatMul(x, w) }")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    model = from_onnx(proto)
    assert [tensor.name for tensor in model.program.constant_inputs] == ["w"]
    np.testing.assert_array_equal(model.constants["w"], weights)
    agrees(model, proto, numbers(3, 4))


def test_arithmetic_of_shapes_leaves_no_stage() -> None:
    proto = written(
        """g (float[n, 6, 4] x) => (float[n, m] y) {
            zero = Constant<value_ints = [0]>() minus = Constant<value_ints = [-1]>()
            shape = Shape(x) first = Gather(shape, zero) wanted = Concat<axis = 0>(first, minus)
            y = Reshape(x, wanted)
        }"""
    )
    model = from_onnx(proto, sizes={"n": 2})
    assert len(model.program.stages) == 1
    agrees(model, proto, numbers(2, 6, 4))


def test_a_stage_knows_its_operator_and_layer() -> None:
    proto = written("g (float[4] x) => (float[4] y) { y = Tanh(x) }")
    proto.graph.node[0].name = "/encoder/layer.0/act/Tanh"
    (stage,) = from_onnx(proto).program.stages
    assert (stage.name, stage.origin.operator, stage.origin.layer) == ("y", "Tanh", "encoder.layer.0.act")


def test_quantization_is_read_as_its_arithmetic() -> None:
    proto = written(
        """g (float[8] x) => (float[8] y) {
            scale = Constant<value_float = 0.05>() zero = Constant<value = int8 {3}>()
            q = QuantizeLinear(x, scale, zero) y = DequantizeLinear(q, scale, zero)
        }""",
        21,
    )
    agrees(from_onnx(proto), proto, numbers(8))


def test_few_weights_stay_bytes_and_a_long_bias_becomes_floats() -> None:
    """What a sum multiplies is never dequantised while reading: sums of its products are sums of integers. A bias is."""
    proto = written(
        """g (uint8[4, 6] x) => (float[4, 1200] y) <float s = {0.1}, uint8 z = {7}> {
            a = DequantizeLinear(x, s, z)
            w = DequantizeLinear<axis = 1>(v, t)
            b = DequantizeLinear<axis = 0>(c, t)
            d = MatMul(a, w) y = Add(d, b)
        }""",
        21,
    )
    rng = np.random.default_rng(0)
    arrays = {"v": rng.integers(-128, 128, (6, 1200), np.int8), "c": rng.integers(-900, 900, 1200, np.int32)}
    arrays["t"] = (rng.random(1200) * 0.01 + 0.001).astype(np.float32)
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(value, name) for name, value in arrays.items())
    model = from_onnx(proto)
    sums = [stage for stage in model.program.stages if stage.combiner == "sum"]
    assert {stage.tensors[0].dtype.name for stage in sums} == {"i32"}
    assert model.constants["v"].dtype == np.int8 and model.constants["b"].dtype == np.float32
    agrees(model, proto, rng.integers(0, 256, (4, 6), np.uint8))


def test_integers_of_4_bits_are_dequantized() -> None:
    proto = written(
        """g (float[2, 3] x) => (float[2, 3] y) <int4[3] q, float[1] scale = {0.5}> {
            w = DequantizeLinear(q, scale) y = Mul(x, w)
        }""",
        21,
    )
    proto.graph.initializer.append(onnx.helper.make_tensor("q", onnx.TensorProto.INT4, [3], [-8, 7, 1]))
    x = numbers(2, 3)
    (found,) = computed(from_onnx(proto), x)
    np.testing.assert_allclose(found, x * np.array([-4, 3.5, 0.5]), rtol=1e-6)


@pytest.mark.parametrize("kind", ["UINT16", "INT4", "UINT4"])
def test_quantization_to_types_that_are_not_here(kind: str) -> None:
    proto = written(
        """g (float[8] x) => (float[8] y) <float scale = {0.25}> {
            q = QuantizeLinear(x, scale, zero) y = DequantizeLinear(q, scale, zero)
        }""",
        21,
    )
    proto.graph.initializer.append(onnx.helper.make_tensor("zero", getattr(onnx.TensorProto, kind), [], [3]))
    agrees(from_onnx(proto), proto, 3 * numbers(8))


def test_a_branch_that_is_known_is_taken() -> None:
    proto = written(
        """g (float[2, 3] x) => (float[2, 3] y) {
            rank = Size(x) six = Constant<value_int = 6>() known = Equal(rank, six)
            y = If(known) <then_branch = a () => (float[2, 3] t) { t = Relu(x) },
                           else_branch = b () => (float[2, 3] e) { e = Neg(x) }>
        }"""
    )
    agrees(from_onnx(proto), proto, numbers(2, 3))


def test_a_loop_of_known_length_is_unrolled() -> None:
    proto = written(
        """g (float[3] x) => (float[3] y, float[4, 3] all) {
            count = Constant<value_int = 4>() go = Constant<value = bool {1}>()
            y, all = Loop(count, go, x) <body = b (int64 i, bool c, float[3] s) => (bool d, float[3] r, float[3] o) {
                d = Identity(c) r = Add(s, x) o = Mul(r, r)
            }>
        }"""
    )
    agrees(from_onnx(proto), proto, numbers(3))


def test_functions_of_the_file_are_inlined() -> None:
    text = """<ir_version: 8, opset_import: ["": 18, "own": 1]>
        g (float[3] x) => (float[3] y) { y = own.twice(x) }
        <opset_import: ["": 18], domain: "own"> twice (a) => (b) { b = Add(a, a) }"""
    proto = onnx.parser.parse_model(text)
    agrees(from_onnx(proto), proto, numbers(3))


def test_an_output_may_be_an_input_or_known() -> None:
    proto = written("g (float[3] x) => (float[3] x2, int64[1] s) { x2 = Identity(x) s = Shape(x) }")
    agrees(from_onnx(proto), proto, numbers(3))


def test_external_data_beside_the_file(tmp_path: Path) -> None:
    weights = numbers(64, 64)
    proto = written("g (float[1, 64] x) => (float[1, 64] y) <float[64, 64] w> { y = MatMul(x, w) }")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    path = tmp_path / "model.onnx"
    onnx.save(proto, str(path), save_as_external_data=True, location="values", size_threshold=0)
    model = from_onnx(path)
    assert model.name == "model"
    np.testing.assert_array_equal(model.constants["w"], weights)


def test_importing_is_linear_in_nodes() -> None:
    def seconds(count: int) -> float:
        lines = "".join(f"t{n + 1} = Relu(t{n}) " for n in range(count))
        proto = written(f"g (float[8] t0) => (float[8] y) {{ {lines} y = Neg(t{count}) }}")
        started = time.process_time()
        assert len(from_onnx(proto).program.stages) == count + 1
        return time.process_time() - started

    seconds(50)
    assert seconds(2000) < 8 * seconds(500) + 0.2
