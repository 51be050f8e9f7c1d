"""Affine forms: an index expression as a sum of coefficients times atoms, plus a constant.

    form  = coefficient * atom + ... + constant
    atom  = Var | any i64 expression that is no sum and no multiple: i // c, i % c, min, max, select, x * y, reads, ...

Every i64 expression has one form, and two expressions that differ only in the order and grouping of sums have the
same one. Division and remainder by a positive constant are brought to one shape by identities of floor division that
hold for all integers (Knuth, TAOCP 1.2.4):

    (c*q + r) // c      = q + r // c
    (g*x + r) // (g*c)  = (x + r // g) // c
    (g*x + r) %  (g*c)  = g * ((x + r // g) % c) + r % g
    c*(x // c) + x % c  = x
    a*((x // a) % b) + x % a = x % (a*b)

Whatever is divided by 0 gives 0, quotient and remainder, as in NumPy. Arithmetic on data that may wrap is an atom.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd

from ..dtype import i64
from ..expr import Cast, Const, Expr, Local, Op, Read, Var
from .operator_ranges import may_wrap

Terms = tuple[tuple[Expr, int], ...]

_COMMUTATIVE = frozenset(("add", "mul", "min", "max"))


@dataclass(frozen=True, slots=True)
class Affine:
    """A form. `terms` are (atom, coefficient), no coefficient is 0, sorted by `order`."""

    terms: Terms
    constant: int

    @property
    def is_constant(self) -> bool:
        """Says whether there are no atoms."""
        return not self.terms

    @property
    def is_linear(self) -> bool:
        """All atoms are plain variables."""
        return all(type(atom) is Var for atom, _ in self.terms)

    @property
    def coefficients(self) -> dict[str, int]:
        """Variable name -> coefficient, of the terms that are plain variables."""
        return {atom.name: coefficient for atom, coefficient in self.terms if isinstance(atom, Var)}

    def coefficient(self, atom: Expr) -> int:
        """The coefficient of `atom`, 0 where it does not occur."""
        for other, coefficient in self.terms:
            if other == atom:
                return coefficient
        return 0

    def plus(self, other: Affine, times: int = 1) -> Affine:
        """self + times * other."""
        terms = dict(self.terms)
        for atom, coefficient in other.terms:
            terms[atom] = terms.get(atom, 0) + times * coefficient
        return _form(terms, self.constant + times * other.constant)

    def minus(self, other: Affine) -> Affine:
        """self - other."""
        return self.plus(other, -1)

    def times(self, factor: int) -> Affine:
        """factor * self."""
        if factor == 0:
            return Affine((), 0)
        return Affine(tuple((atom, factor * c) for atom, c in self.terms), factor * self.constant)

    def __iter__(self) -> Iterator[tuple[Expr, int]]:
        return iter(self.terms)


ZERO = Affine((), 0)


def affine(expr: Expr) -> Affine:
    """The form of an integer expression. What may wrap is one atom: what is not i64, and such arithmetic on data."""
    if type(expr) is Var:
        return Affine(((expr, 1),), 0)
    if type(expr) is not Op:
        return _affine(expr)
    try:
        kept: Affine | None = expr._affine
    except AttributeError:
        form = _affine(expr)
        kept = None if form.terms and form.terms[0][0] is expr else form  # what is its own atom would hold itself
        object.__setattr__(expr, "_affine", kept)
    return Affine(((expr, 1),), 0) if kept is None else kept


def group_of(node: Expr) -> tuple[str, int] | None:
    """(axis, size) of axis // size; None of anything else."""
    match node:
        case Op(name="floordiv", args=(Var(name=axis), Const(value=size))):
            return axis, int(size)
    return None


def quotient_of(atom: Expr) -> tuple[Affine, int] | None:
    """(e, d) of an atom e // d, where d is a positive number; None for any other."""
    match atom:
        case Op(name="floordiv", args=(inner, Const(value=divisor))) if int(divisor) > 0:
            return affine(inner), int(divisor)
    return None


def _affine(expr: Expr) -> Affine:
    terms: dict[Expr, int] = {}
    constant = _accumulate(expr, 1, terms)
    return _form(terms, constant)


