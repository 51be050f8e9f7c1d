"""What builders refuse, and how they take arguments. What they compute is tested in tests/operators."""

from __future__ import annotations

import sys
from collections.abc import Mapping

import pytest

from tilesmith.common.errors import ArgumentError, UserError
from tilesmith.tensor import ops

IMAGE = {"n": 2, "c": 4, "h": 9, "w": 8, "o": 6}


def test_a_convolution_without_padding_has_no_guard() -> None:
    assert "select" not in str(ops.conv2d(**IMAGE))
    assert ">=" not in str(ops.conv2d(**IMAGE, stride=2, kernel=2))
    assert "select" in str(ops.conv2d(**IMAGE, padding=1))


def test_constants_are_declared() -> None:
    program = ops.matmul(2, 3, 4, constants=["B"])
    assert [i.constant for i in program.inputs] == [False, True]
    assert ops.build_operator("conv2d", IMAGE, constants=("W",)).constant_inputs[0].name == "W"  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="no operand is called 'W'"):
        ops.matmul(2, 3, 4, constants=["W"])


def test_texts_are_read_as_arguments() -> None:
    made = ops.build_operator("matmul", {"m": "7", "n": "5", "k": "9", "transpose_a": "true", "dtype": "f64"})
    assert made == ops.matmul(7, 5, 9, transpose_a=True, dtype="f64")
    assert ops.build_operator("relu", {"shape": "3x4"}) == ops.relu(shape=(3, 4))
    assert ops.build_operator("layer_norm", {"rows": 2, "columns": "3", "epsilon": "1e-3"}) == ops.layer_norm(
        2, 3, 1e-3
    )


