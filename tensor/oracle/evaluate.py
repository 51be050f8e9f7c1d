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

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..dtype import DType, Kind, accumulator, f32
from ..expr import COMPARISONS, Cast, Const, Expr, Local, Op, Read, Var
from ..indices.forms import affine
from .roundings import (
    FACTOR,
    LEAST,
    Array,
    bf16_bits,
    least_normal,
    literal_error,
    nearest,
    representable,
    rounded_error,
)

Pair = tuple[Array, Array | None]

# How many roundings a mathematical function of a kernel may be off, in the type in which it is computed.
_FUNCTION_ROUNDINGS = 4.0


@dataclass(slots=True)
class Scope:
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


def evaluate_expr(expr: Expr, scope: Scope) -> Pair:
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


def _settled(expr: Expr, pair: Pair, scope: Scope) -> Pair:
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
    (a, ea), (b, eb) = left, right
    value = np.multiply(a, b)
    if not errors or (not dtype.is_float and ea is None and eb is None):
        return value, None
    if not dtype.is_float:
        sizes = [np.abs(part.astype(np.float64)) for part in (a, b)]
        return value, _INTEGERS["mul"](sizes, [np.zeros(()) if error is None else error for error in (ea, eb)])
    passed = combine_errors(
        None if ea is None else ea * np.abs(b),
        None if eb is None else eb * np.abs(a),
        None if ea is None or eb is None else FACTOR * ea * eb,
    )
    return value, of_finite(value, rounded_error(passed, value, dtype))


def _constant(value: int | float | bool, dtype: DType, scope: Scope) -> Pair:
    array = np.asarray(value, dtype=store_type(dtype))
    return array, literal_error(array, dtype) if scope.errors else None


def _read(expr: Read, scope: Scope) -> Pair:
    if expr.tensor in scope.own:
        return scope.own[expr.tensor]
    if scope.window is not None:
        found = _read_window(expr, scope)
        if found is not None:
            return found
    return scope.fetch(expr.tensor, [evaluate_expr(index, scope)[0] for index in expr.indices])


def _read_window(expr: Read, scope: Scope) -> Pair | None:
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


def _cast(pair: Pair, source: DType, dtype: DType, scope: Scope) -> Pair:
    value, error = pair
    if dtype.name == "bool":
        return value != 0, None if error is None else _undecided(value, np.zeros(()), error)
    if dtype.is_integer:
        if source.is_float:
            error = None if error is None else _stepped(np.trunc, value, error)
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
    """Whether a type of floats holds all numbers of another type: conversions to it are exact."""
    if source.is_float:
        return source.eps >= dtype.eps and LEAST[source.name] >= LEAST[dtype.name]
    return 2.0 ** (source.bits - (source.kind is Kind.SIGNED)) <= 2 / dtype.eps


def _apply(name: str, args: list[Pair], dtype: DType, scope: Scope) -> Pair:
    values = [value for value, _ in args]
    value = _VALUES[name](*values)
    exact = all(error is None for _, error in args)
    if not scope.errors or (exact and (name in _EXACT or name in COMPARISONS or not dtype.is_float)):
        return value, None
    errors = [np.zeros(()) if error is None else error for _, error in args]
    if name in COMPARISONS:
        return value, _undecided(values[0], values[1], errors[0] + errors[1])
    if name in _EXACT:
        return value, _EXACT[name](values, errors)
    if name == "mul":
        return multiply(args[0], args[1], dtype, True)
    if not dtype.is_float:
        return value, _INTEGERS[name]([np.abs(v.astype(np.float64)) for v in values], errors)
    if name in ("add", "sub"):
        return value, of_finite(value, rounded_error(errors[0] + errors[1], value, dtype, lost=0.0))
    passed = None if exact else _passed_on(name, values, value, errors, dtype)
    error = rounded_error(passed, value, dtype, 1.0 if name in ("div", "sqrt") else _FUNCTION_ROUNDINGS)
    return value, of_finite(value, error + least_normal(dtype) if name in _VANISHING else error)