def to_expr(form: Affine) -> Expr:
    """The form as an expression: positive terms, negative terms, the constant; 0 is a literal."""
    total: Expr | None = None
    for atom, coefficient in form.terms:
        if coefficient > 0:
            term = atom if coefficient == 1 else Op("mul", (atom, Const(coefficient, i64)), i64)
            total = term if total is None else Op("add", (total, term), i64)
    constant = form.constant
    if total is None and (constant or not form.terms):
        total, constant = Const(constant, i64), 0
    for atom, coefficient in form.terms:
        if coefficient < 0:
            term = atom if coefficient == -1 else Op("mul", (atom, Const(-coefficient, i64)), i64)
            total = Op("neg", (term,), i64) if total is None else Op("sub", (total, term), i64)
    assert total is not None
    if constant:
        total = Op("add" if constant > 0 else "sub", (total, Const(abs(constant), i64)), i64)
    return total


def order(expr: Expr) -> str:
    """A text by which atoms are sorted: it depends on the structure alone, not on the process. Variables come first."""
    match expr:
        case Var(name=name):
            return name
        case Const(value=value):
            return f"~{value!r}"
        case Op(name=name, args=args):
            return f"~{name}({','.join(map(order, args))})"
        case Read(tensor=tensor, indices=indices):
            return f"~{tensor}[{','.join(map(order, indices))}]"
        case Cast(arg=arg, dtype=dtype):
            return f"~{dtype.name}({order(arg)})"
        case Local(name=name):
            return f"~%{name}"
    raise TypeError(f"unknown expression node {type(expr).__name__}")


def _order_of_term(term: tuple[Expr, int]) -> str:
    atom = term[0]
    return atom.name if type(atom) is Var else order(atom)


def _form(terms: dict[Expr, int], constant: int) -> Affine:
    kept = [term for term in terms.items() if term[1]]
    if len(kept) > 1 and any(type(atom) is Op and atom.name == "mod" for atom, _ in kept):
        joined = _joined(terms)
        if joined is not None:
            return joined.plus(Affine((), constant))
    if len(kept) > 1:
        kept.sort(key=_order_of_term)
    return Affine(tuple(kept), constant)


def _accumulate(expr: Expr, scale: int, terms: dict[Expr, int]) -> int:
    """Adds scale * expr to terms; returns its constant part."""
    kind = type(expr)
    if kind is Var:
        terms[expr] = terms.get(expr, 0) + scale
        return 0
    if kind is Op and expr.dtype == i64:
        return _accumulate_op(expr, scale, terms)  # type: ignore[arg-type]
    if kind is Const and expr.dtype == i64:
        return scale * int(expr.value)  # type: ignore[attr-defined]
    terms[expr] = terms.get(expr, 0) + scale
    return 0


def _accumulate_op(expr: Op, scale: int, terms: dict[Expr, int]) -> int:
    name, args = expr.name, expr.args
    if may_wrap(expr):
        whole = _with_normal_args(expr)
        terms[whole] = terms.get(whole, 0) + scale
        return 0
    if name == "add":
        return _accumulate(args[0], scale, terms) + _accumulate(args[1], scale, terms)
    if name == "sub":
        return _accumulate(args[0], scale, terms) + _accumulate(args[1], -scale, terms)
    if name == "neg":
        return _accumulate(args[0], -scale, terms)
    if name == "mul" and isinstance(args[1], Const):
        return _accumulate(args[0], scale * int(args[1].value), terms)
    if name == "mul" and isinstance(args[0], Const):
        return _accumulate(args[1], scale * int(args[0].value), terms)
    form = _normal_op(expr)
    for atom, coefficient in form.terms:
        terms[atom] = terms.get(atom, 0) + scale * coefficient
    return scale * form.constant


def _normal_op(expr: Op) -> Affine:
    """The form of an operator that is neither sum nor multiple by a literal."""
    name = expr.name
    if name in ("floordiv", "mod"):
        number = affine(expr.args[1])
        if number == ZERO:
            return ZERO
        if number.is_constant and number.constant > 0:
            numerator = affine(expr.args[0])
            return (floor_divide if name == "floordiv" else modulo)(numerator, number.constant)
    if name == "mul":
        left, right = affine(expr.args[0]), affine(expr.args[1])
        if right.is_constant:
            return left.times(right.constant)
        if left.is_constant:
            return right.times(left.constant)
    if name in ("min", "max"):
        left, right = affine(expr.args[0]), affine(expr.args[1])
        difference = left.minus(right)
        if difference.is_constant:
            return left if (difference.constant <= 0) == (name == "min") else right
    return Affine(((_with_normal_args(expr), 1),), 0)


