"""Vectors of elements that lie near one another, as those of x[j // 2]: no gather, and nothing beside them is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
from tilesmith.tensor.dtype import DTYPES
from tilesmith.tensor.expr import Const, Expr, call

Array = np.ndarray[Any, Any]
Place = Callable[[Expr], Expr]
PLACES: dict[str, Place] = {
    "halves": lambda j: j // 2,
    "halves, one more": lambda j: (j + 1) // 2,
    "thirds": lambda j: j // 3,
    "pairs": lambda j: j % 2,
    "eighths and rests": lambda j: j // 8 + j % 8,
    "backwards in fours": lambda j: j // 4 * 4 + 3 - j % 4,
}


def elements(place: Place, count: int) -> int:
    """How many elements of the input are there: the last one that is read is the last one before a page that is no memory."""
    numbers = np.arange(count)
    return int(max(np.asarray(place(numbers)).tolist())) + 1  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", ["f32", "f64", "i16", "u8", "bf16"])
@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("at_end", [True, False])
def test_near_elements_are_loaded_whole(name: str, dtype: str, at_end: bool) -> None:
    width, blocks, place = 16, 3, PLACES[name]
    b, j = names("b j")
    kind = DTYPES[dtype]
    x, y = given("x", elements(place, width * blocks), dtype=kind), result("y", width * blocks, dtype=kind)
    at = b * 48 // 3 + j if name == "thirds" else b * width + j
    loops = program((x, y), serial(b, blocks, lanes(j, width, store(y, (at,), read(x, place(at))))))
    values = random(x)
    found, wanted = run(loops, [values], at_end=at_end)[0], interpret(loops, [values])[0]
    np.testing.assert_array_equal(found, wanted)
    if name != "thirds":  # blocks of 16 begin at different places of three
        assert "gather" not in assembled(loops, HOST, 1, texts=True).texts["llvm"]


@pytest.mark.parametrize("odd", [0, 1])
def test_lanes_that_do_not_count_read_nothing(odd: int) -> None:
    """Every second lane reads, of elements of which the others would lie beyond both ends."""
    width = 8
    (j,) = names("j")
    x, y = given("x", width // 2), result("y", width)
    chosen = call("select", (j % 2).equal(odd), read(x, (j - odd) // 2), Const(7.0, DTYPES["f32"]))
    loops = program((x, y), lanes(j, width, store(y, (j,), chosen)))
    values = random(x)
    for at_end in (True, False):
        found = run(loops, [values], at_end=at_end)[0]
        np.testing.assert_array_equal(found[odd::2], values)
        np.testing.assert_array_equal(found[1 - odd :: 2], 7)
    assert "gather" not in assembled(loops, HOST, 1, texts=True).texts["llvm"]


@pytest.mark.parametrize("dtype", ["f32", "i64", "u8", "bool"])
@pytest.mark.parametrize("name", ["halves", "halves, one more", "backwards in fours"])
@pytest.mark.parametrize("at_end", [True, False])
def test_lanes_that_data_choose_read_no_more_than_they_want(name: str, dtype: str, at_end: bool) -> None:
    """Both ends of what could be read are no memory: no lane that counts wants them, and lanes that share an element differ."""
    width, blocks, place = 16, 3, PLACES[name]
    b, j = names("b j")
    kind = DTYPES[dtype]
    count = elements(place, width * blocks)
    x, w, y = given("x", count - 2, dtype=kind), given("w", width * blocks), result("y", width * blocks, dtype=kind)
    at = b * width + j
    other = Const(kind.numpy.type(1).item(), kind)
    chosen = call("select", read(w, at) < Const(0.5, DTYPES["f32"]), read(x, place(at) - 1), other)
    loops = program((x, w, y), serial(b, blocks, lanes(j, width, store(y, (at,), chosen))))
    values, choosing = random(x), random(w)
    places = np.asarray(place(np.arange(width * blocks)))  # type: ignore[arg-type]
    choosing[(places == 0) | (places == count - 1)] = 1
    wanted = np.where(choosing < 0.5, np.pad(values, 1)[places], np.ones(1, values.dtype))
    np.testing.assert_array_equal(run(loops, [values, choosing], at_end=at_end)[0], wanted)
    assert "gather" not in assembled(loops, HOST, 1, texts=True).texts["llvm"]


def test_what_all_lanes_have_in_common_chooses_the_address_of_what_data_choose() -> None:
    """The rows before and behind the one that is there are far away, where no memory is."""
    b, j = names("b j")
    x, w, y = given("x", 8), given("w", 16), result("y", 3, 16)
    wanted = call("and", b.equal(1), read(w, j) < Const(0.5, DTYPES["f32"]))
    chosen = call("select", wanted, read(x, (b - 1) * 4096 + j // 2), Const(7.0, DTYPES["f32"]))
    loops = program((x, w, y), serial(b, 3, lanes(j, 16, store(y, (b, j), chosen))))
    values, choosing = random(x), random(w)
    found = run(loops, [values, choosing], at_end=True)[0]
    np.testing.assert_array_equal(found[1], np.where(choosing < 0.5, np.repeat(values, 2), 7))
    np.testing.assert_array_equal(found[::2], np.full((2, 16), 7))
    text = assembled(loops, HOST, 1, texts=True).texts["llvm"]
    assert "gather" not in text and "ptr @harmless" in text


def test_elements_that_many_lanes_pick_are_gathered_where_data_choose() -> None:
    """A mask of each turn would cost more than that."""
    (j,) = names("j")
    x, w, y = given("x", 1), given("w", 16), result("y", 16)
    chosen = call("select", read(w, j) < Const(0.5, DTYPES["f32"]), read(x, j // 8 - 1), Const(7.0, DTYPES["f32"]))
    loops = program((x, w, y), lanes(j, 16, store(y, (j,), chosen)))
    values, choosing = random(x), random(w)
    choosing[:8] = 1
    np.testing.assert_array_equal(run(loops, [values, choosing])[0], np.where(choosing < 0.5, values, 7))
    assert "gather" in assembled(loops, HOST, 1, texts=True).texts["llvm"]


def chosen_by_data(shift: int) -> tuple[LoopProgram, list[Array]]:
    """Sixteen lanes, of which each takes one of two elements by a third; `shift`: how far behind its own place one lies."""
    b, j = names("b j")
    x, w, y = given("x", 48 + min(shift, 8)), given("w", 48), result("y", 48)
    at = b * 16 + j
    further = read(x, at + shift)
    chosen = call("select", read(w, at) < Const(0.5, DTYPES["f32"]), further, read(w, at))
    return program((x, w, y), serial(b, 3, lanes(j, 16, store(y, (at,), chosen)))), [random(x), random(w)]


@pytest.mark.parametrize("at_end", [True, False])
def test_what_exists_in_any_case_is_read_without_a_mask(at_end: bool) -> None:
    loops, (x, w) = chosen_by_data(8)
    np.testing.assert_array_equal(run(loops, [x, w], at_end=at_end)[0], np.where(w < 0.5, x[8:], w))
    assert "masked" not in assembled(loops, HOST, 1, texts=True).texts["llvm"]


def test_what_may_not_exist_is_read_where_it_is_chosen() -> None:
    loops, (x, w) = chosen_by_data(9)  # the last element that could be chosen is none
    w[-1] = 1
    taken = np.append(x, np.float32(0))[9:]
    np.testing.assert_array_equal(run(loops, [x, w], at_end=True)[0], np.where(w < 0.5, taken, w))
    assert "masked" in assembled(loops, HOST, 1, texts=True).texts["llvm"]


@pytest.mark.parametrize("step", [1, 2, 3, 4])
@pytest.mark.parametrize("at_end", [True, False])
def test_a_condition_on_all_lanes_chooses_an_address(step: int, at_end: bool) -> None:
    b, j = names("b j")
    x, y = given("x", 16 * step - step + 1), result("y", 3, 16)
    chosen = call("select", b.equal(1), read(x, (b - 1) * 1024 + j * step), Const(7.0, DTYPES["f32"]))
    loops = program((x, y), serial(b, 3, lanes(j, 16, store(y, (b, j), chosen))))
    values = random(x)
    found = run(loops, [values], at_end=at_end)[0]
    np.testing.assert_array_equal(found[1], values[::step])
    np.testing.assert_array_equal(found[::2], np.full((2, 16), 7))
    assert "masked" not in assembled(loops, HOST, 1, texts=True).texts["llvm"]
