"""Affine forms, intervals and simplification against plain integer arithmetic."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilesmith.tensor.dtype import bf16, boolean, f16, f32, i32, i64, u8
from tilesmith.tensor.expr import Cast, Const, Expr, Op, Read, Var, binary, call, const, substitute
from tilesmith.tensor.indices import affine as rules
from tilesmith.tensor.indices.affine import Affine, Bounds, Known, affine, decide, interval, simplify, to_expr

i, j, k = Var("i"), Var("j"), Var("k")
BOUNDS = {"i": (0, 5), "j": (-3, 4), "k": (2, 9)}

_EVALUATE: dict[str, Callable[..., int]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "floordiv": operator.floordiv, "mod": operator.mod,
    "neg": operator.neg, "abs": abs, "min": min, "max": max, "lt": operator.lt, "le": operator.le, "gt": operator.gt,
    "ge": operator.ge, "eq": operator.eq, "ne": operator.ne, "and": lambda a, b: a and b, "or": lambda a, b: a or b,
    "not": operator.not_, "select": lambda c, a, b: a if c else b,
}  # fmt: skip


def value(expr: Expr, at: Mapping[str, int]) -> int:
    if isinstance(expr, Var):
        return at[expr.name]
    if isinstance(expr, Const):
        return int(expr.value)
    if isinstance(expr, Read):
        return at[expr.tensor]
    if isinstance(expr, Cast):
        return value(expr.arg, at)
    assert isinstance(expr, Op)
    return wrapped(_EVALUATE[expr.name](*(value(arg, at) for arg in expr.args)))


def wrapped(number: int) -> int:
    """What i64 holds of a whole number."""
    return (number + 2**63) % 2**64 - 2**63


def conditions(parts: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    compare = st.builds(binary, st.sampled_from(["lt", "le", "gt", "ge", "eq", "ne"]), parts, parts)
    return st.one_of(
        compare,
        st.builds(binary, st.sampled_from(["and", "or"]), compare, compare),
        st.builds(operator.invert, compare),
    )


def extend(parts: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    return st.one_of(
        st.builds(binary, st.sampled_from(["add", "sub", "mul", "min", "max"]), parts, parts),
        st.builds(operator.mul, parts, st.integers(-4, 4)),
        st.builds(operator.floordiv, parts, st.integers(1, 8)),
        st.builds(operator.mod, parts, st.integers(1, 8)),
        st.builds(operator.neg, parts),
        st.builds(lambda a: call("abs", a), parts),
        st.builds(lambda c, a, b: call("select", c, a, b), conditions(parts), parts, parts),
    )


leaves = st.one_of(st.sampled_from([i, j, k]), st.builds(lambda n: const(n, i64), st.integers(-5, 9)))
indices = st.recursive(leaves, extend, max_leaves=8)
points = st.fixed_dictionaries({name: st.integers(*ends) for name, ends in BOUNDS.items()})


@settings(max_examples=400, deadline=None)
@given(indices, st.lists(points, min_size=1, max_size=6))
def test_every_transformation_keeps_the_value(expr: Expr, places: list[dict[str, int]]) -> None:
    keeps_its_value(expr, places)


def keeps_its_value(expr: Expr, places: list[dict[str, int]]) -> None:
    """Asserts that forms, simplification and intervals agree with the values of an expression."""
    low, high = interval(expr, BOUNDS)
    for at in places:
        true = value(expr, at)
        assert value(to_expr(affine(expr)), at) == true
        assert value(simplify(expr), at) == true
        assert value(simplify(expr, BOUNDS), at) == true
        assert low <= true <= high


x, y, byte = Read("x", (), i64), Read("y", (), i64), Read("byte", (), u8).cast(i64)
large = st.builds(
    lambda name, times: name * times, st.sampled_from([i, x]), st.sampled_from([2**62, 2**63 - 1, -(2**63)])
)
data = st.recursive(st.one_of(leaves, st.sampled_from([x, y, byte]), large), extend, max_leaves=6)
whole_numbers = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-10, 10),
    st.builds(lambda end, off: wrapped(end + off), st.sampled_from([2**63, 2**62, -(2**62)]), st.integers(-9, 9)),
)
elements = st.fixed_dictionaries(
    {name: st.integers(*ends) for name, ends in BOUNDS.items()}
    | {"x": whole_numbers, "y": whole_numbers, "byte": st.integers(0, 255)}
)


@settings(max_examples=200, deadline=None)
@given(data, conditions(data), st.lists(elements, min_size=1, max_size=6))
def test_data_wrap_as_they_would(expr: Expr, condition: Expr, places: list[dict[str, int]]) -> None:
    keeps_its_value(call("select", condition, expr, x), places)


def test_laws_of_whole_numbers_wait_until_data_are_known_to_fit() -> None:
    doubled = call("select", const(0, i64) < x, const(0, i64), x * 2)  # of the least numbers it is positive
    assert simplify(call("max", doubled, const(0, i64))) != const(0, i64)
    assert simplify(x * 2 // 2) != x
    assert simplify(call("min", x + 1, x)) != x
    assert simplify(byte * 2 // 2) == byte
    clamped = call("min", call("max", x, const(0, i64)), const(9, i64))
    assert simplify((clamped * 64 + i) // 64, BOUNDS) == simplify(clamped)


@settings(max_examples=200, deadline=None)
@given(st.one_of(indices, data))
def test_the_form_of_a_form_is_itself(expr: Expr) -> None:
    assert affine(to_expr(affine(expr))) == affine(expr)


@settings(max_examples=200, deadline=None)
@given(conditions(indices), indices, points)
def test_guards_narrow_but_keep_every_point(condition: Expr, expr: Expr, at: dict[str, int]) -> None:
    holds = bool(value(condition, at))
    assert decide(condition, BOUNDS) in (None, holds)
    inside = Known(BOUNDS).assume(condition, holds)
    assert inside is not None
    low, high = inside.interval(expr)
    assert low <= value(expr, at) <= high


def test_sums_in_any_order_have_one_form() -> None:
    assert affine(i * 8 + j + 3) == affine((const(1, i64) + j) + 2 + (i + i) * 4) == Affine(((i, 8), (j, 1)), 3)
    assert affine(i - i) == Affine((), 0)
    assert str(affine(i * 2 - j).coefficients) == "{'i': 2, 'j': -1}"


def test_divisions_lose_what_divides() -> None:
    assert affine((i * 8 + j * 2 + 3) // 4) == affine(i * 2 + (j + 1) // 2)
    assert affine((i * 8 + 4) % 4) == Affine((), 0)
    assert affine((i // 4) // 8) == affine(i // 32)
    assert affine((i % 32) % 8) == affine(i % 8)
    assert affine((i * 6) % 4) == affine((i % 2) * 2)  # 6 = 4 + 2


def test_quotient_and_remainder_join() -> None:
    m = i * 12 + j
    assert affine((m // 4) * 4 + m % 4) == affine(m)
    assert affine((i // 12) * 24 + (i // 4 % 3) * 8 + (i % 4) * 2 + k) == affine(i * 2 + k)
    assert affine((i // 4 % 3) * 4 + i % 4) == affine(i % 12)
    assert affine((i // 4) * 4 + j % 4) != affine(i)


def test_bounds_settle_divisions_minima_and_guards() -> None:
    bounds = {"i": (0, 9), "r": (0, 3)}
    r = Var("r")
    assert simplify((i * 4 + r) // 4, bounds) == i
    assert simplify((i * 4 + r) % 4, bounds) == r
    assert simplify(binary("min", i + 7, const(90, i64)), bounds) == simplify(i + 7)
    assert simplify(call("select", i < 10, i, i + 1), bounds) == i
    assert simplify((i < 10) & (r < 3), bounds) == (r < 3)


def test_interval_knows_whole_sums_under_guards() -> None:
    bounds = {"i": (0, 55), "r": (0, 2)}
    row = i + Var("r") - 1
    assert interval(row, bounds) == (-1, 56)
    inside = Known(bounds).assume((row >= 0) & (row < 56))
    assert inside is not None and inside.interval(row) == (0, 55)
    assert inside.interval(row * 2 + 1) == (1, 111)
    assert interval(call("select", (row >= 0) & (row < 56), row, const(0, i64)), bounds) == (0, 55)
    assert Known(bounds).assume(row > 56) is None


def test_a_guard_on_a_quotient_tells_of_what_was_divided() -> None:
    bounds = {"i": (0, 63), "r": (0, 2)}
    inside = Known(bounds).assume((i // 8 - 1 >= 0) & (i // 8 - 1 < 3))
    assert inside is not None and inside.interval(i) == (8, 31)
    row = i // 8 + Var("r") - 1
    inside = Known(bounds).assume((row >= 0) & (row < 8))
    assert inside is not None and inside.interval(i + Var("r") * 8 - 8) == (0, 63)
    inside = Known(bounds).assume((3 - i // 8 * 2 >= 1) & (3 - i // 8 * 2 < 3))
    assert inside is not None and inside.interval(i) == (8, 15)
    assert Known(bounds).assume(i // 8 > 7) is None


def test_a_guard_on_a_sum_tells_of_its_quotients() -> None:
    bounds = {"i": (0, 2), "j": (0, 15), "k": (0, 2)}
    inside = Known(bounds).assume(i * 16 + j < 40)
    assert inside is not None and inside.interval(i * 4 + j // 4 + k) == (0, 11)
    assert inside.interval(-(i * 4) - j // 4) == (-9, 0)
    assert inside.interval(i * 8 + j // 4 * 2 + k) == (0, 20)  # as of strides of two
    inside = Known(bounds).assume(i * 16 + j >= 20)
    assert inside is not None and inside.interval(i * 4 + j // 4) == (5, 11)


@given(
    st.integers(-3, 3), st.sampled_from((2, 3, 4)), st.integers(-3, 3), st.integers(-3, 3), st.integers(-4, 4),
    st.sampled_from(("lt", "ge")), st.integers(-20, 60),
)  # fmt: skip
def test_what_is_known_of_quotients_holds(a: int, d: int, b: int, c: int, e: int, comparison: str, limit: int) -> None:
    bounds = {"i": (0, 3), "j": (-2, 9)}
    condition = Op(comparison, (i * (d * a) + j * b, const(limit, i64)), boolean)
    form = i * a + (j * b + e) // d * c
    inside = Known(bounds).assume(condition)
    points = [{"i": x, "j": y} for x in range(4) for y in range(-2, 10)]
    found = [value(form, at) for at in points if value(condition, at)]
    if inside is None:
        assert not found
    elif found:
        low, high = inside.interval(form)
        assert low <= min(found) and max(found) <= high


def test_interval_of_what_is_read_is_that_of_its_dtype_until_clamped() -> None:
    number = Read("t", (i,), i32)
    assert interval(byte, BOUNDS) == (0, 255)
    clamped = binary("min", binary("max", number.cast(i64), 0), 9)
    assert interval(clamped, BOUNDS) == (0, 9)
    assert interval(number + 1, BOUNDS) == (-(2**31), 2**31 - 1)  # it may wrap


def test_values_fold_only_where_every_bit_stays() -> None:
    x = Read("x", (i,), f32)
    assert simplify(x * 1.0) == x
    assert simplify(x - 0.0) == x
    assert simplify(x + 0.0) == x + 0.0  # -0.0 + 0.0 is 0.0
    assert simplify(x * 0.0) == x * 0.0  # inf * 0 is nan
    third = simplify(const(1.0, f32) / const(3.0, f32))
    assert isinstance(third, Const) and third.value == 0.3333333432674408
    zeros = simplify(call("select", x < 1.0, const(0.0, f32), const(-0.0, f32)))
    assert isinstance(zeros, Op) and zeros.name == "select"


def test_nan_literals_are_not_folded_away() -> None:
    largest = call("max", const(math.nan, f32), const(1.0, f32))
    assert simplify(largest) == largest


def test_literals_round_as_their_dtype() -> None:
    from tilesmith.tensor.indices.affine import round_to

    assert round_to(0.1, f32) == 0.10000000149011612
    assert round_to(0.1, f16) == 0.0999755859375
    assert round_to(0.1, bf16) == 0.10009765625
    assert round_to(1e39, f32) == math.inf and round_to(-3.4e38 * 1.01, bf16) == -math.inf
    assert round_to(7, i32) == 7 and round_to(True, boolean) is True


def test_what_is_written_into_indices_is_simplified_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stages that are written into one another make an index that holds those of all stages before."""
    calls = 0
    once = rules._simplified_op

    def counted(atom: Op, bounds: Bounds | None) -> Affine:
        nonlocal calls
        calls += 1
        return once(atom, bounds)

    monkeypatch.setattr(rules, "_simplified_op", counted)

    def looked_at(levels: int) -> int:
        nonlocal calls
        calls = 0
        index: Expr = Var("i")
        for _ in range(levels):
            body = Op("min", (Var("i") + 1, Const(511, i64)), i64)
            index = simplify(substitute(body, {"i": index}))
        return calls

    assert looked_at(80) <= 2 * looked_at(40) + 4
