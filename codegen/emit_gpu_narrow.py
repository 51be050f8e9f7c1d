"""Whether 32 bits are enough for the indices of a nest. GPUs compute with 64 bits in two steps.

They are where no buffer has 2^30 elements and all that indices are made of is loop variables and sizes: then every sum on the
way to an index is below 2^31. What is read from memory, and indices that a program uses as numbers, may be anything.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..tensor.dtype import i64
from ..tensor.expr import COMPARISONS, Cast, Const, Expr, Op, Read, Var, walk
from .loop_ir import Allocate, Buffer, For, If, Let, Nest, Prefetch, Statement, Store, Update, statements

MOST_ELEMENTS = 1 << 30


def is_narrow(nest: Nest, buffers: Iterable[Buffer]) -> bool:
    """True where i32 indices are certain to do. `buffers`: all that the nest does not allocate itself."""
    if nest.blocks * nest.threads >= MOST_ELEMENTS or any(b.elements >= MOST_ELEMENTS for b in buffers):
        return False
    return all(_plain(statement) for statement in statements(nest.body))


def _plain(statement: Statement) -> bool:
    match statement:
        case For(extent=extent, valid=valid, index=index):
            return all(_is_index(e) for e in (extent, valid, index) if e is not None)
        case Let(value=value):
            return _is_index(value)
        case If(condition=condition):
            return _uses_plain(condition)
        case Store(indices=indices, value=value) | Update(indices=indices, value=value):
            return all(map(_is_index, indices)) and _uses_plain(value)
        case Prefetch(indices=indices):
            return all(map(_is_index, indices))
        case Allocate(buffer=buffer):
            return buffer.elements < MOST_ELEMENTS
    return True


def _is_index(expr: Expr) -> bool:
    """Made of variables and numbers that are no larger than buffers are."""
    for part in walk(expr):
        if isinstance(part, Read | Cast) or (isinstance(part, Const) and abs(part.value) >= MOST_ELEMENTS):
            return False
    return True


def _uses_plain(expr: Expr) -> bool:
    """Whether a value has indices in its reads and in comparisons alone."""
    match expr:
        case Read(indices=indices):
            return all(map(_is_index, indices))
        case Op(name=name, args=args) if name in COMPARISONS and args[0].dtype == i64:
            return all(map(_is_index, args))
        case Op(args=args, dtype=dtype):
            return dtype != i64 and all(map(_uses_plain, args))
        case Cast(arg=arg):
            return _uses_plain(arg)
        case Var():
            return False
    return True
