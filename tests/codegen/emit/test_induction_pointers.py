"""Pointers that move along with the counters of loops."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.emission.loops import HOST, ZERO, program, read, run, serial, store, update
from tilesmith.codegen.emit.cpu.module import emit
from tilesmith.codegen.emit.text import OPAQUE
from tilesmith.codegen.ir.loop_ir import Allocate, Block, Buffer, LoopProgram, Scope
from tilesmith.tensor.dtype import f32
from tilesmith.tensor.expr import Var

X = Buffer("x", f32, (7, 24), Scope.INPUT)
Y = Buffer("y", f32, (7, 24), Scope.OUTPUT)


def copy(unroll: int) -> LoopProgram:
    """Rows move to where they are two further on, column by column."""
    i, j = Var("i"), Var("j")
    moved = serial(j, 24, serial(i, 5, store(Y, (i + 2, j), read(X, i, j)), unroll=unroll))
    first = serial(Var("a"), 2, serial(Var("b"), 24, store(Y, (Var("a"), Var("b")), ZERO)))
    return program([X, Y], first, moved)


@pytest.mark.parametrize("unroll", [1, 2])
def test_rows_are_walked_along(unroll: int) -> None:
    loops = copy(unroll)
    text = emit(loops, HOST, 1)
    assert "phi ptr" in text and OPAQUE in text
    x = np.arange(7 * 24, dtype=np.float32).reshape(7, 24)
    np.testing.assert_array_equal(run(loops, [x])[0][2:], x[:5])
    np.testing.assert_array_equal(run(loops, [x])[0][:2], 0)


def test_loops_that_carry_sums_have_hidden_steps_and_no_pointers_of_their_own() -> None:
    i = Var("i")
    total = Buffer("total", f32, (), Scope.REGISTER)
    body = Block((store(total, (), ZERO), serial(i, 7, update(total, (), "sum", read(X, i, 3)))))
    loops = program([X, Y], Allocate(total, Block((body, store(Y, (0, 0), read(total))))))
    nest = emit(loops, HOST, 1).split(".nest", 1)[1]
    assert OPAQUE in nest and "phi ptr" not in nest
