"""Vectors that are read under a condition on all of them: elsewhere zeros are read, and nothing chooses them."""

from __future__ import annotations

import re

import numpy as np
import pytest

from helpers.emission.loops import (
    HOST,
    given,
    interpret,
    lanes,
    names,
    program,
    random,
    read,
    result,
    run,
    serial,
    store,
)
from tilesmith.codegen.ir.loop_ir import LoopProgram
from tilesmith.codegen.pipeline import assembled
from tilesmith.tensor.dtype import f32
from tilesmith.tensor.expr import Const, call


def shifted(otherwise: float, known: bool = False) -> LoopProgram:
    """Vectors of the row before, of which the first row has none. `known`: what is read has been loaded without a condition."""
    b, j = names("b j")
    x, y = given("x", 64), result("y", 64)
    at = (b * 8 + j if known else (b - 1) * 8 + j,)
    chosen = call("select", b >= 1, read(x, *at), Const(otherwise, f32))
    value = read(x, *at) * Const(2.0, f32) + chosen if known else chosen
    return program((x, y), serial(b, 8, lanes(j, 8, store(y, (b * 8 + j,), value))))


@pytest.mark.parametrize("otherwise", [0.0, -0.0, 1.5])
@pytest.mark.parametrize("known", [False, True])
def test_what_stands_beside_is_what_was_asked_for(otherwise: float, known: bool) -> None:
    loops = shifted(otherwise, known)
    values = random(given("x", 64))
    found, wanted = run(loops, [values])[0], interpret(loops, [values])[0]
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))


def test_zeros_are_read_and_not_chosen() -> None:
    chosen = [
        len(re.findall(r"select i1 [^,]+, <8 x float>", assembled(shifted(otherwise), HOST, 1, True).texts["llvm"]))
        for otherwise in (0.0, -0.0)
    ]
    assert chosen == [0, 1]
