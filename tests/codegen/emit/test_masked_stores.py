"""Stores of some lanes: whole vectors are stored whole where masks are slow, and no lane that does not count is touched."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.emission.loops import (
    block,
    given,
    index,
    lanes,
    least,
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
from tilesmith.targets.host import missing_here
from tilesmith.targets.target import parse_target
from tilesmith.tensor.dtype import DTYPES

WIDTH = 8
TARGETS = ("x86:sse2", "x86:avx2", "x86:avx512")


def rows(columns: int, kind: str) -> LoopProgram:
    """z[i, j] = x[i, j] + x[i, j], some lanes at a time, the last vector of a row as far as it goes; and then z once more."""
    i, j, lane = names("i j l")
    x, z, copy = (
        given("x", 3, columns, dtype=DTYPES[kind]),
        *(result(n, 3, columns, dtype=DTYPES[kind]) for n in "zy"),
    )
    place = j * WIDTH + lane
    twice = read(x, i, place) + read(x, i, place)
    body = block(store(z, (i, place), twice), store(copy, (i, place), read(z, i, place)))
    left = least(index(WIDTH), index(columns) - j * WIDTH)
    trips = -(-columns // WIDTH)
    return program((x, z, copy), serial(i, 3, serial(j, trips, lanes(lane, WIDTH, body, valid=left))))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", ["f32", "i8", "f64"])
@pytest.mark.parametrize("columns", [5, 8, 12, 21])
def test_lanes_that_count_are_stored_and_no_others(columns: int, kind: str, target: str) -> None:
    """Beside guard pages, in front of them and behind; what is stored is what is read afterwards."""
    if missing_here(parse_target(target)):
        pytest.skip("this machine has no such vectors")
    loops = rows(columns, kind)
    values = random(loops.arguments[0])
    for at_end in (False, True):
        for found in run(loops, [values], target=parse_target(target), at_end=at_end):
            np.testing.assert_array_equal(found, values + values)


def test_whole_vectors_have_a_store_of_their_own_where_masks_are_slow() -> None:
    texts = {
        target: assembled(rows(21, "f32"), parse_target(target), 1, texts=True).texts["llvm"] for target in TARGETS
    }
    for target, text in texts.items():
        asks = target != "x86:avx512"
        assert ("vector.reduce.and.v8i1" in text) == asks
        assert (text.count("  store <8 x float>") == 2) == asks and text.count("call void @llvm.masked.store") == 2