WRONG = [
    ("matmull", {}, "unknown operator 'matmull'"),
    ("matmul", {"m": "4"}, "matmul needs n, k"),
    ("matmul", {"m": "0", "n": 1, "k": 1}, "m of matmul must be a positive integer"),
    ("matmul", {"m": -3, "n": 1, "k": 1}, "m of matmul must be a positive integer"),
    ("matmul", {"m": "4.5", "n": 1, "k": 1}, "m of matmul is not an integer"),
    ("matmul", {"m": "many", "n": 1, "k": 1}, "m of matmul is not an integer"),
    ("matmul", {"m": True, "n": 1, "k": 1}, "m of matmul must be a positive integer"),
    ("matmul", {"mm": 1}, "matmul has no argument 'mm'"),
    ("matmul", {"m": 1, "n": 1, "k": 1, "transpose_a": "maybe"}, "is not true or false"),
    ("matmul", {"m": 1, "n": 1, "k": 1, "dtype": "f31"}, "unknown dtype 'f31'"),
    ("relu", {}, "needs either size or shape"),
    ("relu", {"size": 3, "shape": "3"}, "needs either size or shape"),
    ("relu", {"shape": "3x0"}, "shape of relu must be positive integers"),
    ("relu", {"shape": "3y4"}, "is not sizes as in 64x32"),
    ("conv2d", IMAGE | {"padding": -1}, "padding of conv2d must be an integer >= 0"),
    ("conv2d", IMAGE | {"groups": 3}, "groups of conv2d must divide c and o"),
    ("conv2d", IMAGE | {"kernel": 10}, "larger than the image"),
    ("conv2d", IMAGE | {"kernel": "3x3x3"}, "kernel of conv2d has the wrong number of values"),
    ("conv2d", IMAGE | {"kernel": "3by3"}, "kernel of conv2d is not an integer, or several as in 3x5"),
    ("conv2d", IMAGE | {"stride": 0}, "stride of conv2d must be a positive integer"),
    ("conv_transpose2d", IMAGE | {"padding": 8}, "leaves nothing of the result"),
    ("max_pool2d", {"n": 1, "c": 1, "h": 4, "w": 4, "padding": 2}, "more than half the kernel"),
    ("avg_pool2d", {"n": 1, "c": 1, "h": 4, "w": 4, "dtype": "i32"}, "avg_pool2d needs floats"),
    ("softmax", {"rows": 3}, "either rows and columns or a shape"),
    ("softmax", {"shape": "3x4", "axis": 2}, "axis of softmax names no axis"),
    ("group_norm", {"n": 1, "c": 4, "h": 2, "w": 2, "groups": 3}, "groups of group_norm must divide c"),
    ("layer_norm", {"rows": 2, "columns": 2, "epsilon": "tiny"}, "epsilon of layer_norm is not a number"),
    ("exp", {"size": 3, "dtype": "i32"}, "'exp' is not defined on i32"),
    ("clip", {"size": 3, "low": "small"}, "low of clip is not a number"),
    ("sum", {"shape": "3x4", "axes": "0x0"}, "axes of sum are none, or one is given twice"),
    ("sum", {"shape": "3x4", "axes": "2"}, "axes of sum names no axis"),
    ("argmax", {"shape": "3x4", "axis": "-3"}, "axis of argmax names no axis"),
    (
        "einsum",
        {"equation": "ij,jk->il", "shapes": "3x4,4x5"},
        "the result of einsum has 'l' twice, or no operand has it",
    ),
    ("einsum", {"equation": "i1->i", "shapes": "3x4"}, "an equation of einsum has letters"),
    ("einsum", {"equation": "ij,jk->ik", "shapes": "3x4"}, "equation and shapes of einsum do not fit"),
    ("einsum", {"equation": "ij,jk->ik", "shapes": "3x4,5x6"}, "'j' of einsum has two sizes"),
    ("einsum", {"equation": "ij", "shapes": "3x4,5y6"}, "shapes of einsum is not shapes as in 4x5,5x6"),
    ("reshape", {"shape": "3x4", "to": "5"}, "reshape keeps the number of elements"),
    ("permute", {"shape": "3x4", "order": "0x2"}, "order of permute is no permutation"),
    ("broadcast_to", {"shape": "3x4", "to": "3x8"}, "broadcast_to repeats axes of the size 1"),
    ("concat", {"shapes": "3x4,5x6"}, "shapes of concat differ in more than the axis"),
    ("split", {"shape": "5x6", "parts": 2}, "parts of split must divide the axis"),
    ("slice", {"shape": "5x6", "stop": "6"}, "axis 0 of slice has nothing, or too much"),
    ("pad", {"shape": "5x6", "before": 1, "after": 1, "mode": "wrap"}, "unknown mode of pad"),
    ("pad", {"shape": "2x2", "before": 2, "after": 0, "mode": "reflect"}, "pad reflects less than the axis has"),
    ("mse_loss", {"size": 5, "over": "rows"}, "unknown over of mse_loss"),
    ("cast", {"size": 5, "to": "f33"}, "unknown dtype 'f33'"),
    ("mean", {"shape": "5", "dtype": "i32"}, "mean needs floats"),
    ("resize_bilinear", {"n": 1, "c": 1, "h": 2, "w": 2, "to": 4, "dtype": "i8"}, "resize_bilinear needs floats"),
    ("conv2d", IMAGE | {"layout": "chwn"}, "unknown layout"),
]


@pytest.mark.parametrize(("name", "arguments", "problem"), WRONG, ids=[w[2][:40] for w in WRONG])
def test_wrong_arguments_are_refused(name: str, arguments: Mapping[str, str | int], problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        ops.build_operator(name, arguments)


def test_every_operator_that_is_written_out_is_seen_by_type_checkers() -> None:
    """Those that are made from tables have no definition that could be imported."""
    written = {
        name for name, builder in ops.OPERATORS.items() if vars(sys.modules[builder.__module__]).get(name) is builder
    }
    assert len(written) > 70
    missing = written - set(ops.__all__)
    assert not missing, f"tensor/ops/__init__.py lacks {missing}"


def test_a_close_name_is_offered() -> None:
    with pytest.raises(ArgumentError) as caught:
        ops.find_operator("matmull")
    assert "matmul" in caught.value.advice


def test_a_wrong_argument_in_python_is_answered_with_the_right_ones() -> None:
    with pytest.raises(ArgumentError, match=r"(?s)matmul: .*'rows'.*expected: matmul m=\.\.\. n=\.\.\. k=\.\.\."):
        ops.matmul(m=4, n=4, k=4, rows=4)  # type: ignore[call-arg]
    with pytest.raises(ArgumentError, match="missing a required argument: 'k'"):
        ops.matmul(m=4, n=4)  # type: ignore[call-arg]
