"""A softmax in one pass, alone and with a weighted sum, against the original by the oracle."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from helpers.rewritten import agree
from tilesmith.common.errors import ProgramError
from tilesmith.tensor import ops
from tilesmith.tensor.ops.operator import Operands
from tilesmith.tensor.ops.softmax import attended
from tilesmith.tensor.oracle.reference import evaluate
from tilesmith.tensor.program import Program
from tilesmith.tensor.rewrites.registry import block_softmax, online_softmax
from tilesmith.tensor.text.parse import parse


@pytest.mark.parametrize(
    ("program", "stage"),
    [
        (ops.softmax(7, 13), "out_max"),
        (ops.softmax(1, 5), "out_max"),
        (ops.matmul_softmax(6, 9, 5), "out_max"),
        (ops.attention(2, 7, 11, 5), "P_max"),
        (ops.attention(2, 7, 11, 5, causal=True), "P_max"),
    ],
    ids=["softmax", "one row", "matmul_softmax", "attention", "causal"],
)
def test_online_softmax(program: Program, stage: str) -> None:
    rewritten = online_softmax(program, stage)
    agree(program, rewritten)
    assert any(s.fold for s in rewritten.stages)
    assert not any(s.combiner == "max" for s in rewritten.stages)


def test_attention_becomes_one_pass_over_the_keys() -> None:
    rewritten = online_softmax(ops.attention(2, 7, 11, 5), "P_max")
    names = [s.name for s in rewritten.stages]
    assert names == ["dots", "scores", "P_max", "O"]
    assert rewritten.stages[2].tensors[2].name == "O_sum"


def test_online_softmax_with_minus_infinity() -> None:
    program = ops.softmax(3, 4)
    x = np.array([[-np.inf, -np.inf, 1, 2], [-np.inf] * 4, [3, -np.inf, 0, 1]], np.float32)
    (expected,), (found,) = evaluate(program, (x,)), evaluate(online_softmax(program, "out_max"), (x,))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert np.isnan(expected[1]).all()


@pytest.mark.parametrize("options", [{}, {"causal": True}, {"mask": True}])
@pytest.mark.parametrize("block", [1, 3, 12])
def test_block_softmax(options: dict[str, bool], block: int) -> None:
    program = ops.attention(2, 7, 12, 5, **options)
    rewritten = block_softmax(program, "P_max", block)
    agree(program, rewritten)
    assert sum(s.fold is not None for s in rewritten.stages) == 1
    assert max(s.reduction[0].extent for s in rewritten.stages if s.combiner == "max") == block


def test_block_softmax_with_minus_infinity() -> None:
    program = ops.attention(1, 3, 4, 2, mask=True)
    q, k, v = (np.ones((1, n, 2), np.float32) for n in (3, 4, 4))
    mask = np.array([[-np.inf, -np.inf, 1, 2], [-np.inf] * 4, [3, 0, -np.inf, -np.inf]], np.float32)
    (expected,) = evaluate(program, (q, k, v, mask))
    (found,) = evaluate(block_softmax(program, "P_max", 2), (q, k, v, mask))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert np.isnan(expected[0, 1]).all() and np.isfinite(expected[0, [0, 2]]).all()


def attention_of_seen_keys() -> Program:
    """Attention under a mask that may leave a query no key, which gives 0 then."""
    operand = Operands("f32", ())
    q, k, v, mask = operand("Q", 1, 3, 2), operand("K", 1, 4, 2), operand("V", 1, 4, 2), operand("M", 3, 4)
    return operand.program(attended(q, k, v, 0.5, adjusted=lambda i, value: value + mask[i[1], i[2]], empty=True))


@pytest.mark.parametrize("rewrite", [online_softmax, lambda program, stage: block_softmax(program, stage, 2)])
def test_rows_in_which_nothing_counts_stay_0(rewrite: Callable[[Program, str], Program]) -> None:
    program = attention_of_seen_keys()
    q, k, v = (np.ones((1, n, 2), np.float32) for n in (3, 4, 4))
    mask = np.array([[-np.inf, -np.inf, 1, 2], [-np.inf] * 4, [3, 0, -np.inf, -3e38]], np.float32)
    (expected,) = evaluate(program, (q, k, v, mask))
    (found,) = evaluate(rewrite(program, "P_max"), (q, k, v, mask))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    np.testing.assert_allclose(expected[0], [[1, 1], [0, 0], [1, 1]], rtol=1e-6)
    mask[0, 0] = np.nan
    (expected,) = evaluate(program, (q, k, v, mask))
    assert np.isnan(expected[0, 0]).all()


def test_powers_of_another_number_than_the_maximum_are_no_softmax() -> None:
    program = parse("""
        input x: f32[3, 8]
        input v: f32[8, 2]
        m[i: 3] = max[j: 8](x[i, j])
        l[i: 3] = sum[j: 8](exp(x[i, j] - max(m[i], 5)))
        y[i: 3, d: 2] = sum[j: 8](exp(x[i, j] - max(m[i], 5)) / l[i] * v[j, d])
        return y
    """)
    with pytest.raises(ProgramError, match="no stage sums"):
        online_softmax(program, "m")
