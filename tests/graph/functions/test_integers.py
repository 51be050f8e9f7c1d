"""Integers of all widths in functions of tensors: bits, shifts and the dtypes in which operands meet, as NumPy has them."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.graph_functions import computed
from tilesmith.graph.functions.integers import bits_turned, bitwise, shifted
from tilesmith.graph.functions.operands import common
from tilesmith.tensor.dtype import DTYPES

INTEGERS = [name for name, dtype in DTYPES.items() if dtype.is_integer]


def values(name: str) -> np.ndarray:
    ends = np.iinfo(DTYPES[name].numpy)
    rng = np.random.default_rng(2)
    drawn = rng.integers(ends.min, ends.max, 30, dtype=DTYPES[name].numpy, endpoint=True)
    return np.concatenate([drawn, np.array([0, 1, ends.min, ends.max, ends.max // 2], drawn.dtype)])


@pytest.mark.parametrize("name", INTEGERS)
def test_bits_are_numpys(name: str) -> None:
    x, y = values(name), values(name)[::-1].copy()
    for which, numpys in (("and", np.bitwise_and), ("or", np.bitwise_or), ("xor", np.bitwise_xor)):
        (found,) = computed(lambda a, b, w=which: bitwise(w, a, b), x, y)
        np.testing.assert_array_equal(found, numpys(x, y))
    np.testing.assert_array_equal(computed(bits_turned, x)[0], ~x)


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("name", INTEGERS)
def test_shifts_are_numpys(name: str, left: bool) -> None:
    x = np.repeat(values(name), 3)
    by = (np.arange(x.size) % DTYPES[name].bits).astype(x.dtype)
    (found,) = computed(lambda a, b: shifted(a, b, left), x, by)
    np.testing.assert_array_equal(found, np.left_shift(x, by) if left else np.right_shift(x, by))


def test_operands_meet_in_the_least_integers_that_hold_both() -> None:
    for left in INTEGERS:
        for right in INTEGERS:
            wanted = np.result_type(DTYPES[left].numpy, DTYPES[right].numpy)
            found = common(DTYPES[left], DTYPES[right])
            assert found.numpy == (wanted if wanted.kind in "iu" else np.int64), (left, right)
