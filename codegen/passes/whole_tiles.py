"""Register tiles of windows run without conditions where all of their points have them fulfilled: away from the border.

    for i < 14 { allocate s; for r < 3 unroll 3 { unroll u < 4 { s[u] += select(4 i + u + r > 0, x[4 i + u + r - 1], 0) } } }
    ->  for i < 14
          if 4 i > 0 { allocate s; ... s[u] += x[4 i + u + r - 1] ... }
          else       { as it was }

A sum whose loops are all written out has its conditions with every load: comparisons and masks, more of them than sums. Its
tile, from where its accumulators are made, has two versions then. Each is straight code: accumulators stay in registers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...schedules.loops import WRITTEN_OUT
from ...tensor.expr import Expr, variables
from ...tensor.indices.bounds import bound_of
from ..code_size import operations
from ..ir.index import both, known
from ..ir.loop_ir import Allocate, Block, For, If, Let, LoopKind, LoopProgram, Scope, Statement, Update, statements
from .whole_copies import conditions_of, throughout
from .whole_ranges import Spans, without

MOST = 1 << 14  # operations of a tile that has two versions: they are code


def whole_tiles(program: LoopProgram) -> LoopProgram:
    """An equal program."""
    return program.with_bodies(_statement)


def _statement(node: Statement) -> Statement:
    match node:
        case Block(body=body):
            return Block(tuple(map(_statement, body)))
        case For(body=body):
            return replace(node, body=_statement(body))
        case Let(body=body):
            return replace(node, body=_statement(body))
        case If(then=then, otherwise=otherwise):
            return replace(node, then=_statement(then), otherwise=None if otherwise is None else _statement(otherwise))
        case Allocate(body=body) if node.buffer.scope is not Scope.REGISTER:
            return replace(node, body=_statement(body))
        case Allocate():
            return _in_two(node)
    return node


def _in_two(tile: Allocate) -> Statement:
    """A tile, and the same without conditions, where it is straight code with sums under such."""
    inside = list(statements(tile.body))
    loops = [s for s in inside if isinstance(s, For)]
    spans: Spans = {loop.var: (0, size - 1) for loop in loops if (size := known(loop.extent)) is not None}
    if any(loop.var not in spans or not _is_written_out(loop) for loop in loops):
        return tile
    hidden = {s.var for s in inside if isinstance(s, Let)}
    whole = dict(_throughout(inside, spans, hidden))
    if not whole or operations(tile) > MOST:
        return tile
    test: Expr | None = None
    for one in dict.fromkeys(whole.values()):
        test = both(test, one)
    assert test is not None
    return If(test, without(tile, frozenset(whole)), tile)


def _is_written_out(loop: For) -> bool:
    return loop.kind in WRITTEN_OUT or (loop.kind is LoopKind.SERIAL and loop.unroll >= (known(loop.extent) or 0))


def _throughout(inside: list[Statement], spans: Spans, hidden: set[str]) -> Iterator[tuple[Expr, Expr]]:
    """Conditions of sums that change from tile to tile, each with what says that it holds in all of one."""
    updates = [s for s in inside if isinstance(s, Update)]
    for condition in dict.fromkeys(c for update in updates for c in conditions_of(update)):
        form, moved = bound_of(condition), variables(condition)
        if form is not None and moved - spans.keys() and not moved & hidden:
            yield condition, throughout(form, spans)
