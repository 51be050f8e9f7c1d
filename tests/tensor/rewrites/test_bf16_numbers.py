"""Parts of numbers, and constant columns that stay numbers until words are made of them: against NumPy and the program."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from helpers.rewritten import MATMUL, agree_in_parts
from tilesmith.tensor.dtype import i32
from tilesmith.tensor.oracle.random_inputs import random_inputs
from tilesmith.tensor.oracle.reference import evaluate
from tilesmith.tensor.rewrites.tiles.bf16_parts import SCALE, bf16_products
from tilesmith.tensor.text.parse import parse


@pytest.mark.parametrize(("m", "k", "n"), [(17, 33, 50), (16, 64, 32), (9, 5, 3)])
def test_numbers_of_columns(m: int, k: int, n: int) -> None:
    """They are read in place of the operand, and have zeros up to whole tiles."""
    program = parse(MATMUL.format(m=m, k=k, n=n))
    rewritten = bf16_products(program, "C", "i", "j", "k", ["columns"], numbers=True)
    agree_in_parts(program, rewritten)
    numbers, rows, columns, *_ = rewritten.stages
    deep, wide = 32 * -(-k // 32), 16 * -(-n // 16)
    assert [s.name for s in rewritten.stages[:3]] == ["C_numbers", "C_rows", "C_columns"]
    assert numbers.tensors[0].shape == (wide // 16, deep, 16)
    assert {read.tensor for stage in rewritten.stages[1:] for read in stage.reads()}.isdisjoint({"B"})
    a, b = random_inputs(program, 3)
    held = np.zeros((deep, wide), np.float32)
    held[:k, :n] = b
    (found,) = evaluate(replace(rewritten, outputs=("C_numbers",)), (a, b))
    np.testing.assert_array_equal(found, held.reshape(deep, wide // 16, 16).transpose(1, 0, 2))
    a[0, 0] = np.inf
    b[0, 0] = -(2.0**120)
    np.testing.assert_array_equal(evaluate(rewritten, (a, b))[0][0], evaluate(program, (a, b))[0][0])
    assert columns.tensors[0].shape == (deep // 32, 3, 16, wide)
    assert rows.tensors[0].dtype == i32


def test_numbers_of_windows_and_batches() -> None:
    program = parse(
        "input X: f32[9, 20, 40]\ninput W: f32[3, 40, 24]\n"
        "Y[p: 7, q: 20, o: 24] = sum[r: 3, c: 40](X[p + r, q, c] * W[r, c, o])\nreturn Y"
    )
    rewritten = bf16_products(program, "Y", "q", "o", "c", ["columns"], numbers=True)
    agree_in_parts(program, rewritten)
    assert rewritten.stages[0].tensors[0].shape == (2, 3, 64, 16)


def test_parts_are_bfloat16_and_sum_up_to_the_number() -> None:
    rng = np.random.default_rng(5)
    bits = rng.integers(0, 2**32, 4096, dtype=np.uint64).astype(np.uint32)
    bits[:4] = 1, 0x807FFFFF, 0x3F808000, 0x3F817FFF  # subnormal numbers, ties
    values = bits.view(np.float32)[(bits & 0x7F800000) < 0x73800000]  # below 2^104
    program = parse(
        f"input A: f32[{len(values)}, 1]\ninput B: f32[1, 1]\n"
        f"C[i: {len(values)}, j: 1] = sum[k: 1](A[i, k] * B[k, j])\nreturn C"
    )
    rewritten = bf16_products(program, "C", "i", "j", "k")
    (words,) = evaluate(replace(rewritten, outputs=("C_rows",)), (values[:, None], np.ones((1, 1), np.float32)))
    low = (words.astype(np.int32).view(np.uint32) << 16).view(np.float32).astype(np.float64)
    parts = low[:, 0, :, :, 0].transpose(0, 2, 1).reshape(-1, 3)[: len(values)]
    np.testing.assert_array_equal(parts.sum(axis=1), values.astype(np.float64) * SCALE)
    assert np.all(np.abs(parts[:, 1]) <= np.abs(parts[:, 0]) * 2.0**-8)
    assert np.all(np.abs(parts[:, 2]) <= np.abs(parts[:, 0]) * 2.0**-16)
