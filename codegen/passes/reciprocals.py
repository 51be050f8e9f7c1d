"""Quotients by what stays the same in a loop over vectors become products with its reciprocal: a softmax, a mean.

    serial j { vector l { y = x / s } }
    ->  if 2^-64 <= |s| <= 2^64: serial j { vector l { y = x * (1 / s) } }  else: serial j { vector l { y = x / s } }

A division takes as long as half a dozen products. Within the bounds the reciprocal is a normal number, so that the product
differs from the quotient by one rounding; zeros, infinities, NaN and all else take the other branch. Where a loop divides by
several, as one that rounds a sum of rounded numbers does, all are asked for at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from operator import and_

from ...tensor.dtype import f32, f64
from ...tensor.expr import Const, Expr, Op, Read, children, rewrite, variables, walk
from ..ir.loop_ir import (
    Allocate,
    Barrier,
    For,
    If,
    Let,
    LoopKind,
    LoopProgram,
    Shuffle,
    Statement,
    Store,
    Update,
    Wait,
    statements,
    substatements,
    with_substatements,
)

LARGEST = 2.0**64


def reciprocals(program: LoopProgram) -> LoopProgram:
    """A program whose results differ by roundings only."""
    return program.with_bodies(_changed)


def _changed(node: Statement) -> Statement:
    """The outermost loop around vectors in which divisors stay the same is written twice."""
    if isinstance(node, For) and node.kind is not LoopKind.PARALLEL and (divisors := _same(node)):
        fast: Statement = node
        for divisor in divisors:
            fast = _multiplied(fast, divisor)
        return If(reduce(and_, map(_in_range, divisors)), fast, node)
    return with_substatements(node, _changed)


def _same(loop: For) -> list[Expr]:
    """The divisors with a read in them that no trip of the loop changes, in the lanes of vectors.

    Not one that stands behind a condition: what the condition keeps from being read may lie outside of its buffer.
    """
    inside = list(statements(loop))
    if any(isinstance(s, (Barrier, Shuffle, Wait)) for s in inside):
        return []  # threads may disagree on a divisor, and all must come
    if not any(isinstance(s, For) and s.kind is LoopKind.VECTOR for s in inside):
        return []
    bound = {s.var for s in inside if isinstance(s, (For, Let))}
    made = {s.buffer.name for s in inside if isinstance(s, Allocate)}
    written = {s.buffer for s in inside if isinstance(s, (Store, Update))} | made
    found = []
    for divisor in _divisors(loop):
        read = {part.tensor for part in walk(divisor) if isinstance(part, Read)}
        if read and not read & written and not variables(divisor) & bound:
            found.append(divisor)
    return found


def _divisors(node: Statement) -> dict[Expr, None]:
    """Returns what is divided by whenever a statement runs, in order: of an `If`, what both of its arms divide by."""
    match node:
        case Store(value=value) | Update(value=value):
            quotients = (
                e for e in _evaluated(value) if isinstance(e, Op) and e.name == "div" and e.dtype in (f32, f64)
            )
            return dict.fromkeys(quotient.args[1] for quotient in quotients)
        case If(then=then, otherwise=otherwise):
            other = {} if otherwise is None else _divisors(otherwise)
            return {divisor: None for divisor in _divisors(then) if divisor in other}
    found: dict[Expr, None] = {}
    for child in substatements(node):
        found |= _divisors(child)
    return found


def _evaluated(expr: Expr) -> Iterator[Expr]:
    """All nodes but those in the arms of a select."""
    waiting = [expr]
    while waiting:
        node = waiting.pop()
        yield node
        chosen = isinstance(node, Op) and node.name == "select"
        waiting += reversed(children(node)[:1] if chosen else children(node))


def _in_range(divisor: Expr) -> Expr:
    size = Op("abs", (divisor,), divisor.dtype)
    low, high = Const(1 / LARGEST, divisor.dtype), Const(LARGEST, divisor.dtype)
    return (size >= low) & (size <= high)


def _multiplied(node: Statement, divisor: Expr) -> Statement:
    """The statement with all quotients by the divisor as products."""
    one = Op("div", (Const(1.0, divisor.dtype), divisor), divisor.dtype)

    def product(expr: Expr) -> Expr | None:
        match expr:
            case Op(name="div", args=(dividend, by), dtype=dtype) if by == divisor and dividend != Const(1.0, dtype):
                return Op("mul", (dividend, one), dtype)
        return None

    if isinstance(node, (Store, Update)):
        return replace(node, value=rewrite(node.value, product))
    return with_substatements(node, lambda child: _multiplied(child, divisor))