def _passed_on(name: str, values: list[Array], value: Array, errors: list[Array], dtype: DType) -> Array:
    """How the errors of its operands reach the result of a function."""
    if name in _RISING and accumulator(dtype) != dtype:  # the errors are so large that a derivative does not say it
        low, high = (_VALUES[name](values[0] + sign * FACTOR * errors[0]) for sign in (-1, 1))
        return np.asarray(np.maximum(np.abs(high - value), np.abs(value - low)) / FACTOR)
    return _DERIVATIVES[name](values, value, errors)


def _undecided(left: Array, right: Array, error: Array) -> Array:
    """The error of a comparison: that it may come out the other way, where the difference is within the error."""
    near = np.abs(np.subtract(left, right, dtype=np.float64)) <= FACTOR * error
    return np.where(near & (error > 0), 1 / FACTOR, 0.0)


def _selected(values: list[Array], errors: list[Array]) -> Array:
    """The error of a choice: where it may be the other one, that may be as far away as it is."""
    condition, yes, no = values
    chosen = np.where(condition, errors[1], errors[2])
    if not errors[0].any():
        return chosen
    apart = np.abs(np.subtract(yes, no, dtype=np.float64)) / FACTOR
    return np.where(errors[0] > 0, apart + np.maximum(errors[1], errors[2]), chosen)


def extreme_error(extreme: np.ufunc, left: Array, left_error: Array, right: Array, right_error: Array) -> Array:
    """The error of the greater or the lesser of two: what is clearly beaten does not count, however far it is off."""
    low, middle, high = (
        extreme(left + sign * FACTOR * left_error, right + sign * FACTOR * right_error) for sign in (-1, 0, 1)
    )
    return of_finite(middle, np.maximum(high - middle, middle - low) / FACTOR)


def of_finite(value: Array, error: Array) -> Array:
    """Errors where values are finite: infinities and NaN are what they are."""
    finite = np.isfinite(value)
    return error if finite.all() else np.where(finite, error, 0.0)


def _bf16_pair(low: Array, high: Array) -> Array:
    return (bf16_bits(low) >> np.uint32(16) | bf16_bits(high)).view(np.int32)


def _bf16_half(word: Array, shift: int) -> Array:
    bits = np.asarray(word, np.int32).view(np.uint32) << np.uint32(shift) & np.uint32(0xFFFF0000)
    return bits.view(np.float32).astype(np.float64)


def _rounded_error(value: Array, error: Array) -> Array:
    """How far a value that is off by `error` may be from the true one after both are rounded to bfloat16: rounding is
    monotonic, so the ends of the interval say it. Nothing while they round alike."""
    low, middle, high = (
        bf16_bits(x).view(np.float32).astype(np.float64) for x in (value - error, value, value + error)
    )
    bound = np.maximum(high - middle, middle - low)
    return np.where(np.isfinite(bound), bound, 0.0)


def _stepped(step: Callable[[Array], Array], value: Array, error: Array) -> Array:
    """The error of a value rounded to whole numbers: none, where all that it may be is rounded alike."""
    low, middle, high = (step(value + sign * FACTOR * error) for sign in (-1, 0, 1))
    return np.asarray(np.maximum(high - middle, middle - low) / FACTOR)


def _times(slope: Array, error: Array) -> Array:
    """An error, magnified; none stays none, however steep it is."""
    return np.where(error == 0, 0.0, slope * error)


def _erf(x: Array) -> Array:
    from scipy.special import erf

    return np.asarray(erf(x))


def _erfc(x: Array) -> Array:
    from scipy.special import erfc

    return np.asarray(erfc(x))


def _sigmoid(x: Array) -> Array:
    from scipy.special import expit

    return np.asarray(expit(x))


