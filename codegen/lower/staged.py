"""Double buffering through registers: copies whose loads and stores stand apart, so that work between them hides the loads.

for k: thread i: sh[i] = a[i]     ->     thread i: held[] = a[i]        (all that this thread copies, on its way)
                                         ... the work of a trip ...
                                         thread i: sh[i] = held[]       (to the slot that the next trip reads)

Both are the copy's own loops, written out as often as they run at most: registers are indexed by what is known then.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ...tensor.dtype import DType
from ...tensor.expr import Expr, Read, Var
from ..ir.index import known, less, number
from ..ir.loop_ir import Block, Buffer, For, If, Let, LoopKind, Scope, Statement, Store
from .view import Names

MOST = 160  # elements that a thread holds on their way


@dataclass(frozen=True, slots=True)
class Staged:
    """The two halves of some copies, and the registers between them."""

    registers: tuple[Buffer, ...]
    loads: Statement
    stores: Statement


def staged(copies: Statement, dtypes: dict[str, DType], names: Names) -> Staged | None:
    """Copies in two halves. None where a thread holds too much for that, or what stands in them is no copy.

    dtypes: of the buffers that are stored to.
    """
    split = _LoadStoreSplit(dtypes, names)
    halves = split.halves(copies, ())
    if halves is None or sum(buffer.elements for buffer in split.registers) > MOST:
        return None
    return Staged(tuple(split.registers), *halves)


@dataclass
class _LoadStoreSplit:
    """Splits copies into loads and stores, one statement after another."""

    dtypes: dict[str, DType]
    names: Names
    registers: list[Buffer] = field(default_factory=list)
    spare: list[Buffer] = field(default_factory=list)  # registers that the other branch has

    def halves(self, node: Statement, around: tuple[For, ...]) -> tuple[Statement, Statement] | None:
        """(loads, stores). around: the loops that one thread runs."""
        match node:
            case Block(body=body):
                parts = [self.halves(child, around) for child in body]
                found = [part for part in parts if part is not None]
                if len(found) < len(parts):
                    return None
                return Block(tuple(load for load, _ in found)), Block(tuple(store for _, store in found))
            case For():
                return self._loop(node, around)
            case Let(body=inner):
                halves = self.halves(inner, around)
                return halves and (replace(node, body=halves[0]), replace(node, body=halves[1]))
            case If():
                return self._branch(node, around)
            case Store():
                return self._store(node, around)
        return None

    def _loop(self, node: For, around: tuple[For, ...]) -> tuple[Statement, Statement] | None:
        if node.kind is LoopKind.SERIAL:
            node = self._written_out(node)
        if node.kind is not LoopKind.THREAD:
            around = (*around, node)
        halves = self.halves(node.body, around)
        return halves and (replace(node, body=halves[0]), replace(node, body=halves[1]))

    def _branch(self, node: If, around: tuple[For, ...]) -> tuple[Statement, Statement] | None:
        """Both branches use the same registers, as far as they hold the same."""
        before = len(self.registers)
        then = self.halves(node.then, around)
        if then is None or node.otherwise is None:
            return then and (replace(node, then=then[0]), replace(node, then=then[1]))
        held, self.spare = self.spare, self.registers[before:]
        otherwise = self.halves(node.otherwise, around)
        self.spare = held
        return otherwise and (If(node.condition, then[0], otherwise[0]), If(node.condition, then[1], otherwise[1]))

    def _written_out(self, node: For) -> For:
        """All trips that a loop can have, each in a branch where there may be fewer."""
        if known(node.extent) is not None:
            return replace(node, kind=LoopKind.UNROLL, unroll=1)
        body = If(less(Var(node.var), node.extent), node.body)
        most = number(self.names.bounds[node.var][1] + 1)
        return replace(node, extent=most, body=body, kind=LoopKind.UNROLL, unroll=1)

    def _store(self, node: Store, around: tuple[For, ...]) -> tuple[Statement, Statement]:
        shape = tuple(known(loop.extent) or 1 for loop in around)
        dtype = self.dtypes[node.buffer]
        held = next((b for b in self.spare if b.dtype == dtype and b.shape == shape), None)
        if held is None:
            held = Buffer(self.names.fresh(f"{node.buffer}.held"), dtype, shape, Scope.REGISTER, padded=True)
            self.registers.append(held)
        else:
            self.spare.remove(held)
        element: tuple[Expr, ...] = tuple(Var(loop.var) for loop in around)
        load = Store(held.name, element, node.value)
        return load, replace(node, value=Read(held.name, element, dtype), ahead=True)
