"""A vector of narrowed elements of which one lane alone is stored: what lies beside it stays as it is."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.emission.loops import given, lanes, names, program, random, read, result, run, store
from tilesmith.codegen.ir.loop_ir import If
from tilesmith.tensor.dtype import DTYPES

NARROWED = [
    ("i32", "i8"),
    ("i32", "u8"),
    ("i32", "i16"),
    ("i64", "i32"),
    ("i64", "i16"),
    ("i16", "i8"),
    ("f32", "bf16"),
]


@pytest.mark.parametrize(("wide", "narrow"), NARROWED)
@pytest.mark.parametrize("only", [0, 1, 3])
@pytest.mark.parametrize("width", [4, 8, 16, 32])
def test_one_lane_is_stored_alone(wide: str, narrow: str, only: int, width: int) -> None:
    (lane,) = names("l")
    x, z = given("x", width, dtype=DTYPES[wide]), result("z", width, dtype=DTYPES[narrow])
    kept = store(z, (lane,), (read(x, lane) * read(x, lane)).cast(DTYPES[narrow]))
    vector = lanes(lane, width, kept, valid=1) if only == 0 else lanes(lane, width, If(lane.equal(only), kept))
    values = random(x)
    (found,) = run(program((x, z), vector), [values])
    (whole,) = run(program((x, z), lanes(lane, width, kept)), [values])
    poison = np.full(width, 0xA5, np.uint8).repeat(found.itemsize).view(found.dtype)
    poison[only] = whole[only]
    np.testing.assert_array_equal(found, poison)
