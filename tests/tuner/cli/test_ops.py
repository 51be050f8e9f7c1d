"""`tune ops`."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from tilesmith.common.errors import ArgumentError
from tilesmith.tensor import ops
from tilesmith.tensor.ops.catalogue import catalogue
from tilesmith.tuner.cli.main import app


def told(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["ops", *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def test_all_operators_are_listed_with_parameters_and_inputs() -> None:
    lines = [line.split() for line in told().splitlines() if line]
    first = {line[0]: line for line in lines}
    assert set(ops.OPERATORS) <= set(first)
    wanted = "conv2d n c h w o kernel=3 stride=1 padding=0 dilation=1 groups=1 layout=nchw dtype=f32 X W"
    assert first["conv2d"] == wanted.split()


def test_one_operator_is_told_whole() -> None:
    text = told("attention")
    assert "softmax(Q K^T * scale (+ M)) V" in text
    assert "heads queries keys width causal=false mask=false" in text
    assert "f64 f32 f16 bf16" in text


def test_a_part_of_a_name_lists_what_has_it() -> None:
    text = told("pool2d")
    assert "global_avg_pool2d" in text and "max_pool2d" in text and "conv2d" not in text


def test_an_unknown_name_is_told() -> None:
    with pytest.raises(ArgumentError, match="unknown operator 'sofmax'") as caught:
        CliRunner().invoke(app, ["ops", "sofmax"], catch_exceptions=False)
    assert "softmax" in caught.value.advice


def test_the_catalogue_names_each_operator_once() -> None:
    assert sorted(entry.name for entry in catalogue()) == sorted(ops.OPERATORS)
    assert all(entry.formula for entry in catalogue())
