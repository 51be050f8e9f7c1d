"""Nests with so little work that starting threads would take longer run in the thread that calls.

    parallel i: 8 { ... }    ->    for i: 8 { ... }

A parallel region of two threads that are awake costs 0.55 us on a Zen 4 (GNU OpenMP; `max(x + b, 0)` on n floats: 0.21 us in
one thread and 0.73 in two at n = 4,096; 1.1 and 1.2 at n = 16,384; 2.5 and 2.0 at n = 32,768), and 40 us where they have gone
to sleep. So a nest of less than 2 us gains nothing, and may lose much.
"""

from __future__ import annotations

from dataclasses import replace

from ...targets.target import Target
from ...tensor.expr import Expr, Op, Read, walk
from ...tensor.indices.affine import interval
from ...tensor.language import MATHEMATICS
from ..ir.index import Bounds
from ..ir.loop_ir import (
    Allocate,
    Block,
    For,
    If,
    Let,
    LoopKind,
    LoopProgram,
    MatrixClear,
    MatrixMove,
    MatrixMultiply,
    Nest,
    Prefetch,
    Statement,
    Store,
    Update,
    with_substatements,
)

SMALL = 6000.0  # instructions: about 2 us
CYCLE = 2.0  # instructions that a cycle of a matrix unit stands for: one product of tiles takes many, a load as long
FUNCTION = 12.0  # instructions of an exponential, a square root, a division, ...


def keep_small_serial(program: LoopProgram, target: Target) -> LoopProgram:
    """An equal program, in which nests of less than `SMALL` instructions start no threads."""
    return replace(program, nests=tuple(_kept(nest, target) for nest in program.nests))


def _kept(nest: Nest, target: Target) -> Nest:
    if instructions(nest.body, {}, target) >= SMALL:
        return nest
    return replace(nest, body=_serial(nest.body))


def _serial(node: Statement) -> Statement:
    if isinstance(node, For) and node.kind is LoopKind.PARALLEL:
        node = replace(node, kind=LoopKind.SERIAL)
    return with_substatements(node, _serial)


def instructions(node: Statement, bounds: Bounds, target: Target) -> float:
    """Bounds, about, how many instructions a statement takes, whole vectors at a time; `bounds`: of the variables around."""
    match node:
        case Block(body=body):
            return sum(instructions(child, bounds, target) for child in body)
        case For(var=var, extent=extent, body=inner, kind=kind):
            trips = max(0, interval(extent, bounds)[1])
            each = instructions(inner, {**bounds, var: (0, max(0, trips - 1))}, target)
            if kind is LoopKind.VECTOR:
                return each * -(-trips // (target.vector_bits // 32))
            return trips * (each + (kind is not LoopKind.UNROLL))
        case Let(var=var, value=value, body=inner):
            return instructions(inner, {**bounds, var: interval(value, bounds)}, target)
        case Allocate(body=inner):
            return instructions(inner, bounds, target)
        case If(then=then, otherwise=otherwise):
            rest = 0.0 if otherwise is None else instructions(otherwise, bounds, target)
            return max(instructions(then, bounds, target), rest)
        case Store(value=value) | Update(value=value):
            return 1.0 + _operations(value)
        case Prefetch():
            return 1.0
        case MatrixClear() | MatrixMove():
            return _tile(target)
        case MatrixMultiply(rows=rows, columns=columns, pairs=pairs):
            return _tile(target) * len(rows) * len(columns) * len(pairs)
    raise TypeError(f"unknown statement {type(node).__name__}")


def _tile(target: Target) -> float:
    """Instructions that one of a matrix unit stands for."""
    return 1.0 if target.matrix_unit is None else CYCLE * target.matrix_unit.cycles


def _operations(value: Expr) -> float:
    """Operations on values; what is done to indices is no work."""
    total = 0.0
    for node in walk(value):
        if isinstance(node, Op) and node.dtype.name != "i64":
            total += FUNCTION if node.name in MATHEMATICS or node.name == "div" else 1.0
        elif isinstance(node, Read):
            total += 0.5  # loads are mostly part of the operation that needs them
    return total
