"""Barriers: where threads of a block read what others wrote, or overwrite what others may still read, all of them meet first.

    thread i: sh[i] = a[i]                thread i: sh[i] = a[i]
    thread i: b[i] = sh[15 - i]     ->    barrier sh
                                          thread i: b[i] = sh[15 - i]

The walk follows the code in order and keeps which buffers were written and read since the last barrier. Where a statement
meets what is on the way, a barrier goes in front of it. The trips of a loop follow each other: what is on the way at the end
of one is so at the start of the next. Inside of what only some threads run there can be no barrier.

A store to a slot of a pipeline that the next trip reads needs no barrier in its own trip: others read another slot there.
Writes that follow each other need none: the same loops, and so the same threads, make a tensor's points each time.
Buffers: SHARED ones, and outputs and workspace of which a nest reads what it wrote.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...tensor.expr import Const, Read, walk
from ..ir.facts import differs, expressions
from ..ir.loop_ir import (
    THREAD_INDEX,
    Allocate,
    Barrier,
    Block,
    For,
    If,
    Let,
    LoopProgram,
    Nest,
    Scope,
    Statement,
    Store,
    Update,
    Wait,
    statements,
)

NONE: frozenset[str] = frozenset()


def barriers(program: LoopProgram) -> LoopProgram:
    """The same program with the barriers that it needs."""

    def done(nests: tuple[Nest, ...]) -> tuple[Nest, ...]:
        return tuple(replace(nest, body=_placed(nest, program)) if nest.threads > 1 else nest for nest in nests)

    return replace(program, prepare=done(program.prepare), nests=done(program.nests))


def _placed(nest: Nest, program: LoopProgram) -> Statement:
    shared = {
        s.buffer.name for s in statements(nest.body) if isinstance(s, Allocate) and s.buffer.scope is Scope.SHARED
    }
    used = _uses(nest.body, None)
    seen_by_all = {b.name for b in (*program.arguments, *program.globals)}
    watched = frozenset(shared | (seen_by_all & used.reads & used.writes))
    if not watched:
        return nest.body
    body, _ = _Walk(watched).statement(nest.body, Pending(), frozenset((THREAD_INDEX.name,)))
    return body


@dataclass(frozen=True, slots=True)
class Pending:
    """Holds what was read and written since the last barrier."""

    reads: frozenset[str] = NONE
    writes: frozenset[str] = NONE
    flying: frozenset[str] = NONE  # asynchronous stores that nobody has waited for
    ahead: frozenset[str] = NONE  # stores that nobody meets before the next trip

    def meets(self, other: Pending) -> frozenset[str]:
        """The buffers for which a barrier is needed before what `other` does."""
        return (self.writes & other.reads) | (self.reads & (other.writes | other.flying))

    def then(self, other: Pending) -> Pending:
        """Returns what is pending after another part of the code as well."""
        return Pending(
            self.reads | other.reads, self.writes | other.writes, self.flying | other.flying, self.ahead | other.ahead
        )

    def met(self) -> Pending:
        """Returns what is pending behind a barrier."""
        return Pending(flying=self.flying)

    def landed(self) -> Pending:
        """Returns what is pending behind a wait: what a thread has waited for it has written."""
        return Pending(self.reads, self.writes | self.flying, ahead=self.ahead)

    def turned(self) -> Pending:
        """Returns what is pending at the end of a trip: what was stored for the next one is read now."""
        return Pending(self.reads, self.writes | self.ahead, self.flying)


def _uses(statement: Statement, watched: frozenset[str] | None) -> Pending:
    """Returns what a statement, substatements included, reads and writes of the watched buffers."""
    reads: set[str] = set()
    writes: set[str] = set()
    flying: set[str] = set()
    ahead: set[str] = set()
    for node in statements(statement):
        if isinstance(node, Store):
            (flying if node.later else ahead if node.ahead else writes).add(node.buffer)
        elif isinstance(node, Update):
            writes.add(node.buffer)
        for expr in expressions(node):
            reads |= {part.tensor for part in walk(expr) if isinstance(part, Read)}
    if watched is None:
        return Pending(frozenset(reads), frozenset(writes))
    return Pending(*(frozenset(names) & watched for names in (reads, writes, flying, ahead)))


class _Walk:
    """Puts barriers into one nest."""

    def __init__(self, watched: frozenset[str]) -> None:
        self.watched = watched

    def statement(self, node: Statement, before: Pending, own: frozenset[str]) -> tuple[Statement, Pending]:
        """The statement with its barriers, and what is on the way behind it. `own`: variables that differ from thread to
        thread."""
        match node:
            case Block(body=body):
                made = []
                for child in body:
                    changed, before = self.statement(child, before, own)
                    made.append(changed)
                return Block(tuple(made)), before
            case Allocate(body=inner):
                changed, after = self.statement(inner, before, own)
                return replace(node, body=changed), after
            case Let(var=var, value=value, body=inner):
                changed, after = self.statement(inner, before, own | {var} if differs(value, own) else own)
                return replace(node, body=changed), after
            case For() if node.index is not None:
                changed, after = self.statement(
                    node.body, before, own | {node.var} if differs(node.index, own) else own
                )
                return replace(node, body=changed), after
            case For(extent=Const(value=1)):
                changed, after = self.statement(node.body, before, own)
                return replace(node, body=changed), after
            case For() if not differs(node.extent, own):
                return self._loop(node, before, own)
            case If() if not differs(node.condition, own):
                return self._branch(node, before, own)
            case Wait():
                return node, before.landed()
        return self._atom(node, before)

    def _atom(self, node: Statement, before: Pending) -> tuple[Statement, Pending]:
        """Handles what holds no barrier."""
        uses = _uses(node, self.watched)
        for_whom = before.meets(uses)
        if for_whom:
            return Block((Barrier(for_whom), node)), before.met().then(uses)
        return node, before.then(uses)

    def _loop(self, node: For, before: Pending, own: frozenset[str]) -> tuple[Statement, Pending]:
        uses = _uses(node, self.watched)
        if uses == Pending() and not any(isinstance(s, Wait) for s in statements(node.body)):
            return node, before
        _, once = self._trip(node, Pending(), own)
        again, _ = self._trip(node, once, own)
        first = _first_barrier(again)
        if first is None:  # nothing inside: the loop is one thing
            return self._atom(node, before)
        for_whom = before.meets(uses)
        lead: tuple[Statement, ...] = ()
        if for_whom and _barriers(self._trip(node, before.then(once), own)[0]) > _barriers(again):
            lead, before = (Barrier(for_whom),), before.met()
        body, after = self._trip(node, before.then(once), own)
        for _ in range(4):  # until what is on the way at the end of a trip is what it was taken to be
            body, settled = self._trip(node, before.then(after), own)
            if settled == after:
                break
            after = settled
        loop: Statement = replace(node, body=body)
        runs = isinstance(node.extent, Const) and node.extent.value > 0
        return (Block((*lead, loop)) if lead else loop), after if runs else before.then(after)

    def _trip(self, node: For, before: Pending, own: frozenset[str]) -> tuple[Statement, Pending]:
        """The body of a loop, and what is on the way where its next trip begins."""
        body, after = self.statement(node.body, before, own)
        return body, after.turned()

    def _branch(self, node: If, before: Pending, own: frozenset[str]) -> tuple[Statement, Pending]:
        for_whom = before.meets(_uses(node, self.watched))
        if for_whom:
            changed, after = self._branch(node, before.met(), own)
            return Block((Barrier(for_whom), changed)), after
        then, after = self.statement(node.then, before, own)
        if node.otherwise is None:
            return replace(node, then=then), before.then(after)
        otherwise, other = self.statement(node.otherwise, before, own)
        return replace(node, then=then, otherwise=otherwise), after.then(other)


def _first_barrier(node: Statement) -> Barrier | None:
    return next((s for s in statements(node) if isinstance(s, Barrier)), None)


def _barriers(node: Statement) -> int:
    return sum(isinstance(s, Barrier) for s in statements(node))
