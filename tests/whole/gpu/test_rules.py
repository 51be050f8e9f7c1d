"""Every GPU rule at round and ragged sizes and in several dtypes: what the emulator computes is what the oracle does."""

from __future__ import annotations

import pytest

from helpers.gpu.candidates import EMULATORS, body_of, fault, picked, sketches, some_configs
from tilesmith.codegen.pipeline import build
from tilesmith.targets.target import parse_target
from tilesmith.tensor import ops
from tilesmith.tensor.program import Program

CASES: dict[str, Program] = {
    "points round": ops.add(2048),
    "points ragged": ops.gelu(1003),
    "points f16": ops.add(777, dtype="f16"),
    "points i8": ops.add(77, dtype="i8"),
    "rows of points": ops.bias_add(37, 50),
    "row sums round": ops.row_sum(8, 256),
    "row sums ragged": ops.row_max(5, 301),
    "row sums bf16": ops.row_sum(5, 130, dtype="bf16"),
    "short rows": ops.row_sum(100, 8),
    "column sums": ops.column_sum(600, 44),
    "column sums f64": ops.column_sum(130, 33, dtype="f64"),
    "total": ops.total(3000),
    "softmax round": ops.softmax(4, 128),
    "softmax ragged": ops.softmax(3, 141),
    "layer norm": ops.layer_norm(4, 130),
    "transpose round": ops.transpose(64, 32),
    "transpose ragged": ops.transpose(45, 37),
    "matmul round": ops.matmul(64, 64, 32),
    "matmul ragged": ops.matmul(37, 45, 29),
    "matmul thin": ops.matmul(4, 33, 70),
    "matmul f64": ops.matmul(33, 40, 37, dtype="f64"),
    "matmul f16": ops.matmul(32, 40, 40, dtype="f16"),
    "matmul constant": ops.matmul(37, 45, 29, constants=("B",)),
    "epilogue round": ops.matmul_bias_relu(64, 64, 32),
    "epilogue ragged": ops.matmul_bias_gelu(35, 41, 23),
    "batch": ops.batch_matmul(3, 20, 24, 28),
    "windows": ops.conv2d(2, 3, 8, 7, 5, padding=1),
    "split depth": ops.matmul(8, 8, 1100),
    "many stages": ops.attention(1, 9, 11, 8),
}


@pytest.mark.parametrize("kind", EMULATORS)
@pytest.mark.parametrize("name", sorted(CASES))
def test_each_sketch_computes_what_the_oracle_does(name: str, kind: str) -> None:
    body, target = body_of(CASES[name]), parse_target(kind)
    for number, sketch in enumerate(sketches(body, target)[:3]):
        for values in some_configs(body, sketch, 1, seed=number, target=target):
            artifact = build(body, sketch, values, target, 1)
            assert fault(body, artifact, seed=number) == "", (sketch.title, values)


@pytest.mark.parametrize("kind", EMULATORS)
@pytest.mark.parametrize("name", ["matmul ragged", "softmax ragged", "windows", "column sums", "layer norm"])
def test_what_the_model_would_take_computes_what_the_oracle_does(name: str, kind: str) -> None:
    body, target = body_of(CASES[name]), parse_target(kind)
    sketch, values = picked(body, target)
    assert fault(body, build(body, sketch, values, target, 1)) == "", (sketch.title, values)


@pytest.mark.slow
@pytest.mark.parametrize("kind", EMULATORS)
@pytest.mark.parametrize("name", sorted(CASES))
def test_many_configs_of_each_sketch(name: str, kind: str) -> None:
    body, target = body_of(CASES[name]), parse_target(kind)
    for number, sketch in enumerate(sketches(body, target)):
        for values in some_configs(body, sketch, 12, seed=100 + number, target=target):
            artifact = build(body, sketch, values, target, 1)
            assert fault(body, artifact, seed=number) == "", (sketch.title, values)
