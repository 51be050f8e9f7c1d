"""Masks of which it is known in which lanes they hold: what all have in common chooses an address, stores are small.

Neighbours share the vectors out of which every second element is picked.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from helpers.emission.loops import (
    block,
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
from tilesmith.codegen.ir.index import number, smaller
from tilesmith.codegen.ir.loop_ir import If, Let, LoopProgram
from tilesmith.codegen.pipeline import assembled
from tilesmith.targets.host import missing_here
from tilesmith.targets.target import parse_target
from tilesmith.tensor.dtype import f32
from tilesmith.tensor.expr import Const, Expr, call

AVX2 = parse_target("x86:avx2")
ZERO = Const(0.0, f32)


def llvm(loops: LoopProgram) -> str:
    return assembled(loops, AVX2, 1, texts=True).texts["llvm"]


def check(loops: LoopProgram) -> None:
    """Beside guard pages, in front of them and behind."""
    if missing_here(AVX2):
        pytest.skip("this machine has no such vectors")
    values = [random(buffer) for buffer in loops.arguments if buffer.name == "x"]
    expected = interpret(loops, values)
    for at_end in (False, True):
        for found, right in zip(run(loops, values, target=AVX2, at_end=at_end), expected, strict=True):
            np.testing.assert_array_equal(found, right)


def shifted(step: int, otherwise: float = 0.0) -> LoopProgram:
    """Rows moved down by one and to the right by two; nothing is there in the first row and the first two lanes."""
    i, lane = names("i l")
    x, y = given("x", 4, 8 * step), result("y", 5, 8)
    there = call("and", i >= 1, lane * step >= 2)
    value = call("select", there, read(x, i - 1, lane * step - 2), Const(otherwise, f32))
    return program((x, y), serial(i, 5, lanes(lane, 8, store(y, (i, lane), value))))


@pytest.mark.parametrize("step", [1, 2, 3])
def test_what_lanes_have_in_common_chooses_an_address(step: int) -> None:
    text = llvm(shifted(step))
    assert "ptr @harmless" in text and "select <8 x i1>" not in text
    check(shifted(step))


@pytest.mark.parametrize("name", ["x86:avx2", "x86:avx512", "aarch64:neon"])
def test_rows_that_are_not_there_are_not_asked_for(name: str) -> None:
    """Which lanes count is not known where the code is written; whether any does, each row says."""
    i, j, lane = names("i j l")
    x, y = given("x", 4, 8), result("y", 5, 40, 8)
    there = call("and", i >= 1, lane >= smaller(j, number(3)))
    value = call("select", there, read(x, i - 1, lane - smaller(j, number(3))), ZERO)
    loops = program((x, y), serial(i, 5, serial(j, 40, lanes(lane, 8, store(y, (i, j, lane), value)))))
    text = assembled(loops, parse_target(name), 1, texts=True).texts["llvm"]
    loads = [line for line in text.splitlines() if "@llvm.masked.load" in line and "declare" not in line]
    chosen = [line for line in text.splitlines() if "= select i1" in line and "ptr @harmless" in line]
    assert loads and all(any(line.split()[0] in load for line in chosen) for load in loads)
    check(loops)


@pytest.mark.parametrize("step", [1, 2])
def test_what_is_not_zero_is_chosen(step: int) -> None:
    assert "select <8 x i1>" in llvm(shifted(step, 1.5))
    check(shifted(step, 1.5))


@pytest.mark.parametrize("columns", range(1, 9))
def test_stores_of_the_first_lanes_are_small_ones(columns: int) -> None:
    i, lane = names("i l")
    x, y = given("x", 3, columns), result("y", 3, columns)
    loops = program((x, y), serial(i, 3, lanes(lane, 8, store(y, (i, lane), read(x, i, lane)), valid=columns)))
    text = llvm(loops)
    assert "masked.store" not in text
    assert text.count("  store <") == (1 if columns == 8 else bin(columns).count("1"))
    check(loops)


def pairs(guarded: str = "") -> LoopProgram:
    """The elements at even places and those at odd ones; with "select" or "if", only where they are there."""
    i, s, lane = names("i s l")
    x, y = given("x", 3, 16), result("y", 3, 2, 8)
    value: Expr = read(x, i, 2 * lane + s)
    if guarded == "select":
        value = call("select", s >= 1, value, ZERO)
    body = store(y, (i, s, lane), value)
    inner = lanes(lane, 8, body)
    if guarded == "if":
        inner = If(s >= 1, inner, lanes(lane, 8, store(y, (i, s, lane), ZERO)))
    return program((x, y), serial(i, 3, serial(s, 2, block(inner), unroll=2)))


@pytest.mark.parametrize(("guarded", "loads"), [("", 2), ("select", 2), ("if", 2)])
def test_neighbours_share_vectors_where_both_are_read(guarded: str, loads: int) -> None:
    """Of odd elements alone none is before the first one: nobody says that the even ones exist."""
    text = llvm(pairs(guarded))
    assert text.count("load <8 x float>") == loads
    assert bool(re.search(r"getelementptr float, .*, i64 1$", text, re.MULTILINE)) == bool(guarded), (
        "the first vector begins where elements do"
    )
    check(pairs(guarded))


def test_elements_beside_the_ends_are_not_read() -> None:
    """Of three neighbours two share their vectors; the first begins before the memory of any other."""
    i, s, lane = names("i s l")
    x, y = given("x", 17), result("y", 3, 8)
    body = lanes(lane, 8, store(y, (s, lane), read(x, 2 * lane + s)))
    loops = program((x, y), serial(i, 1, serial(s, 3, body, unroll=3)))
    assert llvm(loops).count("load <8 x float>") == 4
    check(loops)


@pytest.mark.parametrize("form", ["name", "quotient"])
def test_what_moves_in_two_ways_has_no_neighbours(form: str) -> None:
    """All copies read the same places: none says that there is an element behind the last one."""
    s, t, lane = names("s t l")
    x, y = given("x", 15), result("y", 2, 8)
    place = 2 * lane + s + (t if form == "name" else 0 - (s + 1) // 2)
    body = lanes(lane, 8, store(y, (s, lane), read(x, place)))
    inner = Let("t", s * -1, body) if form == "name" else body
    loops = program((x, y), serial(s, 2, inner, unroll=2))
    assert llvm(loops).count("load <8 x float>") == 2
    check(loops)
