"""Conditions on indices as bounds: affine forms that are at most zero exactly where a condition holds."""

from __future__ import annotations

from ..dtype import i64
from ..expr import Const, Expr, Op
from .affine import Affine, affine

Bound = Affine
_COMPARISONS = {"le": (1, 0), "lt": (1, 1), "ge": (-1, 0), "gt": (-1, 1)}  # sign of left - right, and what is added


def conjuncts(condition: Expr) -> tuple[Expr, ...]:
    """The conditions that hold together where `condition` does."""
    if isinstance(condition, Op) and condition.name == "and":
        return tuple(part for arg in condition.args for part in conjuncts(arg))
    return (condition,)


def bound_of(condition: Expr) -> Bound | None:
    """The linear form that is at most zero exactly where a comparison of indices holds; None for any other condition."""
    form = form_of(condition)
    if form is not None and not form.is_linear:
        form = _of_a_quotient(form)
    return form if form is not None and form.is_linear else None


def _of_a_quotient(form: Affine) -> Affine | None:
    """A linear form for one of a quotient: e // d <= m where e <= d * m + d - 1, and e // d >= m where e >= d * m."""
    match form.terms:
        case ((Op(name="floordiv", args=(inner, Const(value=divisor))), times),) if int(divisor) > 0:
            place = affine(inner)
        case _:
            return None
    step = int(divisor)
    if times > 0:
        return place.plus(Affine((), 1 - step * (-form.constant // times + 1)))
    return place.times(-1).plus(Affine((), -step * (form.constant // times)))


def form_of(condition: Expr) -> Affine | None:
    """The form that is at most zero exactly where a comparison of indices holds, be it linear or not."""
    if not isinstance(condition, Op) or condition.name not in _COMPARISONS or condition.args[0].dtype != i64:
        return None
    sign, more = _COMPARISONS[condition.name]
    return affine(condition.args[0]).minus(affine(condition.args[1])).times(sign).plus(Affine((), more))


def bounds_of(condition: Expr) -> frozenset[Bound]:
    """All forms that are at most zero where a condition holds."""
    return frozenset(form for part in conjuncts(condition) if (form := bound_of(part)) is not None)
