"""Functions of expressions, and reductions, for programs written in Python. Functions of floats are in mathematics.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..common.errors import ProgramError
from ..common.near import did_you_mean
from .dtype import DTYPES, DType, boolean, f32
from .expr import Expr, Operand, PythonNumber, Var, as_expr, binary, call, const


@dataclass(frozen=True, slots=True)
class ReduceAxis(Var):
    """An axis to reduce over, usable in arithmetic as any expression."""

    extent: int = 1


@dataclass(frozen=True, slots=True)
class Reduction:
    """sum, prod, max or min of an expression over axes: what `compute` takes as the whole of a stage."""

    combiner: str
    body: Expr
    axes: tuple[ReduceAxis, ...]


def find_dtype(dtype: DType | str) -> DType:
    """A dtype by its name. Errors: ProgramError for an unknown one."""
    found = DTYPES.get(str(dtype))
    if found is None:
        near = did_you_mean(str(dtype), DTYPES)
        raise ProgramError(f"unknown dtype {dtype!r}", expected="one of " + " ".join(DTYPES), advice=near)
    return found


def sum(body: Expr, axes: ReduceAxis | Sequence[ReduceAxis]) -> Reduction:
    """The sum of `body` over axes."""
    return _reduce("sum", body, axes)


def prod(body: Expr, axes: ReduceAxis | Sequence[ReduceAxis]) -> Reduction:
    """The product of `body` over axes."""
    return _reduce("prod", body, axes)


def max(body: Expr, axes: ReduceAxis | Sequence[ReduceAxis]) -> Reduction:
    """The greatest `body` over axes; NaN wins. Of two values: `maximum`."""
    return _reduce("max", body, axes)


def min(body: Expr, axes: ReduceAxis | Sequence[ReduceAxis]) -> Reduction:
    """The least `body` over axes; NaN wins. Of two values: `minimum`."""
    return _reduce("min", body, axes)


def maximum(left: Operand, right: Operand) -> Expr:
    """The greater of two values; NaN wins."""
    return binary("max", left, right)


def minimum(left: Operand, right: Operand) -> Expr:
    """The lesser of two values; NaN wins."""
    return binary("min", left, right)


def select(condition: Expr, yes: Operand, no: Operand) -> Expr:
    """`yes` where the condition holds, else `no`; only the chosen one is read."""
    like = yes if isinstance(yes, Expr) else no
    if not isinstance(like, Expr):
        raise ProgramError("select of two Python numbers has no dtype", advice="write literal(value, dtype)")
    return call("select", condition, as_expr(yes, like), as_expr(no, like))


def literal(value: PythonNumber, dtype: DType | str = "f32") -> Expr:
    """A number of a dtype."""
    return const(value, find_dtype(dtype))


def cast(value: Expr, dtype: DType | str) -> Expr:
    """`value` converted; float to integer rounds toward zero."""
    return value.cast(find_dtype(dtype))


def absolute(value: Expr) -> Expr:
    """The size of a value, without its sign."""
    return call("abs", value)


def truth(value: Expr) -> Expr:
    """Says whether a value is true: itself if it is bool, else whether it is not 0. NaN is true, as in NumPy."""
    return value if value.dtype == boolean else value.not_equal(0)


def bf16_pair(low: Operand, high: Operand) -> Expr:
    """Two f32 rounded to bfloat16 (nearest, ties to even) as an i32: low in bits 0..15, high in bits 16..31."""
    if not isinstance(low, Expr) and not isinstance(high, Expr):
        low = const(low, f32)
    return binary("bf16_pair", low, high)


def bf16_low(word: Expr) -> Expr:
    """The bfloat16 in bits 0..15 of an i32, as f32."""
    return call("bf16_low", word)


def bf16_high(word: Expr) -> Expr:
    """The bfloat16 in bits 16..31 of an i32, as f32."""
    return call("bf16_high", word)


def _reduce(combiner: str, body: Expr | Reduction, axes: ReduceAxis | Sequence[ReduceAxis]) -> Reduction:
    if isinstance(body, Reduction):
        raise ProgramError(
            f"{combiner} of a reduction",
            expected="an expression",
            advice="compute the inner one as a tensor of its own",
        )
    chosen = (axes,) if isinstance(axes, ReduceAxis) else tuple(axes) if isinstance(axes, Sequence) else ()
    if not chosen or not all(isinstance(axis, ReduceAxis) for axis in chosen):
        pairwise = {"max": "maximum(a, b)", "min": "minimum(a, b)"}.get(combiner)
        raise ProgramError(
            f"{combiner} runs over axes",
            expected=f"{combiner}(expression, reduce_axis(...)), or several axes in a list",
            found=repr(axes),
            advice=f"of two values: {pairwise}" if pairwise else "",
        )
    return Reduction(combiner, body, chosen)
