"""Index arithmetic: affine forms, intervals, simplification. The forms are in forms.py, the intervals in
intervals.py.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

from ..dtype import DType, i64
from ..expr import Cast, Const, Expr, Op, Read, Var, children, with_children
from .forms import ZERO, Affine, affine, floor_divide, modulo, to_expr
from .intervals import Bounds, Known, decide, interval, interval_of_form
from .operator_ranges import Interval, range_of

__all__ = [
    "Affine",
    "Bounds",
    "Interval",
    "Known",
    "affine",
    "decide",
    "interval",
    "interval_of_form",
    "simplify",
    "to_expr",
]


def simplify(expr: Expr, bounds: Bounds | None = None) -> Expr:
    """An equal expression, mostly shorter.

    Indices become affine forms in normal order. With `bounds`, divisions, remainders, min, max and conditions that the
    ranges settle disappear. Values are only folded where the result is the same bit for bit, NaN, infinities and signed
    zeros included. Reads are kept or dropped with the arm of a select in which they stand.
    """
    if type(expr) is Var or type(expr) is Const:
        return expr
    if expr.dtype == i64:
        return to_expr(_simplified_form(expr, bounds))
    old = children(expr)
    new = tuple(simplify(child, bounds) for child in old)
    if any(a is not b for a, b in zip(old, new, strict=True)):
        expr = with_children(expr, new)
    if isinstance(expr, Op):
        return _fold_op(expr, bounds)
    if isinstance(expr, Cast):
        return _fold_cast(expr)
    return expr


def _simplified_form(expr: Expr, bounds: Bounds | None) -> Affine:
    """The form of an i64 expression, its atoms simplified."""
    form = affine(expr)
    if form.is_linear:
        return form
    total = Affine((), form.constant)
    for atom, coefficient in form.terms:
        total = total.plus(_simplified_atom(atom, bounds), coefficient)
    return total


def _simplified_atom(atom: Expr, bounds: Bounds | None) -> Affine:
    if not isinstance(atom, Op):
        if isinstance(atom, (Read, Cast)):
            inner = with_children(atom, tuple(simplify(child, bounds) for child in children(atom)))
            return affine(_fold_cast(inner) if isinstance(inner, Cast) else inner)
        return Affine(((atom, 1),), 0)
    return _simplified_op(atom, bounds) if bounds is not None else _simplified_once(atom)


def _simplified_once(atom: Op) -> Affine:
    """Works as `_simplified_op` without bounds, and each node keeps what it becomes: indices that stages write into one another
    hold those of all stages before. A node that stays as it is says so by None: it would hold itself."""
    itself = Affine(((atom, 1),), 0)
    try:
        kept: Affine | None = atom._simple
    except AttributeError:
        found = _simplified_op(atom, None)
        kept = None if found == itself else found
        object.__setattr__(atom, "_simple", kept)
    return itself if kept is None else kept


def _simplified_op(atom: Op, bounds: Bounds | None) -> Affine:
    if atom.name == "select":
        folded = _fold_select(*(simplify(arg, bounds) for arg in atom.args), bounds=bounds)
        return affine(folded)
    args = [_simplified_form(arg, bounds) for arg in atom.args]
    if bounds is not None:
        narrowed = _narrowed(atom.name, args, bounds)
        if narrowed is not None:
            return narrowed
    if atom.name in ("floordiv", "mod") and args[1] == ZERO:
        return ZERO
    if atom.name in ("floordiv", "mod") and args[1].is_constant and args[1].constant > 0:
        return (floor_divide if atom.name == "floordiv" else modulo)(args[0], args[1].constant)
    if len(args) == 1 and atom.name == "abs" and args[0].is_constant:
        return Affine((), abs(args[0].constant))
    return affine(Op(atom.name, tuple(map(to_expr, args)), i64))


def _narrowed(name: str, args: list[Affine], bounds: Bounds) -> Affine | None:
    """Returns what an operator becomes when the ranges of its operands settle it."""
    if name in ("floordiv", "mod") and args[1].is_constant and args[1].constant > 0:
        numerator, divisor = args[0], args[1].constant
        multiple = Affine(tuple((a, c) for a, c in numerator.terms if c % divisor == 0), 0)
        rest = numerator.minus(multiple)
        low, high = interval_of_form(rest, bounds)
        if low // divisor != high // divisor:
            return None
        if name == "mod":
            return rest.plus(Affine((), -(low // divisor) * divisor))
        return Affine(tuple((a, c // divisor) for a, c in multiple.terms), low // divisor)
    if name in ("min", "max"):
        low, high = interval_of_form(args[0].minus(args[1]), bounds)
        if high <= 0 or low >= 0:
            return args[0] if (high <= 0) == (name == "min") else args[1]
    if name == "abs":
        low, high = interval_of_form(args[0], bounds)
        if low >= 0:
            return args[0]
    return None


def _fold_op(expr: Op, bounds: Bounds | None) -> Expr:
    """Identities on values and conditions whose operands are simplified already."""
    name, args = expr.name, expr.args
    if name == "select":
        return _fold_select(*args, bounds=bounds)
    if expr.dtype.name == "bool":
        return _fold_condition(expr, bounds)
    if all(isinstance(arg, Const) for arg in args):
        return _fold_constants(expr)
    if name in ("min", "max") and args[0] == args[1]:
        return args[0]
    if name == "mul":
        for this, other in (args, args[::-1]):
            if isinstance(this, Const) and this.value == 1:
                return other
    right = args[-1]
    if name == "div" and isinstance(right, Const) and right.value == 1:
        return args[0]
    if name in ("floordiv", "mod") and isinstance(right, Const) and right.value == 0:
        return Const(0, expr.dtype)
    if name == "sub" and isinstance(right, Const) and right.value == 0 and not _negative_zero(right):
        return args[0]
    if name == "neg" and isinstance(right, Op) and right.name == "neg":
        return right.args[0]
    return expr


def _fold_select(condition: Expr, yes: Expr, no: Expr, *, bounds: Bounds | None) -> Expr:
    truth = decide(condition, bounds or {})
    if truth is not None:
        return yes if truth else no
    if yes == no:
        return yes
    return Op("select", (condition, yes, no), yes.dtype)


def _fold_condition(expr: Op, bounds: Bounds | None) -> Expr:
    truth = decide(expr, bounds or {})
    if truth is not None:
        return Const(truth, expr.dtype)
    if expr.name in ("and", "or"):
        neutral = expr.name == "and"
        for this, other in (expr.args, expr.args[::-1]):
            if isinstance(this, Const) and bool(this.value) is neutral:
                return other
        if expr.args[0] == expr.args[1]:
            return expr.args[0]
    if expr.name == "not" and isinstance(expr.args[0], Op) and expr.args[0].name == "not":
        return expr.args[0].args[0]
    return expr


def _fold_constants(expr: Op) -> Expr:
    """Arithmetic on literals, rounded to the dtype as the machine would; only + - * / neg min max abs."""
    values = [round_to(arg.value, arg.dtype) for arg in expr.args if isinstance(arg, Const)]
    if any(math.isnan(value) for value in values):
        return expr
    try:
        result = _ARITHMETIC[expr.name](*values)
    except (KeyError, ZeroDivisionError, OverflowError):
        return expr
    if expr.dtype.is_float:
        # One rounding from a binary64 result is exact for + - * / on operands of at most 24 bits (Figueroa 1995).
        result = round_to(float(result), expr.dtype)
        return expr if math.isnan(result) else Const(result, expr.dtype)
    low, high = range_of(expr.dtype)
    return Const(int(result), expr.dtype) if low <= result <= high else expr


def _fold_cast(expr: Cast) -> Expr:
    arg = expr.arg
    if arg.dtype == expr.dtype:
        return arg
    if isinstance(arg, Const) and expr.dtype.is_float and math.isfinite(arg.value) and abs(arg.value) < 2**24:
        return Const(round_to(float(round_to(arg.value, arg.dtype)), expr.dtype), expr.dtype)
    return expr


def round_to(value: int | float | bool, dtype: DType) -> int | float | bool:
    """A literal as an element of `dtype` holds it. Integers are unchanged; floats round to nearest, ties to even."""
    if not dtype.is_float or dtype.name == "f64" or not math.isfinite(value) or value == 0:
        return value
    if dtype.name == "bf16":
        (bits,) = struct.unpack("<Q", struct.pack("<d", float(value)))
        bits = (bits + (1 << 44) - 1 + ((bits >> 45) & 1)) >> 45 << 45
        (rounded,) = struct.unpack("<d", struct.pack("<Q", bits))
        return float(rounded) if abs(rounded) < 2.0**128 else math.copysign(math.inf, value)
    code = "<f" if dtype.name == "f32" else "<e"
    try:
        return float(struct.unpack(code, struct.pack(code, float(value)))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def _negative_zero(literal: Const) -> bool:
    return isinstance(literal.value, float) and math.copysign(1.0, literal.value) < 0


_ARITHMETIC: dict[str, Callable[..., float]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "neg": lambda a: -a,
    "abs": abs,
    "min": lambda a, b: a if a < b else b,
    "max": lambda a, b: a if a > b else b,
}
