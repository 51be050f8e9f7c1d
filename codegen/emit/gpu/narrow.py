"""Whether 32 bits are enough for the indices of a nest. GPUs compute with 64 bits in two steps.

They are where no buffer has 2^30 elements, all that indices are made of is loop variables and sizes, and no operand of a
quotient, a bound or a comparison reaches 2^31. Sums may: they wrap, and what they come to is below 2^31 again. What is read
from memory, and indices that a program uses as numbers, may be anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ....tensor.dtype import i64
from ....tensor.expr import Cast, Const, Expr, Op, Read, Var, walk
from ....tensor.indices.affine import Interval, affine, interval
from ....tensor.language import COMPARISONS
from ...ir.facts import expressions
from ...ir.loop_ir import (
    BLOCK_INDEX,
    THREAD_INDEX,
    Allocate,
    Buffer,
    For,
    If,
    Let,
    Nest,
    Statement,
    Store,
    Update,
    substatements,
)

MOST_ELEMENTS = 1 << 30
LARGEST = 1 << 31
Bounds = Mapping[str, Interval]


def is_narrow(nest: Nest, buffers: Iterable[Buffer]) -> bool:
    """True where i32 indices are certain to do. `buffers`: all that the nest does not allocate itself."""
    if nest.blocks * nest.threads >= MOST_ELEMENTS or any(b.elements >= MOST_ELEMENTS for b in buffers):
        return False
    bounds = {BLOCK_INDEX.name: (0, max(0, nest.blocks - 1)), THREAD_INDEX.name: (0, max(0, nest.threads - 1))}
    return _narrow(nest.body, bounds)


def _narrow(statement: Statement, bounds: Bounds) -> bool:
    """Says whether a statement and all in it do with 32 bits; `bounds`: of the variables around it."""
    if not _plain(statement) or not all(_stays_small(e, bounds) for e in expressions(statement)):
        return False
    match statement:
        case For(var=var, extent=extent):
            bounds = {**bounds, var: (0, max(0, interval(extent, bounds)[1] - 1))}
        case Let(var=var, value=value):
            bounds = {**bounds, var: interval(value, bounds)}
    return all(_narrow(child, bounds) for child in substatements(statement))


def _plain(statement: Statement) -> bool:
    match statement:
        case If(condition=condition):
            return _uses_plain(condition)
        case Store(indices=indices, value=value) | Update(indices=indices, value=value):
            return all(map(_is_index, indices)) and _uses_plain(value)
        case Allocate(buffer=buffer):
            return buffer.elements < MOST_ELEMENTS
    return all(map(_is_index, expressions(statement)))


def _is_index(expr: Expr) -> bool:
    """Made of variables and numbers that are no larger than buffers are."""
    for part in walk(expr):
        if isinstance(part, (Read, Cast)) or (isinstance(part, Const) and abs(part.value) >= MOST_ELEMENTS):
            return False
    return True


def _uses_plain(expr: Expr) -> bool:
    """Says whether a value has indices in its reads and in comparisons alone."""
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


def _stays_small(expr: Expr, bounds: Bounds) -> bool:
    """Says whether what is divided, bounded, multiplied or compared in an expression, or two of it together, fits in 32
    bits."""
    for part in walk(expr):
        if isinstance(part, Op) and part.args[0].dtype == i64 and part.name not in ("add", "sub", "neg"):
            if _is_multiple(part):
                continue
            if sum(_reach(arg, bounds) for arg in part.args) >= LARGEST:
                return False
    return True


def _is_multiple(part: Op) -> bool:
    return part.name == "mul" and any(isinstance(arg, Const) for arg in part.args)


def _reach(expr: Expr, bounds: Bounds) -> int:
    """Bounds how far from 0 any part of the sum that an index is may come."""
    form = affine(expr)
    return abs(form.constant) + sum(abs(times) * max(map(abs, interval(atom, bounds))) for atom, times in form.terms)
