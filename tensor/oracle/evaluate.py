"""Expressions over arrays of points, in float64, with running error bounds. reference.py evaluates stages with it.

A *pair* is (value, error): the value as an array, and a bound on how far a kernel may be from it, as an array or None
where it is exact. Floats are float64 whatever their dtype; integers have their own width and wrap as a kernel's do.

The bound is a running error analysis (Higham, Accuracy and Stability of Numerical Algorithms, 3.3): each operation passes
on the errors of its operands by its derivative and adds the rounding of its own dtype. What errors may tip, a comparison or
a rounding to whole numbers, has an error too: that of the other outcome. So integers and bools that come of floats have
errors, zero nearly everywhere.

How much one operation may round, roundings.py says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..dtype import DType, Kind, accumulator, f32
from ..expr import Cast, Const, Expr, Local, Op, Read, Var
from ..indices.forms import affine
from ..language import OPERATORS, Operator, zero
from .errors import between, of_finite, stepped, undecided
from .roundings import (
    FACTOR,
    LEAST,
    Array,
    least_normal,
    literal_error,
    nearest,
    representable,
    rounded_error,
    roundings_of,
)

Pair = tuple[Array, Array | None]


@dataclass(slots=True)
class EvaluationScope:
    """The points at which expressions are evaluated, and where the tensors they read come from.

    Args:
        axes: axis -> its int64 values, shaped to broadcast against those of the others.
        fetch: (tensor, index arrays that broadcast) -> the elements.
        window: (tensor, one slice or integer for each dimension) -> that part, or None where only `fetch` can serve.
        dimensions: axis -> (array dimension, first value, one after the last), where it runs over consecutive values.
        rank: number of array dimensions.
        fixed: axis -> its value, where it has one.
        own: tensors of a fold -> their values before this step.
        locals: named values of a fold; each is evaluated when it is first needed.
        errors: whether error bounds are wanted.
        asked: whether values are those of the arithmetic that a program asks for, where that leaves no choice: see `_settled`.
    """

    axes: Mapping[str, Array]
    fetch: Callable[[str, Sequence[Array]], Pair]
    window: Callable[[str, Sequence[slice | int]], Pair | None] | None = None
    dimensions: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    rank: int = 0
    fixed: Mapping[str, int] = field(default_factory=dict)
    own: Mapping[str, Pair] = field(default_factory=dict)
    locals: Mapping[str, Expr] = field(default_factory=dict)
    errors: bool = False
    asked: bool = False
    _done: dict[int, tuple[Expr, Pair]] = field(default_factory=dict)


def evaluate_expr(expr: Expr, scope: EvaluationScope) -> Pair:
    """The pair of an expression at all points of the scope; it broadcasts against the axes."""
    done = scope._done.get(id(expr))
    if done is not None and done[0] is expr:
        return done[1]
    match expr:
        case Const(value=value, dtype=dtype):
            found = _constant(value, dtype, scope)
        case Var(name=name):
            found = scope.axes[name], None
        case Local(name=name):
            found = evaluate_expr(scope.locals[name], scope)
        case Read():
            found = _read(expr, scope)
        case Cast(arg=arg, dtype=dtype):
            found = _cast(evaluate_expr(arg, scope), arg.dtype, dtype, scope)
        case Op(name=name, args=args):
            found = _apply(name, [evaluate_expr(arg, scope) for arg in args], expr.dtype, scope)
        case _:
            raise TypeError(f"unknown expression node {type(expr).__name__}")
    if scope.asked:
        found = _settled(expr, found, scope)
    scope._done[id(expr)] = expr, found
    return found


def _settled(expr: Expr, pair: Pair, scope: EvaluationScope) -> Pair:
    """A narrow float as every kernel has it, where that is certain: sums, differences and products of numbers that are exact,
    conversions and literals are the nearest number. Other operations may be off by more than a rounding of their results, and
    products of products may be taken in another order."""
    value, error = pair
    if error is None or not expr.dtype.is_float or accumulator(expr.dtype) == expr.dtype:
        return pair
    room = np.where(representable(value, f32), 0.0, f32.eps * np.abs(value))  # it may be rounded to float32 first
    match expr:
        case Const():
            pass
        case Cast(arg=arg):
            _, own = evaluate_expr(arg, scope)
            room = room if own is None else room + FACTOR * own
        case Op(name="add" | "sub" | "mul" as name, args=(left, right)):
            if name == "mul" and isinstance(right, Op) and right.name == "mul":
                return pair
            own = combine_errors(evaluate_expr(left, scope)[1], evaluate_expr(right, scope)[1])
            room = room if own is None else np.where(own > 0, np.inf, room)
        case _:
            return pair
    low, rounded, high = (nearest(x, expr.dtype) for x in (value - room, value, value + room))
    certain = low == high
    return np.where(certain, rounded, value), np.where(certain, 0.0, error)


def store_type(dtype: DType) -> np.dtype[Any]:
    """The NumPy dtype in which values of `dtype` are computed here."""
    return np.dtype(np.float64) if dtype.is_float else dtype.numpy


def from_memory(array: Array, dtype: DType) -> Array:
    """An array as it lies in memory, as it is computed with here: bfloat16 arrives as bit patterns."""
    if dtype.kind is Kind.BFLOAT:
        return (array.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return array.astype(store_type(dtype), copy=False)


def combine_errors(*parts: Array | None) -> Array | None:
    """The sum of error bounds, None being none."""
    present = [part for part in parts if part is not None]
    return None if not present else sum(present[1:], start=present[0])


def multiply(left: Pair, right: Pair, dtype: DType, errors: bool) -> Pair:
    """The product of two pairs of one dtype."""
    return apply_operator(OPERATORS["mul"], [left, right], dtype, errors)


def _constant(value: int | float | bool, dtype: DType, scope: EvaluationScope) -> Pair:
    array = np.asarray(value, dtype=store_type(dtype))
    return array, literal_error(array, dtype) if scope.errors else None


def _read(expr: Read, scope: EvaluationScope) -> Pair:
    if expr.tensor in scope.own:
        return scope.own[expr.tensor]
    if scope.window is not None:
        found = _read_window(expr, scope)
        if found is not None:
            return found
    return scope.fetch(expr.tensor, [evaluate_expr(index, scope)[0] for index in expr.indices])


def _read_window(expr: Read, scope: EvaluationScope) -> Pair | None:
    """A read whose indices are distinct axes, shifted, and constants: a slice of the array, no copy."""
    assert scope.window is not None
    parts: list[slice | int] = []
    dimensions: list[int] = []
    for index in expr.indices:
        form = affine(index)
        shift = form.constant
        moving: list[tuple[int, int, int]] = []
        for atom, coefficient in form.terms:
            if isinstance(atom, Var) and atom.name in scope.fixed:
                shift += coefficient * scope.fixed[atom.name]
            elif isinstance(atom, Var) and atom.name in scope.dimensions and coefficient == 1:
                moving.append(scope.dimensions[atom.name])
            else:
                return None
        if not moving:
            parts.append(shift)
            continue
        dimension, first, end = moving[0]
        if len(moving) > 1 or dimension in dimensions or first + shift < 0:
            return None
        dimensions.append(dimension)
        parts.append(slice(first + shift, end + shift))
    found = scope.window(expr.tensor, parts)
    if found is None:
        return None
    order = sorted(range(len(dimensions)), key=dimensions.__getitem__)

    def spread(array: Array) -> Array:
        shape = [1] * scope.rank
        for position in order:
            shape[dimensions[position]] = array.shape[position]
        return array.transpose(order).reshape(shape)

    value, error = found
    return spread(value), None if error is None else spread(error)


def _cast(pair: Pair, source: DType, dtype: DType, scope: EvaluationScope) -> Pair:
    value, error = pair
    if dtype.name == "bool":
        return value != 0, None if error is None else undecided(value, zero(), error)
    if dtype.is_integer:
        if source.is_float:
            error = None if error is None else stepped(np.trunc, value, error)
            value = np.trunc(value)
        return value.astype(dtype.numpy), error
    result = value.astype(np.float64)
    if not scope.errors or _holds(dtype, source):
        return result, error
    if source.is_float:
        exact = representable(result, dtype) if error is None else (error == 0) & representable(result, dtype)
    else:  # whole numbers, whatever they may be by an error: all up to a size are held
        exact = np.abs(result) + (0.0 if error is None else FACTOR * error) <= 2 / dtype.eps
    if exact.all():
        return result, error
    rounded = rounded_error(error, result, dtype)
    return result, np.where(exact, 0.0 if error is None else error, rounded) if exact.any() else rounded


def _holds(dtype: DType, source: DType) -> bool:
    """Says whether a type of floats holds all numbers of another type: conversions to it are exact."""
    if source.is_float:
        return source.eps >= dtype.eps and LEAST[source.name] >= LEAST[dtype.name]
    return 2.0 ** (source.bits - (source.kind is Kind.SIGNED)) <= 2 / dtype.eps


def _apply(name: str, args: list[Pair], dtype: DType, scope: EvaluationScope) -> Pair:
    return apply_operator(OPERATORS[name], args, dtype, scope.errors)


def apply_operator(operator: Operator, args: list[Pair], dtype: DType, errors: bool) -> Pair:
    """The pair that an operator gives, its result being of `dtype`."""
    values = [value for value, _ in args]
    value = operator.value(*values)
    exact = all(error is None for _, error in args)
    rounding = operator.rounding if dtype.is_float else None
    if not errors or (exact and rounding is None):
        return value, None
    known = [zero() if error is None else error for _, error in args]
    if rounding is None:
        assert operator.exact is not None, operator.name
        return value, operator.exact(values, known)
    passed = None if exact else _passed_on(operator, values, value, known, dtype)
    lost = 0.0 if rounding.keeps_small else None
    error = rounded_error(passed, value, dtype, roundings_of(rounding.ulp, dtype), lost)
    return value, of_finite(value, error + least_normal(dtype) if rounding.vanishes else error)


def _passed_on(operator: Operator, values: list[Array], value: Array, errors: list[Array], dtype: DType) -> Array:
    """Says how the errors of its operands reach the result of an operation that rounds."""
    assert operator.rounding is not None
    if operator.rounding.monotonic and accumulator(dtype) != dtype:
        return between(operator.value, values[0], errors[0], value)
    return operator.rounding.slope(values, value, errors)
