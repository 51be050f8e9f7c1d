"""Reads at places that data say: indices in narrow lanes, and short stretches of memory that are loaded whole.

References are Python's whole numbers and NumPy."""

from __future__ import annotations

import random as chance
from operator import add, sub
from typing import Any

import numpy as np
import pytest

from helpers.bochs.kernels import emulate
from helpers.emission.loops import (
    HOST,
    given,
    lanes,
    least,
    most,
    names,
    program,
    random,
    read,
    result,
    run,
    serial,
    store,
)
from tilesmith.codegen.emit.lookups import narrow_index
from tilesmith.codegen.emit.lookups.narrow_index import FARTHEST, is_narrow
from tilesmith.codegen.ir.loop_ir import LoopProgram
from tilesmith.codegen.pipeline import assembled
from tilesmith.targets.target import Target, parse_target
from tilesmith.tensor.dtype import DTYPES, i64
from tilesmith.tensor.expr import Cast, Const, Expr, Op, Var

Array = np.ndarray[Any, Any]
AVX2, AVX512, SSE2 = (parse_target(f"x86:{name}") for name in ("avx2", "avx512", "sse2"))
OPERATORS = {"min": min, "max": max, "add": add, "sub": sub}
GATHER, PERMUTE = "masked.gather", ".perm"
LARGE = [
    0.0,
    -0.5,
    0.99,
    1e9,
    -1e9,
    2.0**30,
    -(2.0**30),
    2.0**31,
    -(2.0**31),
    3e9,
    -3e9,
    1e15,
    -1e15,
    9e18,
    -9e18,
    -(2.0**63),
    2.0**63 - 1024,
]


def picked(length: int, dtype: str, by: str = "f32", width: int = 8, before: int = 0) -> LoopProgram:
    """y[j] = x[before + min(max(i64(at[j]), 0), length - 1)]: the last element that it may be is the last one there is."""
    (j,) = names("j")
    x, at = given("x", before + length, dtype=DTYPES[dtype]), given("at", width, dtype=DTYPES[by])
    place = least(most(Cast(read(at, j), i64), 0), length - 1) + before
    y = result("y", width, dtype=DTYPES[dtype])
    return program((x, at, y), lanes(j, width, store(y, (j,), read(x, place))))


def places(length: int, by: str, width: int, seed: int) -> Array:
    """Every place at some time, and numbers far beyond both ends."""
    rng = np.random.default_rng(seed)
    low, high = (0, 200) if by == "u8" else (-3, length + 3)
    found = rng.integers(low, high, width).astype(DTYPES[by].numpy)
    if by in ("f32", "f64"):
        found = found + rng.choice([0, 0.25, -0.25], width).astype(found.dtype)
        found[rng.integers(0, width, 2)] = rng.choice(LARGE, 2)
    return found


def expected(values: Array, at: Array, length: int, before: int = 0) -> Array:
    return values[[before + min(max(int(one), 0), length - 1) for one in at.tolist()]]


def text(loops: LoopProgram, target: Target) -> str:
    return assembled(loops, target, 1, texts=True).texts["llvm"]


@pytest.mark.parametrize("length", range(2, 18))
@pytest.mark.parametrize("dtype", ["f32", "i32"])
def test_a_short_stretch_is_loaded_whole(length: int, dtype: str) -> None:
    loops = picked(length, dtype, before=3)
    values = random(loops.arguments[0])
    for seed in range(6):
        at = places(length, "f32", 8, seed)
        for target in {HOST, AVX2, SSE2}:
            for at_end in (True, False):
                found = run(loops, [values, at], target=target, at_end=at_end)[0]
                np.testing.assert_array_equal(found, expected(values, at, length, 3))
    assert (PERMUTE in text(loops, AVX2)) == (length <= 16)
    assert (GATHER in text(loops, AVX2)) == (length > 16)
    assert PERMUTE not in text(loops, SSE2)


@pytest.mark.parametrize(
    ("dtype", "length", "width"),
    [("f32", 32, 16), ("i32", 17, 16), ("f32", 5, 16), ("f64", 16, 8), ("f64", 7, 8), ("i64", 9, 8), ("f32", 12, 8)],
)
def test_vectors_of_avx512_are_permuted(dtype: str, length: int, width: int) -> None:
    loops = picked(length, dtype, width=width)
    values, at = random(loops.arguments[0]), places(length, "f32", width, length)
    assert PERMUTE in text(loops, AVX512)
    assert GATHER not in text(loops, AVX512)
    for at_end in (True, False):
        found = emulate(assembled(loops, AVX512, 1), {"x": values, "at": at}, at_end)[0]
        np.testing.assert_array_equal(found, expected(values, at, length))


@pytest.mark.parametrize("by", ["f32", "f64", "i8", "u8", "i16", "i32", "u32", "i64"])
def test_whatever_data_say_it_with(by: str) -> None:
    loops = picked(11, "f32", by)
    values = random(loops.arguments[0])
    for seed in range(4):
        at = places(11, by, 8, seed)
        if at.itemsize >= 4 and DTYPES[by].is_integer:
            at[:2] = np.iinfo(at.dtype).max, np.iinfo(at.dtype).min
        for target in {HOST, AVX2, SSE2}:
            np.testing.assert_array_equal(run(loops, [values, at], target=target)[0], expected(values, at, 11))


def test_what_may_not_exist_is_not_loaded() -> None:
    """Where the range that is known is longer than the buffer, only what data say is read."""
    (j,) = names("j")
    x, at, y = given("x", 10), given("at", 8), result("y", 8)
    place = least(most(Cast(read(at, j), i64), 0), 11)
    loops = program((x, at, y), lanes(j, 8, store(y, (j,), read(x, place))))
    values, numbers = random(x), np.arange(2, 10, dtype=np.float32)
    np.testing.assert_array_equal(run(loops, [values, numbers])[0], values[2:])
    assert PERMUTE not in text(loops, AVX2)


