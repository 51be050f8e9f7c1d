"""The table of the expression language: what is known of each operator and function, in one entry each.

    signature     which dtypes its operands have, and the dtype of what it gives
    value, error  what it is, in NumPy, and how errors of its operands reach it: the oracle reads these
    slots         what it costs, read by the cost model
    infix         its sign in the text form, where it has one

The entries stand in arithmetic.py and mathematics.py, which `tensor/__init__.py` imports: whoever imports anything of `tensor`
finds the table whole. The code that computes a function of mathematics is in `codegen/math`; a test holds that both know the
same names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .dtype import DTYPES, DType, boolean

Array = NDArray[Any]
Passed = Callable[[list[Array], list[Array]], Array]  # (operands, their errors) -> the error of the result
ErrorSlope = Callable[[list[Array], Array, list[Array]], Array]  # (operands, result, errors) -> what the errors become

ANY = frozenset(DTYPES.values())
NUMBERS = ANY - {boolean}
FLOATS = frozenset(dtype for dtype in ANY if dtype.is_float)
INTEGERS = frozenset(dtype for dtype in ANY if dtype.is_integer)
BOOLS = frozenset((boolean,))


@dataclass(frozen=True, slots=True)
class Signature:
    """All operands have one dtype of `takes`. `gives` is the dtype of the result, None where it is that of the operands."""

    takes: frozenset[DType]
    gives: DType | None = None

    @property
    def operand(self) -> DType | None:
        """The dtype of the operands, where there is no choice."""
        return next(iter(self.takes)) if len(self.takes) == 1 else None


# How tightly signs bind, from weak to strong; "not" and "-" stand before their operand.
JOINED, BOTH, NEGATED, COMPARED, SUMMED, MULTIPLIED, NEGATIVE, ATOM = range(1, 9)


@dataclass(frozen=True, slots=True)
class Infix:
    """Says how an operator is written between its operands, and how tightly it binds them."""

    sign: str
    level: int


@dataclass(frozen=True, slots=True)
class Rounding:
    """Says how an operation on floats rounds.

    Args:
        slope: how errors of the operands reach the result.
        ulp: how far code may be off, in units of the last place of the result, where it computes in f32 and in f64. Half a unit
            is the nearest number, as arithmetic gives it. `codegen/math` keeps these bounds; tests measure them.
        monotonic: it rises everywhere or falls everywhere.
        vanishes: its results get smaller than the least normal number, and code may give 0 for them.
        keeps_small: nothing is lost of results so small that they are subnormal, as in sums.
    """

    slope: ErrorSlope
    ulp: tuple[float, float] = (0.5, 0.5)
    monotonic: bool = False
    vanishes: bool = False
    keeps_small: bool = False


@dataclass(frozen=True, slots=True)
class Operator:
    """An entry. `exact` or `rounding` may be absent, not both.

    Args:
        name: that of `Op` nodes, and of functions in the text form.
        arity: the number of operands.
        value: the operation on arrays; floats are float64 there.
        exact: how errors reach a result that is not rounded: of integers, bools, and of floats where there is no `rounding`.
        rounding: how a result of floats is rounded.
        slots: cycles that one vector takes where one vector is added or multiplied per cycle, measured on Zen 4 with 16 floats.
            Other targets are counted by the same number: what matters to a model is how costly it is next to a sum.
        operand_slots: what is added for each operand that is no literal.
        meaning: what it gives, for people.
    """

    name: str
    arity: int
    signature: Signature
    value: Callable[..., Array]
    exact: Passed | None = None
    rounding: Rounding | None = None
    slots: float = 1.0
    operand_slots: float = 0.0
    infix: Infix | None = None
    meaning: str = ""

    def __post_init__(self) -> None:
        if self.exact is None and (self.rounding is None or not self.signature.takes <= FLOATS):
            raise ValueError(f"{self.name}: no rule says how errors reach a result that is not rounded")


# Name -> entry, by family and of all, in the order in which they are entered.
ARITHMETIC: dict[str, Operator] = {}
COMPARISONS: dict[str, Operator] = {}
LOGIC: dict[str, Operator] = {}
MATHEMATICS: dict[str, Operator] = {}
WORDS: dict[
    str, Operator
] = {}  # narrow elements side by side in an i32, as matrix instructions take them, and their products
OPERATORS: dict[str, Operator] = {}
INFIX: dict[str, Infix] = {}


def enter(operator: Operator, family: dict[str, Operator] | None = None) -> None:
    """Puts an entry into the table, and into a family."""
    if operator.name in OPERATORS:
        raise ValueError(f"two entries are called {operator.name!r}")
    OPERATORS[operator.name] = operator
    if operator.infix is not None:
        INFIX[operator.name] = operator.infix
    if family is not None:
        family[operator.name] = operator


def rounds(name: str) -> bool:
    """Says whether an operator's results are rounded where they are floats."""
    return OPERATORS[name].rounding is not None


def zero() -> Array:
    """The error of what is exact."""
    return np.zeros(())
