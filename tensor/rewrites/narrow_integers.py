"""Integers that are cut to a narrower type are computed in as few bits as give the same result.

    u8((i32(x) + i32(y) * 2 + i32(z)) // 4)   ->   u8((i16(x) + i16(y) * 2 + i16(z)) // 4)        of x, y, z: u8
    u8(i32(x) - i32(y))                       ->   x - y

A vector holds twice as many numbers of half the width. Sums and products may wrap where only the low bits of the result count;
all else has to have its exact value in the narrow type, which the ranges of what is read say.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

from ..dtype import DTYPES, DType, boolean
from ..expr import Cast, Const, Expr, Op, rewrite
from ..indices.operator_ranges import Interval, interval_of_op, range_of
from ..language import OPERATORS
from ..program import Stage

_WRAPPING = frozenset(("add", "sub", "mul", "neg"))
_EXACT = frozenset(("min", "max", "abs", "floordiv", "mod"))
_BYTES = frozenset(("add", "sub", "neg", "min", "max", "select"))  # what processors have instructions for on bytes
_INTEGERS = [dtype for dtype in DTYPES.values() if dtype.is_integer]


def narrow_integers(expr: Expr) -> Expr:
    """An expression of the same value, with integer arithmetic in fewer bits where a cast throws the others away."""
    return rewrite(expr, _narrowed)


@lru_cache(maxsize=512)
def narrow_stage(stage: Stage) -> Stage:
    """A stage with its bodies narrowed: what is in fact computed."""
    return replace(stage, bodies=tuple(map(narrow_integers, stage.bodies)))


def _narrowed(node: Expr) -> Expr | None:
    if not isinstance(node, Cast) or not isinstance(node.arg, Op) or not node.dtype.is_integer:
        return None
    if not node.arg.dtype.is_integer:
        return None
    ranges: dict[int, Interval] = {}
    for dtype in sorted(_INTEGERS, key=lambda one: (one.bits, one is not node.dtype, one.name)):
        if node.dtype.bits <= dtype.bits < node.arg.dtype.bits:
            found = _Narrowing(dtype, ranges).low_bits(node.arg)
            if found is not None:
                return found.cast(node.dtype)
    return None


def _is_within(found: Interval, dtype: DType) -> bool:
    low, high = range_of(dtype)
    return low <= found[0] and found[1] <= high


class _Narrowing:
    """Writes one expression in a narrow type. `ranges`: of nodes, by id; the expression keeps them alive."""

    def __init__(self, dtype: DType, ranges: dict[int, Interval]) -> None:
        self._dtype = dtype
        self._ranges = ranges

    def low_bits(self, node: Expr) -> Expr | None:
        """The node in the narrow type, right in its low bits; None where they cannot be had from narrow operands."""
        if isinstance(node, Const):
            low, high = range_of(self._dtype)
            return Const((int(node.value) - low) % (high - low + 1) + low, self._dtype)
        if node.dtype.bits == self._dtype.bits:
            return node.cast(self._dtype)
        if node.dtype.bits > self._dtype.bits:
            match node:
                case Op(name=name, args=args) if name in _WRAPPING:
                    return self._applied(name, map(self.low_bits, args))
                case Op(name="select", args=(condition, yes, no)):
                    return self._applied("select", (condition, self.low_bits(yes), self.low_bits(no)))
                case Cast(arg=arg) if arg.dtype.is_integer and arg.dtype.bits >= self._dtype.bits:
                    return self.low_bits(arg)
        return self._exact(node)

    def _exact(self, node: Expr) -> Expr | None:
        """The node in the narrow type, with its very value; None where it may have another."""
        if not _is_within(self._range(node), self._dtype):
            return None
        if isinstance(node, Const):
            return Const(node.value, self._dtype)
        if node.dtype.bits <= self._dtype.bits:
            return node.cast(self._dtype)
        match node:
            case Cast(arg=arg) if arg.dtype.is_integer and _is_within(self._range(arg), node.dtype):
                return self._exact(arg)
            case Op(name=name, args=args) if name in _WRAPPING:
                return self._applied(name, map(self.low_bits, args))
            case Op(name=name, args=args) if name in _EXACT:
                return self._applied(name, map(self._exact, args))
            case Op(name="select", args=(condition, yes, no)):
                return self._applied("select", (condition, self._exact(yes), self._exact(no)))
        return None

    def _applied(self, name: str, args: Iterable[Expr | None]) -> Expr | None:
        known = [arg for arg in (() if self._dtype.bits == 8 and name not in _BYTES else args) if arg is not None]
        return Op(name, tuple(known), self._dtype) if len(known) == OPERATORS[name].arity else None

    def _range(self, node: Expr) -> Interval:
        found = self._ranges.get(id(node))
        if found is None:
            found = self._ranges[id(node)] = self._found_range(node)
        return found

    def _found_range(self, node: Expr) -> Interval:
        match node:
            case Const(value=value):
                return int(value), int(value)
            case Cast(arg=arg) if arg.dtype.is_integer and _is_within(self._range(arg), node.dtype):
                return self._range(arg)
            case Cast(arg=arg) if arg.dtype == boolean:
                return 0, 1
            case Op(name="select", args=(_, yes, no)):
                ends = (self._range(yes), self._range(no))
                return min(low for low, _ in ends), max(high for _, high in ends)
            case Op(name=name, args=args) if name in _WRAPPING | _EXACT:
                return interval_of_op(name, [self._range(arg) for arg in args], node.dtype)
        return range_of(node.dtype)
