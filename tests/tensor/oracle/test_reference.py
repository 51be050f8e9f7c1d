"""The oracle against NumPy, against itself by other paths, and its error bounds against float32."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from helpers.random_programs import any_programs, programs
from tilesmith.common.errors import ArgumentError
from tilesmith.tensor.expr import Cast, Const, Expr, Op, Read, Var
from tilesmith.tensor.oracle import blocks, contract, evaluator
from tilesmith.tensor.oracle.random_inputs import Magnitudes, random_inputs
from tilesmith.tensor.oracle.reference import evaluate, evaluate_at
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.parse import parse

Array = NDArray[np.generic]


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def convolved(x: Array, w: Array) -> Array:
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    return np.einsum("chvrs,ocrs->ohv", windows, w)


FOLD = """
input S: f32[24, 33]
input V: f32[33, 10]
fold[j: 33] {
    m[i: 24]: f32 = -inf
    l[i: 24]: f32 = 0
    o[i: 24, d: 10]: f32 = 0
    let top = max(m[i], S[i, j])
    let scale = exp(m[i] - top)
    let p = exp(S[i, j] - top)
    let pv = p * V[j, d]
    m = top
    l = l[i] * scale + p
    o = o[i, d] * scale + pv
}
R[i: 24, d: 10] = o[i, d] / l[i]
return R, m
"""

KNOWN: list[tuple[str, Callable[..., object]]] = [
    ("input A: f32[33, 65]\ninput B: f32[65, 17]\nC[i: 33, j: 17] = sum[k: 65](A[i, k] * B[k, j])\nreturn C",
     lambda a, b: a @ b),
    ("input A: f64[5, 6, 7]\ninput B: f64[5, 8, 7]\nC[b: 5, i: 6, j: 8] = sum[k: 7](B[b, j, k] * A[b, i, k] * 3)\nreturn C",
     lambda a, b: 3 * np.einsum("bik,bjk->bij", a, b)),
    ("input A: f32[6, 7]\ninput B: f32[6]\nC[] = sum[i: 6, j: 7](A[i, j] * B[i])\nreturn C", lambda a, b: b @ a.sum(1)),
    ("input A: f32[16, 12]\nM[i: 16] = max[k: 12](A[i, k])\nE[i: 16, k: 12] = exp(A[i, k] - M[i])\n"
     "S[i: 16] = sum[k: 12](E[i, k])\nP[i: 16, k: 12] = E[i, k] / S[i]\nreturn P", softmax),
    ("input x: f32[4, 9, 7]\ninput w: f32[5, 4, 3, 3]\nC[o: 5, h: 9, v: 7] = sum[c: 4, r: 3, s: 3](select(h + r >= 1 and "
     "h + r < 10 and v + s >= 1 and v + s < 8, x[c, h + r - 1, v + s - 1], 0) * w[o, c, r, s])\nreturn C", convolved),
    (FOLD, lambda s, v: (softmax(s) @ v, s.max(1))),
    ("input a: f64[6, 7]\nc[j: 7] = prod[i: 6](a[i, j])\nd[] = min[i: 6, j: 7](a[i, j])\nreturn c, d",
     lambda a: (a.prod(0), a.min())),
    ("input a: i32[6, 7]\ninput b: i32[7, 5]\nc[i: 6, j: 5] = sum[k: 7](a[i, k] * b[k, j])\nreturn c", lambda a, b: a @ b),
    ("input n: i32[40]\ninput t: f32[5]\nc[i: 40] = t[min(max(n[i], 0), 4)]\nreturn c", lambda n, t: t[np.clip(n, 0, 4)]),
    ("input a: bool[3, 5]\nc[i: 3] = max[j: 5](a[i, j])\nd[i: 3] = min[j: 5](not a[i, j])\nreturn c, d",
     lambda a: (a.any(1), (~a).all(1))),
    ("input a: f32[12]\nc[i: 3, j: 4] = a[i * 4 + j] + f32(i // 2) + f32(j % 3)\nreturn c",
     lambda a: a.reshape(3, 4) + np.arange(3)[:, None] // 2 + np.arange(4) % 3),
    ("input a: f32[8]\nc, d[i: 8] = floor(a[i] * 3), i32(a[i] * 3)\nreturn c, d",
     lambda a: (np.floor(a.astype(np.float64) * 3), np.trunc(a.astype(np.float64) * 3))),
    ("input a: i8[4]\nc[i: 4] = a[i] * 100\nreturn c", lambda a: a * np.int8(100)),  # wraps as a kernel's does
    ("table w: f32[2, 2] = [1, -0.5, inf, nan]\nc[i: 2, j: 2] = w[j, i] * 2\nreturn c",
     lambda: np.array([[2, np.inf], [-1, np.nan]])),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(KNOWN)))
def test_known_programs(number: int) -> None:
    text, truth = KNOWN[number]
    program = parse(text)
    inputs = random_inputs(program, number)
    wide = [x.astype(np.float64) if x.dtype.kind == "f" else x for x in inputs]
    expected = truth(*wide)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for name, found, true in zip(program.outputs, evaluate(program, inputs), expected, strict=True):
        np.testing.assert_allclose(found, true, rtol=1e-12, atol=1e-12)
        agrees_at_points(program, inputs, name, found)


def agrees_at_points(program: Program, inputs: Sequence[Array], name: str, whole: Array) -> None:
    generator = np.random.default_rng(0)
    points = np.stack([generator.integers(0, size, 6) for size in whole.shape] or [np.zeros(0, int)], axis=1)
    points = points if whole.ndim else np.zeros((6, 0), np.int64)
    np.testing.assert_allclose(
        evaluate_at(program, inputs, name, points), whole[tuple(points.T)], rtol=1e-9, atol=1e-12
    )


@settings(max_examples=60, deadline=None)
@given(any_programs(), st.integers(0, 99))
def test_points_blocks_and_products_agree_with_the_whole(program: Program, seed: int) -> None:
    inputs = random_inputs(program, seed)
    wholes = evaluate(program, inputs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "BLOCK_POINTS", 50)
        patch.setattr(evaluator, "factor_groups", lambda stage: None)
        for one, other in zip(wholes, evaluate(program, inputs), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
    for name, whole in zip(program.outputs, wholes, strict=True):
        agrees_at_points(program, inputs, name, whole)


def slow_element(expr: Expr, at: dict[str, int], arrays: dict[str, Array], dtype: type[np.floating]) -> object:
    """One expression at one point in plain Python on scalars of `dtype`: the oracle's oracle, and a float32 'kernel'."""
    match expr:
        case Const(value=value):
            return dtype(value) if expr.dtype.is_float else value
        case Var(name=name):
            return at[name]
        case Read(tensor=tensor, indices=indices):
            return arrays[tensor][tuple(int(slow_element(i, at, arrays, dtype)) for i in indices)]  # type: ignore[call-overload]
        case Cast(arg=arg):
            return dtype(slow_element(arg, at, arrays, dtype))
        case Op(name="select", args=(condition, yes, no)):
            return slow_element(yes if slow_element(condition, at, arrays, dtype) else no, at, arrays, dtype)
        case Op(name=name, args=args):
            from tilesmith.tensor.language import OPERATORS

            values = [slow_element(arg, at, arrays, dtype) for arg in args]
            result = OPERATORS[name].value(*values)
            return dtype(result) if expr.dtype.is_float else result
    raise TypeError(expr)


