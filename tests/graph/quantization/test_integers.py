"""integer_sums: products of dequantised numbers are sums of integers, the same within the roundings that are left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilesmith.graph.model import Model
from tilesmith.graph.quantization.integers import integer_sums
from tilesmith.tensor.oracle.random_inputs import random_inputs
from tilesmith.tensor.oracle.reference import evaluate
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.parse import parse

DECLARED = """
    input x: u8[6, 20]
    constant zero: u8
    constant scale: f32
    constant w: i8[20, 7]
    constant scales: f32[7]
    constant none: i8[7]
    """
PRODUCT = (
    DECLARED
    + """
    X[i: 6, k: 20] = f32(i32(x[i, k]) - i32(zero[])) * scale[]
    W[k: 20, j: 7] = f32(i32(w[k, j]) - i32(none[j])) * scales[j]
    y[i: 6, j: 7] = sum[k: 20](X[i, k] * W[k, j])
    return y
    """
)
CENTRED = (
    DECLARED
    + """
    X[i: 6, k: 20] = i32(x[i, k]) - i32(zero[])
    W[k: 20, j: 7] = i32(w[k, j])
    y[i: 6, j: 7] = sum[k: 20](X[i, k] * W[k, j])
    return y
    """
)
WINDOW = """
    input x: u8[4, 9]
    constant zero: u8
    constant scale: f32
    constant w: i8[5, 4, 3]
    constant scales: f32[5]
    X[c: 4, p: 9] = f32(i32(x[c, p]) - i32(zero[])) * scale[]
    W[o: 5, c: 4, r: 3] = f32(w[o, c, r]) * scales[o]
    y[o: 5, p: 9] = sum[c: 4, r: 3](select(p + r >= 1 and p + r < 10, X[c, p + r - 1], 0) * W[o, c, r])
    return y
    """
TEXTS = {"product": PRODUCT, "centred": CENTRED, "window": WINDOW}


def model(text: str, **given: Any) -> tuple[Model, list[np.ndarray[Any, Any]]]:
    """A model with a zero point of 117, and values for all of its inputs and constants."""
    program = parse(text)
    values = random_inputs(program, 1)
    named = {item.tensor.name: value for item, value in zip(program.inputs, values, strict=True)}
    rng = np.random.default_rng(0)
    for name, value in named.items():
        if value.dtype in (np.uint8, np.int8):
            ends = np.iinfo(value.dtype)
            named[name] = rng.integers(ends.min, ends.max, value.shape, value.dtype, endpoint=True)
    named |= {"zero": np.array(117, np.uint8)}
    named |= {"none": np.zeros(7, np.int8)} if "none" in named else {}
    named |= given
    constants = {t.name: named[t.name] for t in program.constant_inputs}
    return Model(program, constants), [named[item.tensor.name] for item in program.inputs]


def arguments(program: Program, values: dict[str, np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    return [values[item.tensor.name] for item in program.inputs]


@pytest.mark.parametrize("name", TEXTS)
def test_sums_are_those_of_integers(name: str) -> None:
    given, values = model(TEXTS[name])
    named = {item.tensor.name: v for item, v in zip(given.program.inputs, values, strict=True)}
    made = integer_sums(given)
    sums = [stage for stage in made.program.stages if stage.combiner == "sum"]
    assert [stage.tensors[0].dtype.name for stage in sums] == ["i32", "i32"]  # of the products, and of the weights
    assert all(read.dtype.bits == 8 for stage in sums for read in stage.reads())
    old, new = evaluate(given.program, values), evaluate(made.program, arguments(made.program, named))
    scale = float(np.abs(old[0]).max())
    np.testing.assert_allclose(new[0], old[0], rtol=0, atol=(1e-6 if name != "centred" else 0) * scale)
    assert "X" not in made.program.producers and "none" not in made.constants


def test_data_without_a_zero_point_need_no_sums_of_weights() -> None:
    made = integer_sums(model(PRODUCT, zero=np.array(0, np.uint8))[0])
    assert sum(stage.combiner == "sum" for stage in made.program.stages) == 1


GROUPS = """
    input x: i8[6, 96]
    input zero: i32[6]
    input scale: f32[6]
    constant w: i8[7, 96]
    constant scales: f32[7, 3]
    X[i: 6, k: 96] = f32(i32(x[i, k]) - zero[i]) * scale[i]
    W[j: 7, k: 96] = f32(w[j, k]) * scales[j, k // 32]
    y[i: 6, j: 7] = sum[k: 96](X[i, k] * W[j, k])
    return y
    """


def test_scales_of_groups_multiply_sums_of_integers_of_a_group() -> None:
    given, values = model(GROUPS, zero=np.arange(6, dtype=np.int32) - 3)
    named = {item.tensor.name: v for item, v in zip(given.program.inputs, values, strict=True)}
    named |= {"zero": np.arange(6, dtype=np.int32) - 3}
    values = arguments(given.program, named)
    made = integer_sums(given)
    sums = [
        (str(s.tensors[0].dtype), [a.extent for a in s.reduction]) for s in made.program.stages if s.combiner == "sum"
    ]
    assert sums == [("i32", [32]), ("i32", [32]), ("f32", [3])]  # of products, of weights, and of groups
    old, new = evaluate(given.program, values), evaluate(made.program, arguments(made.program, named))
    np.testing.assert_allclose(new[0], old[0], rtol=0, atol=1e-6 * float(np.abs(old[0]).max()))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("k // 32", "k // 8 % 3"),  # groups that come again
        ("k // 32", "min(k // 32, k % 3)"),  # a scale that moves otherwise
        ("scales[j, k // 32]", "scales[j, k // 64] * scales[j, k // 32]"),  # groups of two sizes
    ],
)
def test_other_scales_stay_in_the_sum(old: str, new: str) -> None:
    given = model(GROUPS.replace(old, new), zero=np.zeros(6, np.int32))[0]
    assert integer_sums(given) is given


def test_a_zero_point_is_read_where_no_border_is_made_of_it() -> None:
    """Layers that differ in it alone are one kernel then; a border holds the number."""
    texts = [str(integer_sums(model(PRODUCT, zero=np.array(z, np.uint8))[0]).program) for z in (117, 9)]
    assert texts[0] == texts[1] and "zero[]" in texts[0]
    assert ", 117)" in str(integer_sums(model(WINDOW)[0]).program)


@pytest.mark.parametrize(
    ("text", "given"),
    [
        (PRODUCT, {"none": np.arange(7).astype(np.int8)}),  # weights with zero points
        (PRODUCT.replace("scales[j]", "scales[k % 7]"), {}),  # a scale that moves within the sum
        (PRODUCT.replace("X[i, k] *", "exp(X[i, k]) *"), {}),  # no product of them
        (PRODUCT.replace("i32(x[i, k]) - i32(zero[])", "i32(x[i, k]) * i32(zero[])"), {}),
    ],
)
def test_other_sums_stay(text: str, given: dict[str, Any]) -> None:
    before = model(text, **given)[0]
    assert integer_sums(before) is before
