"""The rewrites that move reads and axes, against the original by the oracle."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tilesmith.common.errors import ProgramError
from tilesmith.tensor import ops
from tilesmith.tensor.oracle.random_inputs import random_inputs
from tilesmith.tensor.oracle.reference import evaluate
from tilesmith.tensor.program import Program
from tilesmith.tensor.rewrites.registry import pad_reads, reorder_axes, reorder_reads
from tilesmith.tensor.text.parse import parse

PADDED = [
    ops.conv2d(2, 3, 7, 6, 4, padding=1),
    ops.conv2d(1, 3, 9, 8, 2, kernel=(5, 3), padding=2, stride=2),
    ops.conv2d(1, 2, 9, 8, 2, padding=2, dilation=2, layout="nhwc"),
    ops.conv2d(1, 4, 5, 5, 4, padding=1, groups=4),
]


def agree(original: Program, rewritten: Program) -> None:
    inputs = random_inputs(original, 11)
    for a, b in zip(evaluate(original, inputs), evaluate(rewritten, inputs), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-11, atol=1e-11)
    assert parse(str(rewritten)) == rewritten


@pytest.mark.parametrize("program", PADDED)
def test_a_border_is_written_once(program: Program) -> None:
    padded = pad_reads(program, "y", "X")
    agree(program, padded)
    (stage,) = [s for s in padded.stages if s.name == "y"]
    assert "select" not in str(stage.bodies[0])
    assert "X_padded" in {read.tensor for read in stage.reads()}


def test_a_maximum_keeps_what_it_ignores() -> None:
    program = parse(
        "input x: f32[6]\ny[i: 6] = max[r: 3](select(i + r >= 1 and i + r < 7, x[i + r - 1], -inf))\nreturn y"
    )
    agree(program, pad_reads(program, "y", "x"))


@pytest.mark.parametrize("axes", [["o", "n", "q", "p"], ["n", "p", "q", "o"]])
def test_an_output_keeps_its_order_whatever_its_stage_does(axes: list[str]) -> None:
    program = ops.conv2d(2, 3, 7, 6, 4, padding=1)
    names = [a.name for a in program.stages[0].axes]
    wanted = [names[["n", "o", "p", "q"].index(axis)] for axis in axes]
    reordered = reorder_axes(program, "y", wanted)
    agree(program, reordered)
    assert [a.name for a in reordered.stages[0].axes] == wanted
    assert reordered.outputs == program.outputs


def test_readers_follow_a_reordered_stage() -> None:
    program = ops.matmul_bias_relu(4, 5, 6)
    first = program.stages[0]
    reordered = reorder_axes(program, first.name, [a.name for a in reversed(first.axes)])
    agree(program, reordered)
    assert len(reordered.stages) == len(program.stages)


def test_a_stage_reads_from_a_reordered_copy() -> None:
    program = ops.conv2d(2, 3, 7, 6, 4, padding=1)
    reordered = reorder_reads(program, "y", "X", [0, 2, 3, 1])
    agree(program, reordered)
    assert reordered.tensors["X_reordered"].shape == (2, 7, 6, 3)
    assert "X" not in {read.tensor for read in reordered.producers["y"].reads()}


@pytest.mark.parametrize(
    ("dimensions", "given", "copied"),
    [
        ([1, 2, 3, 0], (4, 27), (27, 4)),
        ([0, 2, 3, 1], (4, 3, 9), (4, 9, 3)),
        ([3, 2, 1, 0], (4, 3, 3, 3), (3, 3, 3, 4)),
    ],
)
def test_dimensions_that_follow_each_other_become_one(
    dimensions: list[int], given: tuple[int, ...], copied: tuple[int, ...]
) -> None:
    """The input is the same memory, for another stage that reads it too."""
    lines = str(ops.conv2d(2, 3, 7, 6, 4, padding=1)).splitlines()
    also = "most[o: 4] = max[c: 3, r: 3, s: 3](W[o, c, r, s])"
    program = parse("\n".join([*lines[:-1], also, lines[-1].replace("return ", "return most, ")]))
    reordered = reorder_reads(program, "y", "W", dimensions, merge=True)
    flat = {i.tensor.name: i.tensor for i in reordered.inputs}["W"]
    assert (flat.shape, reordered.tensors["W_reordered"].shape) == (given, copied)
    data, filters = random_inputs(program, 11)
    merged = evaluate(reordered, [data, filters.reshape(given)])
    for a, b in zip(evaluate(program, [data, filters]), merged, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-11, atol=1e-11)
    assert parse(str(reordered)) == reordered


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: pad_reads(ops.matmul(2, 3, 4), "C", "A"), "is not read under one guard"),
        (
            lambda: pad_reads(parse("input x: f32[4]\ny[i: 4, j: 4] = select(i + j < 4, x[i], 0)\nreturn y"), "y", "x"),
            "asks for more than where it is read",
        ),
        (lambda: reorder_axes(ops.matmul(2, 3, 4), "C", ["i"]), "cannot be put in this order"),
        (lambda: reorder_reads(ops.matmul(2, 3, 4), "C", "A", [0, 0]), "cannot be read in this order"),
        (lambda: reorder_reads(ops.matmul(2, 3, 4), "C", "C", [0, 1]), "cannot be read in this order"),
        (
            lambda: reorder_reads(
                parse("input x: f32[4, 4]\na[i: 4, j: 4] = x[i, j] + 1\ny[j: 4, i: 4] = a[i, j]\nreturn y"),
                "y",
                "a",
                [1, 0],
                merge=True,
            ),
            "cannot be merged",
        ),
    ],
)
def test_refusals(wrong: Callable[[], Program], message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        wrong()
