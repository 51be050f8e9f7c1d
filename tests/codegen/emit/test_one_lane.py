"""Vectors of narrowed elements of which one lane alone is stored, or few: what lies beside them stays as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pytest

from helpers.emission.loops import given, lanes, names, program, random, read, result, run, store
from tilesmith.codegen.ir.loop_ir import If
from tilesmith.tensor.dtype import DTYPES
from tilesmith.tensor.expr import Expr, call

NARROWED = [
    ("i32", "i8"),
    ("i32", "u8"),
    ("i32", "i16"),
    ("i64", "i32"),
    ("i64", "i16"),
    ("i16", "i8"),
    ("f32", "bf16"),
]
Condition = Callable[[Expr], Expr]


def check(wide: str, narrow: str, width: int, condition: Condition | None, stored: Iterable[int]) -> None:
    """Where the condition holds the elements are those of a whole store; where it does not they are as they were before.
    Without one only the first lane is there."""
    (lane,) = names("l")
    x, z = given("x", width, dtype=DTYPES[wide]), result("z", width, dtype=DTYPES[narrow])
    kept = store(z, (lane,), (read(x, lane) * read(x, lane)).cast(DTYPES[narrow]))
    vector = lanes(lane, width, kept, valid=1) if condition is None else lanes(lane, width, If(condition(lane), kept))
    values = random(x)
    (found,) = run(program((x, z), vector), [values])
    (whole,) = run(program((x, z), lanes(lane, width, kept)), [values])
    poison = np.full(width, 0xA5, np.uint8).repeat(found.itemsize).view(found.dtype)
    for place in stored:
        poison[place] = whole[place]
    np.testing.assert_array_equal(found, poison)


@pytest.mark.parametrize(("wide", "narrow"), NARROWED)
@pytest.mark.parametrize("only", [0, 1, 3])
@pytest.mark.parametrize("width", [4, 8, 16, 32])
def test_one_lane_is_stored_alone(wide: str, narrow: str, only: int, width: int) -> None:
    check(wide, narrow, width, None if only == 0 else lambda lane: lane.equal(only), [only])


# Conditions that say less plainly, to whoever writes the code, in which lanes they hold; LLVM knows it all the same.
HIDDEN: dict[str, Condition] = {
    "a remainder": lambda lane: (lane % 64).equal(3),
    "a square": lambda lane: (lane * lane).equal(9),
    "a choice": lambda lane: call("select", lane.equal(3), lane.equal(3), lane.equal(200)),
    "none but": lambda lane: call("not", call("or", lane < 3, lane > 3)),
}


@pytest.mark.parametrize(("wide", "narrow"), NARROWED)
@pytest.mark.parametrize("name", HIDDEN)
@pytest.mark.parametrize("width", [4, 8, 16, 32, 64])
def test_it_is_so_however_the_lane_is_told(wide: str, narrow: str, name: str, width: int) -> None:
    check(wide, narrow, width, HIDDEN[name], [3])


@pytest.mark.parametrize(("wide", "narrow"), NARROWED)
@pytest.mark.parametrize("width", [8, 16, 32, 64, 128])
def test_one_lane_of_each_half(wide: str, narrow: str, width: int) -> None:
    """Long vectors are stored in parts, and each part has one."""
    first, second = 1, width // 2 + 2
    check(wide, narrow, width, lambda lane: call("or", lane.equal(first), lane.equal(second)), [first, second])


@pytest.mark.parametrize(("wide", "narrow"), NARROWED)
def test_a_condition_that_never_holds_stores_nothing(wide: str, narrow: str) -> None:
    check(wide, narrow, 16, lambda lane: lane > 15, [])
    check(wide, narrow, 16, lambda lane: lane >= 0, range(16))
