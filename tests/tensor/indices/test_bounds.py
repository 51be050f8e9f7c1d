"""Conditions on indices as linear forms: at most zero exactly where the condition holds."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from tilesmith.tensor.dtype import boolean, i64
from tilesmith.tensor.expr import Const, Op, Var
from tilesmith.tensor.indices.affine import Affine, affine
from tilesmith.tensor.indices.bounds import Bound, bound_of, bounds_of_both, bounds_where_read

HOLDS = {"le": int.__le__, "lt": int.__lt__, "ge": int.__ge__, "gt": int.__gt__}


@pytest.mark.parametrize("comparison", HOLDS)
def test_a_bound_of_a_quotient_holds_exactly_where_the_condition_does(comparison: str) -> None:
    j = Var("j")
    for divisor, shift, limit, times in product((1, 2, 3, 5), (-3, 0, 1, 2), (-4, -1, 0, 3, 7), (1, -1, 2, -3)):
        condition = Op(comparison, ((j + shift) // divisor * times, Const(limit, i64)), boolean)
        bound = bound_of(condition)
        assert bound is not None
        for value in range(-30, 40):
            truth = HOLDS[comparison]((value + shift) // divisor * times, limit)
            form = sum(step * value for _, step in bound.terms) + bound.constant
            assert (form <= 0) == truth, (condition, value)


@pytest.mark.parametrize("condition", [Var("j") // 2 + Var("i"), Var("j") // 2 // Var("i"), Var("j") % 3])
def test_others_have_no_bound(condition: Op) -> None:
    assert bound_of(Op("le", (condition, Const(7, i64)), boolean)) is None


def _value(bound: Bound, **places: int) -> int:
    return bound.constant + sum(step * places[name] for name, step in bound.coefficients.items())


@pytest.mark.parametrize("seed", range(60))
def test_places_that_are_read_keep_to_the_bounds_of_who_reads(seed: int) -> None:
    random = Random(seed)
    times, divisor, before, after = (
        random.choice((1, 2, 3, -2)),
        random.choice((1, 1, 4, 5)),
        random.randint(-3, 3),
        seed % 4,
    )
    index = (Var("i") * times + before) // divisor + after
    forms = Var("i") * times * random.choice((1, -1, 2)), Var("j") * random.choice((1, -1, -3)), random.randint(-9, 9)
    bound = affine(sum(forms[1:], forms[0]))
    (found,) = bounds_where_read([bound], [index, Var("j") - 1], ["a", "b"])
    reached = []
    for i, j in product(range(-12, 13), range(-12, 13)):
        if _value(bound, i=i, j=j) <= 0:
            reached.append(_value(found, a=(times * i + before) // divisor + after, b=j - 1))
    assert max(reached) <= 0
    assert max(reached) > -12, "it leaves out less than it could"


def test_axes_that_are_in_no_place_leave_no_bound() -> None:
    bound = affine(Var("i") - Var("j"))
    assert not bounds_where_read([bound], [Var("i")], ["a"])
    assert not bounds_where_read([bound], [Var("i") % 4, Var("j")], ["a", "b"])
    assert not bounds_where_read([bound], [Var("i") * 2, Var("j")], ["a", "b"])


@pytest.mark.parametrize("seed", range(40))
def test_bounds_of_both_leave_out_what_both_do(seed: int) -> None:
    random = Random(seed)
    ranges = {"i": (0, 7), "j": (0, 5)}

    def some() -> frozenset[Bound]:
        steps = (random.randint(-2, 2), random.randint(-2, 2), random.randint(-8, 4))
        forms = [
            affine(Var("i") * steps[0] + Var("j") * steps[1] + steps[2] + more) for more in (0, random.randint(-3, 3))
        ]
        return frozenset((*forms, Affine((), -1)))

    one, other = some(), some()
    common = bounds_of_both(one, other, ranges)
    for i, j in product(range(8), range(6)):
        left_out = [any(_value(b, i=i, j=j) > 0 for b in bounds) for bounds in (one, other)]
        assert all(left_out) or not any(_value(b, i=i, j=j) > 0 for b in common)
    assert bounds_of_both(one, one, ranges) == one