def slow(program: Program, inputs: Sequence[Array], dtype: type[np.floating]) -> list[Array]:
    arrays = {
        item.tensor.name: x.astype(dtype) if item.tensor.dtype.is_float else x
        for item, x in zip(program.inputs, inputs, strict=True)
    }
    combine = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}
    for stage in program.stages:
        kind = dtype if stage.bodies[0].dtype.is_float else np.int64
        spatial = [range(axis.extent) for axis in stage.axes]
        result = np.zeros([len(r) for r in spatial], kind)
        for place in np.ndindex(*result.shape):
            at = dict(zip((a.name for a in stage.axes), place, strict=True))
            total = None
            for step in np.ndindex(*(axis.extent for axis in stage.reduction)):
                at.update(zip((a.name for a in stage.reduction), step, strict=True))
                value = slow_element(stage.bodies[0], at, arrays, dtype)
                total = value if total is None else kind(combine[stage.combiner](total, value))  # type: ignore[index]
            result[place] = total
        arrays[stage.name] = result
    return [arrays[name] for name in program.outputs]


small = programs(sizes=(1, 2, 3, 5), max_stages=3)


@settings(max_examples=40, deadline=None)
@given(small)
def test_the_oracle_agrees_with_plain_loops(program: Program) -> None:
    inputs = random_inputs(program, 3)
    with np.errstate(all="ignore"):
        expected = slow(program, inputs, np.float64)
    for one, other in zip(evaluate(program, inputs), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(programs(sizes=(1, 3, 5, 8), dtypes=("f32",)), st.integers(0, 9))
def test_a_correct_float32_kernel_stays_within_the_magnitude(program: Program, seed: int) -> None:
    if any(isinstance(n, Op) and n.name == "select" for s in program.stages for b in s.bodies for n in _nodes(b)):
        return  # a comparison that rounding tips over may jump
    if sum(prod(a.extent for a in s.all_axes) for s in program.stages) > 3000:
        return
    inputs = random_inputs(program, seed)
    with np.errstate(all="ignore"):
        kernel = slow(program, inputs, np.float32)
    for found, true, size in zip(
        kernel, evaluate(program, inputs), evaluate(program, inputs, absolute=True), strict=True
    ):
        assert np.all(np.abs(found - true) <= 2 * 2.0**-23 * size + 1e-37)


def _nodes(expr: Expr) -> list[Expr]:
    from tilesmith.tensor.expr import walk

    return list(walk(expr))


def test_the_magnitude_tells_a_wrong_kernel() -> None:
    program = parse(KNOWN[0][0])
    inputs = random_inputs(program, 0)
    (value,), (size,) = evaluate(program, inputs), evaluate(program, inputs, absolute=True)
    broken = [inputs[0].copy(), inputs[1]]
    broken[0][3, 64] = 0  # the last k is left out, in one row
    (wrong,) = evaluate(program, broken)
    tolerance = 4 * 2.0**-23 * size
    assert np.all(np.abs(inputs[0].astype(np.float32) @ inputs[1] - value) <= tolerance)
    assert np.any(np.abs(wrong - value)[3] > tolerance[3])
    assert np.max(tolerance) < 1e-3


def test_long_sums_of_positive_numbers_have_room() -> None:
    program = parse("input a: f32[100000]\ns[] = sum[i: 100000](abs(a[i]))\nreturn s")
    inputs = random_inputs(program, 0)
    total = np.float32(0)
    for x in np.abs(inputs[0]):
        total += x
    (value,), (size,) = evaluate(program, inputs), evaluate(program, inputs, absolute=True)
    assert 0 < abs(total - value) <= 2.0**-23 * size


def test_random_inputs_are_seeded_and_of_both_signs() -> None:
    program = parse("input a: f32[50]\ninput b: bf16[50]\ninput c: i8[50]\ninput d: u8[50]\ninput e: bool[50]\n"
                    "input f: f64[50]\nr[i: 50] = a[i]\nreturn r")  # fmt: skip
    first, again, other = (random_inputs(program, seed) for seed in (1, 1, 2))
    for item, x, y, z in zip(program.inputs, first, again, other, strict=True):
        assert x.dtype == item.tensor.dtype.numpy
        assert np.array_equal(x, y)
        assert not np.array_equal(x, z)
    for number in (0, 2, 5):
        assert (first[number] < 0).any()
        assert (first[number] > 0).any()


def test_real_sizes_at_points_are_quick() -> None:
    program = parse(
        "input A: f32[2048, 2048]\ninput B: f32[2048, 2048]\nC[i: 2048, j: 2048] = sum[k: 2048](A[i, k] * B[k, j])\n"
        "D[i: 2048, j: 2048] = max(C[i, j], 0)\nreturn D"
    )
    inputs = random_inputs(program, 0)
    points = np.random.default_rng(0).integers(0, 2048, (200, 2))
    found = evaluate_at(program, inputs, "D", points)
    rows, columns = inputs[0][points[:, 0]].astype(np.float64), inputs[1][:, points[:, 1]].T.astype(np.float64)
    np.testing.assert_allclose(found, np.maximum((rows * columns).sum(1), 0), rtol=1e-9, atol=1e-12)


def test_wrong_inputs_are_refused() -> None:
    program = parse(KNOWN[0][0])
    a, b = random_inputs(program, 0)
    for inputs, problem in [
        ((a,), "wrong number of arrays"),
        ((a, b.T), "array for B does not fit"),
        ((a.astype(np.float64), b), "array for A does not fit"),
    ]:
        with pytest.raises(ArgumentError, match=problem):
            evaluate(program, inputs)
    for points in (np.array([[0, 17]]), np.array([0, 0])):
        with pytest.raises(ArgumentError, match="points"):
            evaluate_at(program, (a, b), "C", points)


def test_the_product_path_is_taken_where_it_pays() -> None:
    def groups(stage: str) -> object:
        program = parse(f"input A: f32[9, 9]\ninput B: f32[9, 9]\n{stage}\nreturn C")
        return contract.factor_groups(program.stages[0])

    assert groups("C[i: 9, j: 9] = sum[k: 9](A[i, k] * B[k, j])") is not None
    assert groups("C[i: 9, j: 9] = sum[k: 9](A[i, k] + B[k, j])") is None
    assert groups("C[i: 9] = sum[k: 9](A[i, k] * B[i, k])") is None
    assert groups("C[i: 9, j: 9] = max[k: 9](A[i, k] * B[k, j])") is None


def test_whole_bytes_are_drawn_where_they_are_asked_for() -> None:
    made = parse(
        "input a: u8[4096]\ninput b: i8[4096]\ninput c: i32[64]\nd[i: 64] = i32(a[i]) + i32(b[i]) + c[i]\nreturn d"
    )
    a, b, c = random_inputs(made, sizes=Magnitudes.WHOLE)
    assert (a.min(), a.max(), b.min(), b.max()) == (0, 255, -128, 127)
    assert abs(c).max() <= 8