_VALUES: dict[str, Callable[..., Array]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "floordiv": np.floor_divide, "mod": np.mod,
    "neg": np.negative, "min": np.minimum, "max": np.maximum, "abs": np.abs, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal, "and": np.logical_and,
    "or": np.logical_or, "not": np.logical_not, "exp": np.exp, "exp2": np.exp2,
    "log": np.log, "log2": np.log2, "tanh": np.tanh, "erf": _erf, "erfc": _erfc,
    "sigmoid": _sigmoid, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "floor": np.floor, "ceil": np.ceil,
    "round": np.rint, "sin": np.sin, "cos": np.cos, "pow": np.power, "select": np.where,
    "bf16_pair": _bf16_pair, "bf16_low": lambda x: _bf16_half(x, 16), "bf16_high": lambda x: _bf16_half(x, 0),
}  # fmt: skip

# Operations that add no rounding of the dtype they give: (operands, their errors) -> error.
_EXACT: dict[str, Callable[[list[Array], list[Array]], Array]] = {
    "neg": lambda v, e: e[0],
    "abs": lambda v, e: e[0],
    "min": lambda v, e: extreme_error(np.minimum, v[0], e[0], v[1], e[1]),
    "max": lambda v, e: extreme_error(np.maximum, v[0], e[0], v[1], e[1]),
    "floor": lambda v, e: _stepped(np.floor, v[0], e[0]),
    "ceil": lambda v, e: _stepped(np.ceil, v[0], e[0]),
    "round": lambda v, e: _stepped(np.rint, v[0], e[0]),
    "select": _selected,
    "and": lambda v, e: np.maximum(e[0], e[1]),
    "or": lambda v, e: np.maximum(e[0], e[1]),
    "not": lambda v, e: e[0],
    "bf16_pair": lambda v, e: np.maximum(_rounded_error(v[0], e[0]), _rounded_error(v[1], e[1])),  # of the worse half
    "bf16_low": lambda v, e: e[0],
    "bf16_high": lambda v, e: e[0],
}

# The same for arithmetic of integers: (absolute values of the operands, their errors) -> error.
_INTEGERS: dict[str, Callable[[list[Array], list[Array]], Array]] = {
    "add": lambda v, e: e[0] + e[1],
    "sub": lambda v, e: e[0] + e[1],
    "mul": lambda v, e: e[0] * v[1] + e[1] * v[0] + FACTOR * e[0] * e[1],
    "floordiv": lambda v, e: np.where(e[0] + e[1] > 0, v[0] + FACTOR * e[0], 0.0),
    "mod": lambda v, e: np.where(e[0] + e[1] > 0, v[1] + FACTOR * e[1], 0.0),
}

# (operands, result, errors of the operands) -> what the errors become.
_DERIVATIVES: dict[str, Callable[[list[Array], Array, list[Array]], Array]] = {
    "div": lambda v, r, e: (e[0] + np.abs(r) * e[1]) / np.maximum(np.abs(v[1]) - FACTOR * e[1], 0),
    "exp": lambda v, r, e: r * e[0],
    "exp2": lambda v, r, e: math.log(2) * r * e[0],
    "log": lambda v, r, e: e[0] / np.abs(v[0]),
    "log2": lambda v, r, e: e[0] / (math.log(2) * np.abs(v[0])),
    "tanh": lambda v, r, e: (1 - r * r) * e[0],
    "erf": lambda v, r, e: (2 / math.sqrt(math.pi)) * np.exp(-v[0] * v[0]) * e[0],
    "erfc": lambda v, r, e: (2 / math.sqrt(math.pi)) * np.exp(-v[0] * v[0]) * e[0],
    "sigmoid": lambda v, r, e: r * (1 - r) * e[0],
    "sqrt": lambda v, r, e: np.fmin(e[0] / r, np.sqrt(e[0])),  # near zero the derivative says nothing
    "rsqrt": lambda v, r, e: e[0] * r**3 / 2,
    "sin": lambda v, r, e: e[0],
    "cos": lambda v, r, e: e[0],
    "pow": lambda v, r, e: np.abs(r) * (_times(np.abs(v[1] / v[0]), e[0]) + _times(np.abs(np.log(np.abs(v[0]))), e[1])),
}
_RISING = frozenset(("exp", "exp2", "log", "log2", "tanh", "erf", "erfc", "sigmoid", "rsqrt"))  # or falling everywhere
_VANISHING = frozenset(("exp", "exp2", "erfc", "sigmoid"))
