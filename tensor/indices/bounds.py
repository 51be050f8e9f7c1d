"""Conditions on indices as bounds: affine forms that are at most zero exactly where a condition holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce

from ..dtype import i64
from ..expr import Expr, Op, Read, Var, children
from .affine import Affine, affine, interval_of_form
from .forms import quotient_of
from .intervals import Bounds as Ranges

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
    if len(form.terms) != 1 or (divided := quotient_of(form.terms[0][0])) is None:
        return None
    (place, step), times = divided, form.terms[0][1]
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


def reads_under_bounds(expr: Expr, known: frozenset[Bound] = frozenset()) -> Iterator[tuple[Read, frozenset[Bound]]]:
    """Yields all reads, each with the bounds that hold where it is evaluated."""
    waiting = [(expr, known)]  # a generator of generators hands each read up through all levels
    while waiting:
        node, holds = waiting.pop()
        if isinstance(node, Read):
            yield node, holds
        if isinstance(node, Op) and node.name == "select":
            condition, yes, no = node.args
            waiting += [(no, holds), (yes, holds | bounds_of(condition)), (condition, holds)]
        else:
            waiting += [(child, holds) for child in reversed(children(node))]


def bounds_where_read(bounds: Iterable[Bound], indices: Sequence[Expr], axes: Sequence[str]) -> frozenset[Bound]:
    """Returns what bounds of a reader say of the axes of what it reads at some indices, by the names of these: all places that
    are read where they hold keep to it.

    j - i <= 0     of places [i, 2 * j + 1]:   a1 - 2 * a0 - 1 <= 0      of places [j // 16, i]:   16 * a0 - a1 <= 0
    """
    places = [(Var(axis), affine(index)) for axis, index in zip(axes, indices, strict=True)]
    found = (_where_read(bound, places) for bound in bounds)
    return frozenset(bound for bound in found if bound is not None)


def _where_read(bound: Bound, places: Sequence[tuple[Var, Affine]]) -> Bound | None:
    """The bound with all its variables gone into those of the places; None where some are in none of them."""
    left, renamed = bound, Affine((), 0)
    for axis, place in places:
        inner, divisor, offset = _quotient(place)
        times = _times(left, inner)
        if times:  # divisor * (axis - offset) <= inner <= divisor * (axis - offset) + divisor - 1
            least = (0 if times > 0 else divisor - 1) - divisor * offset
            left = left.minus(inner.times(times))
            renamed = renamed.plus(Affine(((axis, divisor),), least), times)
    return None if left.terms else renamed.plus(Affine((), left.constant))


def _quotient(place: Affine) -> tuple[Affine, int, int]:
    """(e, d, c) where a place is e // d + c; d is 1 and c is 0 where it is no quotient."""
    divided = quotient_of(place.terms[0][0]) if len(place.terms) == 1 and place.terms[0][1] == 1 else None
    return (place, 1, 0) if divided is None else (*divided, place.constant)


def _times(form: Affine, inner: Affine) -> int:
    """Says how many times the terms of a form hold those of another; 0 where they do not."""
    if not inner.terms or not inner.is_linear or not form.is_linear:
        return 0
    name, step = next(iter(inner.coefficients.items()))
    times, rest = divmod(form.coefficients.get(name, 0), step)
    alike = all(form.coefficients.get(n, 0) == times * c for n, c in inner.coefficients.items())
    return times if alike and not rest else 0


def bounds_of_both(one: frozenset[Bound], other: frozenset[Bound], ranges: Ranges) -> frozenset[Bound]:
    """Returns the bounds that leave out what both leave out: each of one that leaves out no more than one of the other.

    ranges: of all variables, (lowest, highest).
    """

    def within(bound: Bound, wider: frozenset[Bound]) -> bool:
        return any(interval_of_form(found.minus(bound), ranges)[0] >= 0 for found in wider)

    sides = (one, other), (other, one)
    return frozenset(bound for here, there in sides for bound in here if within(bound, there))


def bounds_of_all(several: Iterable[frozenset[Bound]], ranges: Ranges) -> frozenset[Bound]:
    """Returns the bounds that leave out what all do, as `bounds_of_both`; none of none."""
    found = list(several)
    return reduce(lambda one, other: bounds_of_both(one, other, ranges), found) if found else frozenset()
