"""Fast convolutions of bytes, against the original by the oracle: equal to the last bit, whatever bytes there are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tilesmith.common.errors import ProgramError
from tilesmith.tensor.dtype import DTYPES
from tilesmith.tensor.oracle.reference import evaluate
from tilesmith.tensor.program import Program
from tilesmith.tensor.rewrites.fast_windows.toom_cook import POINTS, strided
from tilesmith.tensor.rewrites.registry import is_allowed, winograd, winograd_integers
from tilesmith.tensor.text.parse import parse

MOST_CHANNELS = (2**31 - 1) // (4 * 9 * 255 * 128)  # of any bytes, so that 4 times a sum fits in 32 bits
LEAST_AND_MOST = {kind: (np.iinfo(DTYPES[kind].numpy).min, np.iinfo(DTYPES[kind].numpy).max) for kind in ("u8", "i8")}


def convolution(
    h: int = 7, w: int = 6, c: int = 5, o: int = 3, kinds: str = "u8 i8", border: int = 0, last: bool = True,
    padding: int = 1, clamp: int = 0, zero: int = 0, taps: int = 3, stride: int = 1, wide: str = "i32",
) -> Program:  # fmt: skip
    """A convolution of bytes, with a border of one number, less a zero point."""
    a, b = kinds.split()
    p, q = ((n + 2 * padding - taps) // stride + 1 for n in (h, w))
    row, column = (f"{stride} * {x} + {r} - {padding}" for x, r in (("p", "r"), ("q", "s")))
    read = f"x[n, {row}, {column}, c]" if last else f"x[n, c, {row}, {column}]"
    read = f"select({row} >= 0 and {row} < {h} and {column} >= 0 and {column} < {w}, {read}, {border})"
    given_ = f"{wide}({read})" + (f" - {zero}" if zero else "")
    axes = f"p: {p}, q: {q}, o: {o}" if last else f"o: {o}, p: {p}, q: {q}"
    lines = [f"input x: {a}[2, {h}, {w}, {c}]" if last else f"input x: {a}[2, {c}, {h}, {w}]"]
    lines += [f"input f: {b}[{o}, {c}, {taps}, {taps}]"]
    if clamp:
        least = -clamp if b == "i8" else 0
        lines += [f"F[o: {o}, c: {c}, r: {taps}, s: {taps}] = min(max(f[o, c, r, s], {least}), {clamp})"]
    name = "F" if clamp else "f"
    lines += [f"y[n: 2, {axes}] = sum[c: {c}, r: {taps}, s: {taps}](({given_}) * {wide}({name}[o, c, r, s]))"]
    return parse("\n".join([*lines, "return y"]))


def agree(program: Program, inputs: list[NDArray[np.generic]]) -> Program:
    made = winograd_integers(program, "y", "p", "q")
    assert parse(str(made)) == made
    (wanted,), (found,) = evaluate(program, inputs), evaluate(made, inputs)
    np.testing.assert_array_equal(found, wanted)
    return made


def random_bytes(program: Program, seed: int, ends: bool) -> list[NDArray[np.generic]]:
    """Any bytes, or the least and the greatest ones alone."""
    rng, made = np.random.default_rng(seed), []
    for item in program.inputs:
        low, high = LEAST_AND_MOST[item.tensor.dtype.name]
        drawn = rng.integers(low, high, item.tensor.shape, endpoint=True)
        made.append((np.where(drawn % 2, low, high) if ends else drawn).astype(item.tensor.dtype.numpy))
    return made


@settings(deadline=None, max_examples=15)
@given(st.data())
def test_any_bytes_give_the_same_sums(data: st.DataObject) -> None:
    program = convolution(
        stride=data.draw(st.sampled_from((1, 2))),
        h=data.draw(st.integers(3, 9)), w=data.draw(st.integers(3, 9)), c=data.draw(st.integers(1, 6)),
        o=data.draw(st.integers(1, 4)), kinds=data.draw(st.sampled_from(("u8 i8", "i8 i8", "u8 u8", "i8 u8"))),
        border=data.draw(st.integers(0, 127)), last=data.draw(st.booleans()), padding=data.draw(st.integers(0, 2)),
        clamp=data.draw(st.sampled_from((0, 64))), zero=data.draw(st.sampled_from((0, 113))),
    )  # fmt: skip
    agree(program, random_bytes(program, data.draw(st.integers(0, 1000)), data.draw(st.booleans())))


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("x", [0, 255])
@pytest.mark.parametrize("f", [-128, 127])
def test_the_ends_of_both_types_give_the_same_sums(x: int, f: int, stride: int) -> None:
    program = convolution(c=64, stride=stride)
    full = [np.full(program.inputs[0].tensor.shape, x, np.uint8), np.full(program.inputs[1].tensor.shape, f, np.int8)]
    made = agree(program, full)
    names = [stage.name for stage in made.stages]
    assert names == [f"y_{kind}" for kind in ("columns", "data", "filter", "products", "half", "fast")] + ["y"]


@pytest.mark.parametrize("stride", [1, 2])
def test_the_largest_numbers_of_each_transform_fit_in_halves(stride: int) -> None:
    """The data and the filter that make each place of a transformed tile as large as it gets, of either sign."""
    size = 3 + stride
    program = convolution(h=size, w=size, c=1, o=size**2, padding=0, stride=stride)
    matrices = strided(POINTS[2], 2, 3, stride)
    filters = np.stack([np.outer(a, b) for a in matrices.filter for b in matrices.filter])
    least = np.where(filters.astype(float) > 0, 127, -128).astype(np.int8)[:, None]
    for a in matrices.data:
        for b in matrices.data:
            for sign in (1, -1):
                tile = np.where(sign * np.outer(a, b).astype(float) > 0, 255, 0).astype(np.uint8)
                agree(program, [np.broadcast_to(tile[None, :, :, None], (2, size, size, 1)).copy(), least])


def test_many_channels_of_the_largest_numbers_fit() -> None:
    program = convolution(h=4, w=4, c=MOST_CHANNELS, o=1)
    agree(program, [np.full((2, 4, 4, MOST_CHANNELS), 255, np.uint8), np.full((1, MOST_CHANNELS, 3, 3), -128, np.int8)])


def test_sums_of_stride_2_may_go_round() -> None:
    """No number is divided, so that what is right modulo 2^32 is what the definition gives."""
    channels = 4 * MOST_CHANNELS + 1
    program = convolution(h=3, w=3, c=channels, o=1, padding=0, stride=2)
    agree(program, [np.full((2, 3, 3, channels), 255, np.uint8), np.full((1, channels, 3, 3), -128, np.int8)])


@pytest.mark.parametrize("stride", [1, 2])
def test_a_wrong_coefficient_is_found(stride: int) -> None:
    program = convolution(stride=stride)
    made, inputs = winograd_integers(program, "y", "p", "q"), random_bytes(program, 1, ends=False)
    (wanted,) = evaluate(program, inputs)
    for number, table in enumerate(made.tables):
        values = (*table.values[:-1], table.values[-1] + 1)
        wrong = replace(made, tables=tuple(replace(t, values=values) if t is table else t for t in made.tables))
        (found,) = evaluate(wrong, inputs)
        assert (found != wanted).any(), f"table {number}"


REFUSED = [
    (convolution(c=MOST_CHANNELS + 1), "4 times the sums are up to"),
    (convolution(kinds="i16 i8"), "transformed data or filters are up to"),
    (convolution(zero=30000), "transformed data or filters are up to"),
    (convolution(stride=3, h=9), "is no 3x3 convolution of stride 1"),
    (convolution(taps=5), "is no 3x3 convolution of stride 1"),
    (convolution(wide="f32"), "is no 3x3 convolution of stride 1"),
]


@pytest.mark.parametrize(("program", "problem"), REFUSED)
def test_what_may_not_fit_is_refused(program: Program, problem: str) -> None:
    with pytest.raises(ProgramError, match=problem):
        winograd_integers(program, "y", "p", "q")


def test_small_constants_leave_room_for_more_channels() -> None:
    program = convolution(c=2 * MOST_CHANNELS, clamp=64)
    assert winograd_integers(program, "y", "p", "q").stage("y_products").reduction[0].extent == 2 * MOST_CHANNELS


def test_integers_have_a_rewrite_of_their_own_which_strict_tasks_have_too() -> None:
    with pytest.raises(ProgramError, match="is no 3x3 convolution of stride 1"):
        winograd(convolution(), "y", "p", "q")
    assert is_allowed("winograd_integers", "strict") and not is_allowed("winograd", "strict")
