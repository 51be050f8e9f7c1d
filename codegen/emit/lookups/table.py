"""Floats of four bits of an integer, as of weights two to a byte: one look into a vector that has all sixteen.

f32(x % 16 - 8), f32(i32(byte) // 16)     a shift or a mask, a difference, a conversion
permute(table, x), permute(table, x >> 4) the instruction reads the low bits of each lane and no others
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from operator import add, sub

from ....tensor.dtype import f32, i8, i32, u8
from ....tensor.expr import Cast, Const, Expr, Op, Read
from ..types import Value, literal, value_type
from ..values import Arithmetic

ENTRIES = 16  # lanes of a vector, and numbers of four bits
LARGEST = 1 << 20  # of what is added: sums are exact in i32 and in f32
BYTES = (u8, i8)
_OPERATIONS = {"add": add, "sub": sub}


@dataclass(frozen=True, slots=True)
class Lookup:
    """An index, of which the low four bits count, what there is for each, and a byte that is taken from it."""

    index: Expr
    values: tuple[int, ...]
    less: Expr | None = None


def lookup_of(expr: Cast, arm: Callable[[Op], Expr | None]) -> Lookup | None:
    """A cast to f32 as a look into a table, or None. `arm`: the arm of a select that is known to be taken."""
    if expr.dtype != f32:
        return None
    match expr.arg:
        case Op(name="sub", args=(entry, Cast(arg=Read(dtype=source)) as byte)) if (
            expr.arg.dtype == i32 and source in BYTES
        ):
            found = _lookup(entry, arm)  # both are whole numbers that f32 holds, and so is their difference
            return None if found is None else replace(found, less=byte)
    return _lookup(expr.arg, arm)


def _lookup(expr: Expr, arm: Callable[[Op], Expr | None]) -> Lookup | None:
    match expr:
        case Op(name="select"):
            chosen = arm(expr)
            return None if chosen is None else _lookup(chosen, arm)
        case Op(name="mod", args=(index, Const(value=16))) if index.dtype in (i32, u8):
            return Lookup(index, tuple(range(ENTRIES)))
        case Op(name="floordiv", args=(Cast(arg=Read(dtype=source)) | Read(dtype=source), Const(value=16))) if (
            source == u8
        ):
            return Lookup(expr, tuple(range(ENTRIES)))
        case Op(name="add" | "sub" as name, args=(inner, Const(value=number))) if expr.dtype == i32:
            found = _lookup(inner, arm) if abs(number) <= LARGEST else None
            if found is not None and max(map(abs, found.values)) <= LARGEST:
                return Lookup(found.index, tuple(int(_OPERATIONS[name](value, number)) for value in found.values))
        case Cast(arg=inner) if expr.dtype == i32 and inner.dtype == u8:
            return _lookup(inner, arm)
    return None


def looks_up(arithmetic: Arithmetic) -> bool:
    """Says whether the target has the instruction."""
    return "avx512f" in arithmetic.target.features


def look_up(arithmetic: Arithmetic, index: Value, values: tuple[int, ...]) -> Value:
    """The entry that the low bits of each lane say."""
    index = arithmetic.cast(index, i32)
    kind, integers = value_type(f32, ENTRIES), value_type(i32, ENTRIES)
    table = "<" + ", ".join(f"float {literal(value, f32)}" for value in values) + ">"
    call = arithmetic.module.intrinsic("llvm.x86.avx512.permvar.sf.512", kind, kind, integers)
    return Value(arithmetic.text.compute(f"{call}({kind} {table}, {index.typed})", index.text), f32, ENTRIES)
