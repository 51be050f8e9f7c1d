"""How libraries compute programs: stage by stage and by their own functions, against the oracle."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from tilesmith import ops
from tilesmith.common.errors import ArgumentError
from tilesmith.tensor.dtype import f32, f64
from tilesmith.tensor.oracle.random_inputs import random_inputs
from tilesmith.tensor.oracle.reference import evaluate
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.parse import parse
from tilesmith.tuner.bench.libraries import LIBRARIES, STAGES, libraries_named
from tilesmith.tuner.bench.sampling import difference, sample, values_at
from tilesmith.tuner.bench.subject import Subject

SPREAD = """
input x: f32[5, 7]
input y: f32[3, 7, 5]
table t: f32[3] = [1, 2, 4]
a[i: 7, j: 5] = select(x[j, i] > 0, x[j, i] * 2, f32(i))
b[k: 3, i: 7] = max[j: 5](y[k, i, j] + a[i, j])
c[k: 3] = sum[i: 7](b[k, i] * t[k])
s[k: 3, j: 5] = sum[i: 7](y[k, i, j] * x[j, i] * t[k])
d[k: 3, j: 5] = s[k, j] / c[0]
return d, b
"""
PROGRAMS: Mapping[str, Program] = {
    "einsum and broadcasting": parse(SPREAD),
    "softmax": ops.softmax(6, 9),
    "layer_norm": ops.layer_norm(6, 9),
    "a product with transposed operands": ops.matmul(5, 6, 7, transpose_a=True, transpose_b=True),
    "matmul_bias_gelu": ops.matmul_bias_gelu(5, 6, 7),
}


def computed(library: str, subject: Subject) -> tuple[float, str]:
    """The largest difference from the oracle, and how the library computes."""
    program = subject.program
    values = random_inputs(program, seed=3)
    arrays = {item.tensor.name: value for item, value in zip(program.inputs, values, strict=True)}
    tensors = [program.tensors[name] for name in program.outputs]
    outputs = [np.empty(tensor.shape, tensor.dtype.numpy) for tensor in tensors]
    found = LIBRARIES[library].program(subject, arrays, outputs, 1)
    assert found is not None
    mine = sample(found[0], outputs, [tensor.dtype for tensor in tensors])
    truth = [values_at(np.asarray(one, np.float64), f64) for one in evaluate(program, values)]
    return difference(truth, mine), found[1]


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_stage_by_stage_is_what_the_program_means(library: str, name: str) -> None:
    pytest.importorskip(library)
    gap, how = computed(library, Subject(PROGRAMS[name]))
    assert gap < 1e-5 and how == STAGES


NAMED = {
    "matmul": {"m": 5, "n": 6, "k": 7},
    "softmax": {"rows": 6, "columns": 9},
    "gelu": {"size": 40},
    "matmul_bias_relu": {"m": 5, "n": 6, "k": 7},
    "conv2d": {"n": 1, "c": 3, "h": 6, "w": 7, "o": 4, "padding": 1},
    "max_pool2d": {"n": 1, "c": 3, "h": 6, "w": 7},
    "layer_norm": {"rows": 6, "columns": 9},
}


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("library", ["torch", "onnxruntime", "openvino"])
def test_a_library_has_its_own_function(library: str, name: str) -> None:
    for module in LIBRARIES[library].needs:
        pytest.importorskip(module)
    gap, how = computed(library, Subject(ops.OPERATORS[name](**NAMED[name]), operator=name, sizes=NAMED[name]))
    assert gap < 1e-5 and how == ""


def test_an_option_that_its_function_does_not_have_is_not_left_out() -> None:
    sizes = {"m": 5, "n": 6, "k": 7, "transpose_a": True}
    gap, how = computed("numpy", Subject(ops.matmul(**sizes), operator="matmul", sizes=sizes))
    assert gap < 1e-5 and how == STAGES


def test_what_has_no_such_form_is_nobodys_fault() -> None:
    for program in (ops.cumsum((4, 5)), ops.conv2d(1, 2, 5, 5, 2), ops.matmul(4, 4, 4, dtype="bf16")):
        arrays = {item.tensor.name: np.zeros(item.tensor.shape, item.tensor.dtype.numpy) for item in program.inputs}
        assert LIBRARIES["numpy"].program(Subject(program), arrays, [], 1) is None


def test_a_difference_is_of_the_largest_value_and_nothing_hides_one() -> None:
    assert difference([[1.0, -4.0]], [[1.0, -4.0]]) == 0
    assert difference([[1.0, -4.0]], [[2.0, -4.0]]) == 0.25
    nan, inf = float("nan"), float("inf")
    assert difference([[nan, inf, 0.0]], [[nan, inf, 0.0]]) == 0
    assert difference([[1.0]], [[nan]]) == inf and difference([[inf]], [[1.0]]) == inf
    assert difference([[1.0]], []) == inf


def test_an_output_that_a_library_returns_is_seen_and_one_of_another_shape_refused() -> None:
    out = np.zeros((2, 3), np.float32)
    (found,) = sample(lambda: np.full((2, 3), 5.0, np.float32), [out], [f32])
    assert set(found) == {5.0}
    with pytest.raises(ValueError, match="shape"):
        sample(lambda: np.zeros((3, 2), np.float32), [out], [f32])


def test_a_wrong_peer_is_told_with_the_near_one() -> None:
    assert libraries_named("torch, numpy,torch") == ("torch", "numpy")
    with pytest.raises(ArgumentError) as caught:
        libraries_named("numpy,onnxruntim")
    assert "did you mean onnxruntime?" in str(caught.value)
