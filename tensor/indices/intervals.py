"""Intervals of integer expressions, under what is known.

`bounds` gives the range of each variable, both ends included. `facts` are ranges of whole affine forms, learned from
the conditions of `select`: inside the first arm of select(i + r >= 1 and i + r < 57, A[i + r - 1], 0) the form i + r
lies in [1, 56], which neither i nor r alone can say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import gcd

from ..dtype import i64
from ..expr import Cast, Const, Expr, Op, Var
from .forms import Affine, Terms, affine, quotient_of
from .operator_ranges import Interval, interval_of_op, range_of, within

Bounds = Mapping[str, Interval]
FormFacts = Mapping[Terms, Interval]

UNBOUNDED: Interval = (-(2**63), 2**63 - 1)
_NONE: FormFacts = {}


@dataclass(frozen=True, slots=True)
class Known:
    """Holds what is known at one place of a program: ranges of variables, and of forms (`facts`, keyed by `_direction`)."""

    bounds: Bounds
    facts: FormFacts = field(default_factory=dict)

    def interval(self, expr: Expr) -> Interval:
        """The range of an integer expression here."""
        return interval(expr, self.bounds, self.facts)

    def assume(self, condition: Expr, holds: bool = True) -> Known | None:
        """Returns what is known where `condition` holds (or does not). None where that is impossible."""
        return _assume(self, condition, holds)


def interval(expr: Expr, bounds: Bounds, facts: FormFacts = _NONE) -> Interval:
    """The least and the greatest value that an integer expression can take, or an outer estimate of them.

    Exact for sums of distinct variables; a variable that `bounds` does not name has the range of i64.
    """
    if type(expr) is Var:
        found = bounds.get(expr.name, UNBOUNDED)
        return _with_facts(Affine(((expr, 1),), 0), found, bounds, facts) if facts else found
    if expr.dtype != i64:
        return within(_atom_interval(expr, bounds, facts), expr.dtype)
    return interval_of_form(affine(expr), bounds, facts)


def interval_of_form(form: Affine, bounds: Bounds, facts: FormFacts = _NONE) -> Interval:
    """`interval` of an affine form."""
    low, high = _sum_of_terms(form.terms, bounds, facts)
    if facts and form.terms:
        low, high = _with_facts(Affine(form.terms, 0), (low, high), bounds, facts)
        low, high = _with_quotients(Affine(form.terms, 0), (low, high), bounds, facts)
    return low + form.constant, high + form.constant


def decide(condition: Expr, bounds: Bounds, facts: FormFacts = _NONE) -> bool | None:
    """The truth of an integer condition where intervals settle it, else None."""
    if isinstance(condition, Const):
        return bool(condition.value)
    if not isinstance(condition, Op):
        return None
    if condition.name in ("and", "or", "not"):
        parts = [decide(arg, bounds, facts) for arg in condition.args]
        if condition.name == "not":
            return None if parts[0] is None else not parts[0]
        decisive = condition.name == "or"
        if decisive in parts:
            return decisive
        return None if None in parts else not decisive
    if condition.name in _NEGATED and condition.args[0].dtype == i64:
        low, high = interval_of_form(affine(condition.args[0]).minus(affine(condition.args[1])), bounds, facts)
        return _compare(condition.name, low, high)
    return None


def _compare(name: str, low: int, high: int) -> bool | None:
    """Truth of `x name 0` for every x in low .. high."""
    if name in ("ge", "gt"):
        name, low, high = ("le" if name == "ge" else "lt"), -high, -low
    if name == "le":
        return True if high <= 0 else False if low > 0 else None
    if name == "lt":
        return True if high < 0 else False if low >= 0 else None
    equal = True if low == high == 0 else False if low > 0 or high < 0 else None
    return equal if name == "eq" or equal is None else not equal


def _sum_of_terms(terms: Terms, bounds: Bounds, facts: FormFacts) -> Interval:
    low = high = 0
    for atom, coefficient in terms:
        if type(atom) is Var and not facts:
            a, b = bounds.get(atom.name, UNBOUNDED)
        elif type(atom) is Var:
            a, b = interval(atom, bounds, facts)
        else:
            a, b = _atom_interval(atom, bounds, facts)
            fact = facts.get(((atom, 1),)) if facts else None
            if fact is not None:
                a, b = max(a, fact[0]), min(b, fact[1])
        if coefficient < 0:
            a, b = b, a
        low += coefficient * a
        high += coefficient * b
    return low, high


def _with_facts(form: Affine, found: Interval, bounds: Bounds, facts: FormFacts) -> Interval:
    """Narrows `found` by every fact whose form is part of this one."""
    return _narrowed(form, found, bounds, tuple(facts.items()))


def _narrowed(form: Affine, found: Interval, bounds: Bounds, facts: tuple[tuple[Terms, Interval], ...]) -> Interval:
    """Narrows `found` by facts: form = c * fact + rest, and the rest is narrowed by those that come after this one."""
    low, high = found
    for number, (direction, (fact_low, fact_high)) in enumerate(facts):
        leading, unit = direction[0]
        times, remainder = divmod(form.coefficient(leading), unit)
        if times == 0 or remainder:
            continue
        rest = form.plus(Affine(direction, 0), -times)
        if len(rest.terms) >= len(form.terms):
            continue
        a, b = _sum_of_terms(rest.terms, bounds, _NONE)
        if len(rest.terms) > 1 and number + 1 < len(facts):
            a, b = _narrowed(rest, (a, b), bounds, facts[number + 1 :])
        ends = (times * fact_low, times * fact_high)
        low, high = max(low, min(ends) + a), min(high, max(ends) + b)
    return low, high


def _with_quotients(form: Affine, found: Interval, bounds: Bounds, facts: FormFacts) -> Interval:
    """Narrows `found` by what facts say of the form without one of its quotients: x - d + 1 <= d * (x // d) <= x.

    4 * a + b // 4, where 16 * a + b < 40: four times that is at most 16 * a + b, so it is at most 9. And 8 * a + b // 4 * 2 + c
    is at most 18 + c: twice as much as before, and something else.
    """
    low, high = found
    for atom, times in form.terms:
        divided = quotient_of(atom)
        if divided is None or not divided[0].is_linear:
            continue
        for part, unit in _parts_with(form, atom, times):
            least, most = _part_with_quotient(part, atom, divided, bounds, facts)
            a, b = interval_of_form(form.plus(part, -unit), bounds, facts)
            low, high = max(low, unit * least + a), min(high, unit * most + b)
    return low, high


def _parts_with(form: Affine, atom: Expr, times: int) -> Iterator[tuple[Affine, int]]:
    """The form itself, and, if it is more than that, what is as many times in it as a quotient is, with that number."""
    yield form, 1
    unit = abs(times)
    shared = tuple((one, count // unit) for one, count in form.terms if count % unit == 0)
    if unit > 1 and len(shared) > 1:
        yield Affine(shared, 0), unit


def _part_with_quotient(
    part: Affine, atom: Expr, divided: tuple[Affine, int], bounds: Bounds, facts: FormFacts
) -> Interval:
    """The interval of a form that has a quotient x // d, by that of d times as much with x in the quotient's place."""
    inner, divisor = divided
    times = part.coefficient(atom)
    whole = part.plus(Affine(((atom, 1),), 0), -times).times(divisor).plus(inner, times)
    least, most = interval_of_form(whole, bounds, facts)
    less, more = (0, times * (divisor - 1)) if times > 0 else (-times * (divisor - 1), 0)
    return -((more - least) // divisor), (most + less) // divisor


def _atom_interval(expr: Expr, bounds: Bounds, facts: FormFacts) -> Interval:
    match expr:
        case Const(value=value):
            return int(value), int(value)
        case Cast(arg=arg, dtype=dtype) if arg.dtype.is_integer or arg.dtype.name == "bool":
            return within(interval(arg, bounds, facts), dtype)
        case Op(name="select", args=(condition, yes, no)):
            return _select_interval(condition, yes, no, Known(bounds, facts))
        case Op(name=name, args=args) if expr.dtype.is_integer and name not in ("bf16_pair", "bf16_word"):
            return interval_of_op(name, [interval(arg, bounds, facts) for arg in args], expr.dtype)
    return range_of(expr.dtype)


def _select_interval(condition: Expr, yes: Expr, no: Expr, known: Known) -> Interval:
    ends: list[Interval] = []
    for arm, holds in ((yes, True), (no, False)):
        inside = known.assume(condition, holds)
        if inside is not None:
            ends.append(inside.interval(arm))
    if not ends:  # the place itself is unreachable
        return known.interval(yes)
    return min(low for low, _ in ends), max(high for _, high in ends)


def _assume(known: Known, condition: Expr, holds: bool) -> Known | None:
    if decide(condition, known.bounds, known.facts) is (not holds):
        return None
    if not isinstance(condition, Op):
        return known
    if condition.name == "not":
        return _assume(known, condition.args[0], not holds)
    if condition.name == ("and" if holds else "or"):
        after = _assume(known, condition.args[0], holds)
        return None if after is None else _assume(after, condition.args[1], holds)
    if condition.name in _NEGATED and condition.args[0].dtype == i64:
        name = condition.name if holds else _NEGATED[condition.name]
        return _learn(known, name, affine(condition.args[0]).minus(affine(condition.args[1])))
    return known


def _learn(known: Known, name: str, form: Affine) -> Known | None:
    """Adds the fact `form name 0`."""
    if not form.terms:
        return known
    if name in ("ge", "gt"):
        name, form = ("le" if name == "ge" else "lt"), form.times(-1)
    limit = -form.constant - (1 if name == "lt" else 0)  # sum of terms <= limit
    low, high = interval_of_form(Affine(form.terms, 0), known.bounds, known.facts)
    if name in ("le", "lt"):
        high = min(high, limit)
    elif name == "eq":
        low, high = max(low, -form.constant), min(high, -form.constant)
    elif name == "ne":
        low += low == -form.constant
        high -= high == -form.constant
    return _learn_range(known, form.terms, low, high)


def _learn_range(known: Known, terms: Terms, low: int, high: int) -> Known | None:
    """Adds that a sum lies in low .. high, and what this says about the numerators of its divisions.

    With q = x // c, c q <= x <= c q + c - 1. So k q + y in low .. high gives, for k > 0, k x + c y in
    c low .. c high + k (c - 1); for k < 0 the slack is at the lower end.
    """
    direction, unit = _direction(terms)
    low, high = (-(-low // unit), high // unit) if unit > 0 else (-(-high // unit), low // unit)
    if low > high:
        return None
    if len(direction) == 1 and isinstance(direction[0][0], Var):
        bound = known.bounds.get(direction[0][0].name, UNBOUNDED)
        low, high = max(low, bound[0]), min(high, bound[1])
        return None if low > high else Known({**known.bounds, direction[0][0].name: (low, high)}, known.facts)
    if direction in known.facts:
        low, high = max(low, known.facts[direction][0]), min(high, known.facts[direction][1])
        if low > high:
            return None
    learned: Known | None = Known(known.bounds, {**known.facts, direction: (low, high)})
    for atom, k in direction:
        match atom:
            case Op(name="floordiv", args=(x, Const(value=c))) if c > 0:
                divisor, slack = int(c), k * (int(c) - 1)
                rest = Affine(tuple(term for term in direction if term[0] is not atom), 0)
                whole = rest.times(divisor).plus(affine(x), k)
                if whole.terms and learned is not None:
                    learned = _learn_range(
                        learned, whole.terms, low * divisor + min(slack, 0) - whole.constant,
                        high * divisor + max(slack, 0) - whole.constant,
                    )  # fmt: skip
    return learned


def _direction(terms: Terms) -> tuple[Terms, int]:
    """(terms divided by their common factor so that the first is positive, that factor)."""
    unit = gcd(*(c for _, c in terms)) * (1 if terms[0][1] > 0 else -1)
    return tuple((atom, c // unit) for atom, c in terms), unit


_NEGATED = {"lt": "ge", "ge": "lt", "le": "gt", "gt": "le", "eq": "ne", "ne": "eq"}
