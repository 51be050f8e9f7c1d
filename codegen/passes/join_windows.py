"""Sums over equal windows that stand side by side and read the same are one walk over the window.

    allocate a { a = 0; for r { for s { a += f(p) } }; A = a }       allocate a, b { a = 0; b = 0
    allocate b { b = 0; for r { for s { b += f(p, q) } }; B = b }  ->    for r { for s { a += f(p); b += f(p, q) } }
                                                                         A = a; B = b }

What the window of one sum has read would stay in registers until the next sum asks for it, or go through memory. In one walk,
each number is in a register where all sums need it. The axis of the window along which neighbouring rows of the tile share
numbers is walked innermost: they are used up before others are loaded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain

from ...schedules.loops import LoopKind
from ...tensor.expr import Expr, Read, Var, variables, walk
from ..ir.facts import expressions, facts
from ..ir.index import known
from ..ir.loop_ir import (
    Allocate,
    Block,
    Buffer,
    For,
    Let,
    LoopProgram,
    Scope,
    Statement,
    Store,
    Update,
    statements,
    with_substatements,
)

_PLAIN = (Allocate, Block, For, Let, Store, Update)


@dataclass(frozen=True, slots=True)
class _Sum:
    """A sum over a window that is written out: its accumulators, what is done before, the window, and what is done behind."""

    whole: Statement
    buffer: Buffer
    before: tuple[Statement, ...]
    loops: tuple[For, ...]
    body: Statement
    behind: tuple[Statement, ...]

    @property
    def window(self) -> tuple[int | None, ...]:
        """The extents of the window."""
        return tuple(known(loop.extent) for loop in self.loops)

    @property
    def reads(self) -> frozenset[str]:
        """The buffers that a step of the window reads."""
        inside = facts(self.body)
        return inside.buffers - inside.writes


def join_windows(program: LoopProgram) -> LoopProgram:
    """A program with the same results, but for the order of sums."""
    return program.with_bodies(_join)


def _join(node: Statement) -> Statement:
    node = with_substatements(node, _join)
    if not isinstance(node, Block):
        return node
    done: list[Statement] = []
    waiting: list[_Sum] = []
    for one in node.body:
        found = _sum_of(one)
        if waiting and (found is None or not _may_run_together(waiting, found)):
            done += _joined(waiting)
            waiting = []
        if found is None:
            done.append(one)
        else:
            waiting.append(found)
    done += _joined(waiting)
    return Block(tuple(done))


def _sum_of(node: Statement) -> _Sum | None:
    """A statement as a sum over a window, if it is one and nothing else."""
    if not isinstance(node, Allocate) or node.buffer.scope is not Scope.REGISTER or not isinstance(node.body, Block):
        return None
    if not all(isinstance(part, _PLAIN) for part in statements(node)):
        return None
    parts = node.body.body
    windows = [n for n, part in enumerate(parts) if isinstance(part, For) and _is_written_out(part)]
    if len(windows) != 1:
        return None
    (place,) = windows
    *loops, body = _down(parts[place])
    nested = tuple(loop for loop in loops if isinstance(loop, For))
    if facts(body).writes != {node.buffer.name} or not all(
        isinstance(part, Update) for part in statements(body) if isinstance(part, (Store, Update))
    ):
        return None
    return _Sum(node, node.buffer, parts[:place], nested, body, parts[place + 1 :])


def _is_written_out(loop: For) -> bool:
    trips = known(loop.extent)
    return loop.kind is LoopKind.SERIAL and trips is not None and 1 < trips <= loop.unroll


def _down(node: Statement) -> Iterator[Statement]:
    """The loops of a window from the outermost one on, and the body."""
    while isinstance(node, For) and _is_written_out(node):
        yield node
        node = node.body
    yield node


def _may_run_together(sums: list[_Sum], other: _Sum) -> bool:
    """Tells whether a sum walks the same window and neither waits for another nor is waited for."""
    if sums[0].window != other.window:
        return False
    mine = facts(other.whole)
    return all(
        not (mine.writes & theirs.buffers or theirs.writes & mine.buffers)
        for theirs in (facts(one.whole) for one in sums)
    )


def _joined(sums: list[_Sum]) -> Iterator[Statement]:
    """The sums, those together that read the same."""
    groups: list[list[_Sum]] = []
    for one in sums:
        shared = [group for group in groups if any(one.reads & other.reads for other in group)]
        groups = [group for group in groups if group not in shared] + [[*chain.from_iterable(shared), one]]
    for group in groups:
        yield _one_walk(group) if len(group) > 1 else group[0].whole


def _one_walk(sums: list[_Sum]) -> Statement:
    first = sums[0]
    steps: list[Statement] = []
    for one in sums:
        step = one.body
        for mine, theirs in zip(first.loops, one.loops, strict=True):
            step = step if mine is theirs else Let(theirs.var, Var(mine.var), step)
        steps.append(step)
    walk_over: Statement = Block(tuple(steps))
    for loop in reversed(_rows_innermost(first)):
        walk_over = replace(loop, body=walk_over)
    parts = [*(part for one in sums for part in one.before), walk_over, *(part for one in sums for part in one.behind)]
    joined: Statement = Block(tuple(parts))
    for one in reversed(sums):
        joined = Allocate(one.buffer, joined)
    return joined


def _rows_innermost(one: _Sum) -> list[For]:
    """The loops of a window; innermost that along which rows of the tile are shifted."""
    inside = (s for s in statements(one.body) if isinstance(s, For))
    tile = {loop.var for loop in inside if loop.kind is LoopKind.UNROLL and known(loop.extent) != 1}
    shifted = [loop for loop in one.loops if any(loop.var in names and names & tile for names in _indices(one.body))]
    return [loop for loop in one.loops if loop not in shifted] + shifted


def _indices(node: Statement) -> Iterator[set[str]]:
    """The variables of each index that something is read at."""
    values: Iterator[Expr] = (value for part in statements(node) for value in expressions(part))
    for value in values:
        for part in walk(value):
            if isinstance(part, Read):
                yield from (set(variables(index)) for index in part.indices)