def _with_normal_args(expr: Op) -> Op:
    """The operator on normal forms of its operands."""
    args = tuple(to_expr(affine(a)) if a.dtype == i64 else a for a in expr.args)
    if expr.name in _COMMUTATIVE and order(args[0]) > order(args[1]):
        args = (args[1], args[0])
    return expr if args == expr.args else Op(expr.name, args, i64)


def floor_divide(form: Affine, divisor: int) -> Affine:
    """form // divisor, for divisor > 0, in its normal shape."""
    outer = tuple((atom, c // divisor) for atom, c in form.terms if c % divisor == 0)
    inner = tuple((atom, c) for atom, c in form.terms if c % divisor)
    quotient = Affine(outer, form.constant // divisor)
    common = gcd(divisor, *(c for _, c in inner))
    rest, divisor = _divided(inner, form.constant % divisor, common), divisor // common
    if rest.is_constant or divisor == 1:  # no terms are left, or nothing to divide by
        return quotient.plus(Affine(rest.terms, rest.constant // divisor))
    nested = _inside(rest, "floordiv")
    if nested is not None:  # (x // a) // b = x // (a * b)
        return quotient.plus(floor_divide(nested[0], nested[1] * divisor))
    return quotient.plus(_atom("floordiv", rest, divisor))


def modulo(form: Affine, divisor: int) -> Affine:
    """form % divisor, for divisor > 0, in its normal shape."""
    # a coefficient keeps its sign, so that an interval of x - y stays narrow
    inner = tuple((atom, c % divisor if c > 0 else -(-c % divisor)) for atom, c in form.terms if c % divisor)
    constant = form.constant % divisor
    common = gcd(divisor, *(c for _, c in inner))
    rest, smaller = _divided(inner, constant, common), divisor // common
    remainder = constant % common
    if rest.is_constant or smaller == 1:
        return Affine((), constant if rest.is_constant else remainder)
    nested = _inside(rest, "mod")
    if nested is not None and nested[1] % smaller == 0:  # (x % a) % b = x % b where b divides a
        return modulo(nested[0], smaller).times(common).plus(Affine((), remainder))
    return _atom("mod", rest, smaller).times(common).plus(Affine((), remainder))


def _joined(terms: dict[Expr, int]) -> Affine | None:
    """The sum with one remainder put together with the quotient of the same division, or None where there is none."""
    for atom, times in terms.items():
        if not times or not isinstance(atom, Op) or atom.name != "mod" or not isinstance(atom.args[1], Const):
            continue
        number, divisor = affine(atom.args[0]), int(atom.args[1].value)
        quotient = floor_divide(number, divisor)
        if len(quotient.terms) != 1:
            continue
        for other, coefficient in terms.items():
            if not coefficient or coefficient != times * divisor:
                continue
            rest = {a: c for a, c in terms.items() if a not in (atom, other)}
            whole = Affine(((other, 1),), 0)
            if quotient == whole:
                return _form(rest, 0).plus(number, times)
            if isinstance(other, Op) and other.name == "mod" and isinstance(other.args[1], Const):
                size = int(other.args[1].value)
                if modulo(quotient, size) == whole:
                    return _form(rest, 0).plus(modulo(number, divisor * size), times)
    return None


def _divided(terms: Terms, constant: int, common: int) -> Affine:
    return Affine(tuple((atom, c // common) for atom, c in terms), constant // common)


def _atom(name: str, form: Affine, divisor: int) -> Affine:
    return Affine(((Op(name, (to_expr(form), Const(divisor, i64)), i64), 1),), 0)


def _inside(form: Affine, name: str) -> tuple[Affine, int] | None:
    """(x, c) where the form is exactly the atom `x name c`."""
    if form.constant or len(form.terms) != 1 or form.terms[0][1] != 1:
        return None
    atom = form.terms[0][0]
    if isinstance(atom, Op) and atom.name == name and isinstance(atom.args[1], Const):
        return affine(atom.args[0]), int(atom.args[1].value)
    return None
