"""Conditions on indices as linear forms: at most zero exactly where the condition holds."""

from __future__ import annotations

from itertools import product

import pytest

from tilesmith.tensor.dtype import boolean, i64
from tilesmith.tensor.expr import Const, Op, Var
from tilesmith.tensor.indices.bounds import bound_of

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
