"""Programs and what rewrites have made of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilesmith.tensor.oracle.random_inputs import random_inputs
from tilesmith.tensor.oracle.reference import evaluate
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.parse import parse

MATMUL = "input A: f32[{m}, {k}]\ninput B: f32[{k}, {n}]\nC[i: {m}, j: {n}] = sum[k: {k}](A[i, k] * B[k, j])\nreturn C"


def agree(original: Program, rewritten: Program, tolerance: float = 1e-11) -> None:
    """The same outputs on the same memory; and the rewritten one survives printing."""
    inputs = random_inputs(original, 11)
    seen = [x.reshape(item.tensor.shape) for x, item in zip(inputs, rewritten.inputs, strict=True)]
    assert rewritten.outputs == original.outputs
    for a, b in zip(evaluate(original, inputs), evaluate(rewritten, seen), strict=True):
        np.testing.assert_allclose(b.ravel(), a.ravel(), rtol=tolerance, atol=tolerance)
    assert parse(str(rewritten)) == rewritten


def agree_in_parts(original: Program, rewritten: Program) -> None:
    """The same but for what six of nine products leave out, and one text."""
    inputs = random_inputs(original, 11)
    scale = evaluate(original, [np.abs(x) for x in inputs])
    for a, b, most in zip(evaluate(original, inputs), evaluate(rewritten, inputs), scale, strict=True):
        assert np.all(np.abs(a - b) <= 3 * 2.0**-25 * most)
        assert np.abs(a).max() > 0
    assert parse(str(rewritten)) == rewritten
    assert rewritten.outputs == original.outputs


def same_to_the_last_bit(
    program: Program, rewrite: Callable[[Program], Program], applies: Callable[[Program], bool]
) -> Program:
    """The program rewritten: the same on finite numbers, and with nothing left to rewrite."""
    rewritten = rewrite(program)
    inputs = random_inputs(program, 3)
    for a, b in zip(evaluate(program, inputs), evaluate(rewritten, inputs), strict=True):
        np.testing.assert_array_equal(a, b)
    assert not applies(rewritten) and rewrite(rewritten) == rewritten
    return rewritten
