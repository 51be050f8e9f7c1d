"""What the emitter asks about a statement before it writes it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...tensor.expr import Expr, Read, Var, walk
from ...tensor.indices.affine import interval
from .index import Bounds
from .loop_ir import (
    Allocate,
    Barrier,
    Commit,
    For,
    If,
    Let,
    LoopKind,
    MatrixMove,
    MatrixMultiply,
    Prefetch,
    Scope,
    Shuffle,
    Statement,
    Store,
    Update,
    Wait,
    substatements,
)


@dataclass(frozen=True, slots=True)
class Facts:
    """Names inside a statement, its substatements included."""

    writes: frozenset[str]  # buffers stored or updated
    buffers: frozenset[str]  # buffers used in any way
    variables: frozenset[str]  # variables that occur in expressions


class FactsKept:
    """Facts of statements, collected once each: those of a statement are its own and those of its substatements.

    Statements are known by their identity: they have to live as long as this.
    """

    def __init__(self) -> None:
        self._facts: dict[int, Facts] = {}

    def of(self, statement: Statement) -> Facts:
        """The facts of one statement."""
        known = self._facts.get(id(statement))
        if known is None:
            parts = [_own(statement), *map(self.of, substatements(statement))]
            known = parts[0]
            if len(parts) > 1:
                known = Facts(
                    _EMPTY.union(*[part.writes for part in parts]),
                    _EMPTY.union(*[part.buffers for part in parts]),
                    _EMPTY.union(*[part.variables for part in parts]),
                )
            self._facts[id(statement)] = known
        return known


_EMPTY = frozenset[str]()


def facts(statement: Statement) -> Facts:
    """The facts of one statement."""
    return FactsKept().of(statement)


def _own(node: Statement) -> Facts:
    """The facts of a statement without its substatements."""
    writes: set[str] = set()
    buffers: set[str] = set()
    variables: set[str] = set()
    if isinstance(node, (Store, Update)):
        writes.add(node.buffer)
    if isinstance(node, (Store, Update, Prefetch)):
        buffers.add(node.buffer)
    elif isinstance(node, Shuffle):
        writes.add(node.buffer)
        buffers.add(node.source)
    elif isinstance(node, Barrier):
        writes |= node.buffers  # as far as this thread knows
    elif isinstance(node, MatrixMove) and node.stores:
        writes.add(node.memory.tensor)
    for expr in expressions(node):
        for part in walk(expr):
            if isinstance(part, Var):
                variables.add(part.name)
            elif isinstance(part, Read):
                buffers.add(part.tensor)
    return Facts(frozenset(writes), frozenset(buffers | writes), frozenset(variables))


def ranges(statement: Statement) -> Bounds:
    """The ranges of all variables of loops and names inside; of those that several have, what holds for each."""
    found: Bounds = {}

    def note(var: str, low: int, high: int) -> None:
        before = found.get(var, (low, high))
        found[var] = min(before[0], low), max(before[1], high)

    def collect(node: Statement) -> None:
        match node:
            case For(var=var, extent=extent):
                note(var, 0, max(interval(extent, found)[1] - 1, 0))
            case Let(var=var, value=value):
                note(var, *interval(value, found))
        for child in substatements(node):
            collect(child)

    collect(statement)
    return found


def expressions(statement: Statement) -> Iterator[Expr]:
    """The expressions of one statement, substatements not included."""
    match statement:
        case For(extent=extent, valid=valid, index=index):
            yield extent
            if valid is not None:
                yield valid
            if index is not None:
                yield index
        case Let(value=value):
            yield value
        case If(condition=condition):
            yield condition
        case Store(indices=indices, value=value) | Update(indices=indices, value=value):
            yield from indices
            yield value
        case Prefetch(indices=indices):
            yield from indices
        case MatrixMove(memory=memory):
            yield memory
        case MatrixMultiply(rows=rows, columns=columns):
            for reads in (*rows, *columns):
                yield from reads


def depends(expr: Expr, names: frozenset[str]) -> bool:
    """Says whether one of the variables occurs."""
    return any(isinstance(node, Var) and node.name in names for node in walk(expr))


def differs(expr: Expr, own: frozenset[str]) -> bool:
    """Says whether threads may disagree on a value, where `own` are variables that differ from thread to thread: what is read
    from memory counts as such."""
    return any(node.name in own if isinstance(node, Var) else isinstance(node, Read) for node in walk(expr))


def fits_lanes(loop: For) -> bool:
    """Says whether the trips of a VECTOR loop can run in lanes: all do the same, and none has memory of its own.

    Otherwise they run one after the other, which means the same.
    """

    def check(statement: Statement, names: frozenset[str]) -> bool:
        match statement:
            case For(var=var, extent=extent, kind=kind, body=body):
                if depends(extent, names) or kind is LoopKind.PARALLEL:
                    return False
                return check(body, names - {var})
            case Let(var=var, value=value, body=body):
                return check(body, names | {var} if depends(value, names) else names - {var})
            case Barrier() | Shuffle() | Commit() | Wait():
                return False
            case Allocate(buffer=buffer, body=body):
                return buffer.scope is Scope.REGISTER and check(body, names)
        return all(check(child, names) for child in substatements(statement))

    return check(loop.body, frozenset((loop.var,)))
