"""Vectors of elements that lie near one another, as those of x[j // 2]: no gather, and nothing beside them is read."""

from __future__ import annotations

from collections.abc import Callable

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
from tilesmith.codegen.pipeline import assembled
from tilesmith.tensor.dtype import DTYPES
from tilesmith.tensor.expr import Const, Expr, call

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