def test_lanes_that_are_none_read_nothing() -> None:
    """A vector with a ragged end keeps its mask."""
    (j,) = names("j")
    x, at, y = given("x", 10), given("at", 5), result("y", 5)
    place = least(most(Cast(read(at, j), i64), 0), 9)
    loops = program((x, at, y), lanes(j, 8, store(y, (j,), read(x, place)), valid=5))
    values, numbers = random(x), np.array([9, 0, 4, 20, -1], np.float32)
    for at_end in (True, False):
        np.testing.assert_array_equal(run(loops, [values, numbers], at_end=at_end)[0], values[[9, 0, 4, 9, 0]])


def test_a_row_that_lanes_share_and_a_column_that_data_say() -> None:
    """The stretch of a cell moves from block to block, and steps of a lane add to it."""
    b, j = names("b j")
    x, at, y = given("x", 3, 12), given("at", 3, 8), result("y", 3, 8)
    column = least(most(Cast(read(at, b, j), i64), 0), 4) + j
    loops = program((x, at, y), serial(b, 3, lanes(j, 8, store(y, (b, j), read(x, b, column)))))
    values = random(x)
    numbers = np.random.default_rng(0).integers(-2, 8, (3, 8)).astype(np.float32)
    wanted = np.take_along_axis(values, np.clip(numbers.astype(int), 0, 4) + np.arange(8), 1)
    for target in {HOST, AVX2}:
        np.testing.assert_array_equal(run(loops, [values, numbers], target=target)[0], wanted)
    assert PERMUTE in text(loops, AVX2)


# which indices are narrow, held to Python's numbers


def drawn(rng: chance.Random, depth: int) -> Expr:
    """An expression of a float, a word and a byte."""
    if not depth or rng.random() < 0.15:
        leaf = rng.choice(["f", "w", "b", "c", "c"])
        if leaf == "c":
            return Const(rng.choice([0, 1, -1, 7, 100, 1023, 1024, 1 << 20, FARTHEST - 5, -(1 << 29)]), i64)
        dtype = {"f": "f64", "w": "i32", "b": "u8"}[leaf]
        return Cast(read(given(leaf, 8, dtype=DTYPES[dtype]), Var("j")), i64)
    name = rng.choice(["min", "max", "min", "max", "add", "sub"])
    return Op(name, (drawn(rng, depth - 1), drawn(rng, depth - 1)), i64)


def whole(expr: Expr, data: dict[str, int]) -> int:
    """The number as an i64, which wraps."""
    match expr:
        case Const(value=value):
            return int(value)
        case Cast(arg=arg):
            return data[arg.tensor]  # type: ignore[attr-defined]
    assert isinstance(expr, Op)
    left, right = (whole(arg, data) for arg in expr.args)
    found = OPERATORS[expr.name](left, right)
    return (found + (1 << 63)) % (1 << 64) - (1 << 63)


def in_lanes(expr: Expr, data: dict[str, int]) -> int:
    """The number as narrow lanes have it; AssertionError where an i32 does not hold what comes between."""
    match expr:
        case Const(value=value):
            found = int(value)
        case Cast(arg=arg):
            number = data[arg.tensor]  # type: ignore[attr-defined]
            found = max(-FARTHEST, min(FARTHEST, number)) if arg.dtype.is_float else number
        case Op(name=name, args=args):
            left, right = (in_lanes(arg, data) for arg in args)
            found = OPERATORS[name](left, right)
        case _:
            raise TypeError(expr)
    assert -(1 << 31) <= found < 1 << 31
    return found


def test_narrow_lanes_say_what_whole_numbers_say() -> None:
    rng, found = chance.Random(5), 0
    ends = [int(one) for one in LARGE]
    for _ in range(6000):
        expr = drawn(rng, rng.randint(1, 4))
        if rng.random() < 0.7:
            low = rng.choice([0, -3, -(1 << 20)])
            expr = Op(
                "min", (Op("max", (expr, Const(low, i64)), i64), Const(low + rng.choice([0, 9, 1 << 20]), i64)), i64
            )
        if not isinstance(expr, Op) or not is_narrow(expr):
            continue
        found += 1
        for _ in range(12):
            data = {
                "f": rng.choice([*ends, rng.randint(-20, 20)]),
                "w": rng.choice([-(1 << 31), (1 << 31) - 1, rng.randint(-20, 20)]),
                "b": rng.choice([0, 255, 9]),
            }
            assert in_lanes(expr, data) == whole(expr, data), (expr, data)
    assert found > 500


@pytest.mark.parametrize("broken", ["wraps", "two floats", "any sum"])
def test_a_wrong_reach_is_caught(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums that wrap in i64, sums of two floats that were moved, and sums that an i32 does not hold."""
    kept = narrow_index._moved_on

    def careless(moved: Any, more: Expr) -> Any:
        if moved.exact is None or (broken != "two floats" and not isinstance(more, Const)):
            return None
        step = abs(int(more.value)) if isinstance(more, Const) else 0
        return kept(moved, more) or narrow_index._NarrowReach(moved.most + step, moved.exact - step, moved.added)

    if broken == "any sum":
        monkeypatch.setattr(narrow_index, "_HELD", 1 << 40)
    else:
        monkeypatch.setattr(narrow_index, "_moved_on", careless)
    with pytest.raises(AssertionError):
        test_narrow_lanes_say_what_whole_numbers_say()
