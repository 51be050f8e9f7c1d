"""What follows terms that are seldom asked for is written twice: for where they are asked for, and for where they are not.

    acc = 0;  if some: { acc += terms }               if some: acc = 0;  acc += terms;  kept = acc;  rest
    kept = acc                               ->       else:    acc = 0;  kept = acc;  rest
    rest

In the second copy `kept` is a constant, and what chooses by the same condition between it and something else takes the other:
nobody has asked. Otherwise ordinary data, which never ask (lower/exceptional.py), pay for the registers of both: 3 us of the 24
of the nest that ends a convolution.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...schedules.loops import WRITTEN_OUT, LoopKind
from ...tensor.expr import Expr, Op, Read, Var, children, substitute, with_children
from ...tensor.indices.affine import simplify
from ..ir.index import known
from ..ir.loop_ir import (
    Allocate,
    Block,
    For,
    If,
    LoopProgram,
    Scope,
    Statement,
    Store,
    Update,
    statements,
    with_substatements,
)


def split_exceptional(program: LoopProgram) -> LoopProgram:
    """Writes the rest of a nest once for either answer; results stay the same, bit for bit."""
    return program.with_bodies(_in_nest)


def _in_nest(body: Statement) -> Statement:
    made = (one.buffer for one in statements(body) if isinstance(one, Allocate))
    return _apart(body, frozenset(buffer.name for buffer in made if buffer.scope is Scope.REGISTER))


def _apart(node: Statement, registers: frozenset[str]) -> Statement:
    apart = with_substatements(node, lambda child: _apart(child, registers))
    return _split(apart.body, registers) if isinstance(apart, Block) else apart


def _split(body: tuple[Statement, ...], registers: frozenset[str]) -> Block:
    """A block, in two copies from its first sum of such terms on."""
    for place, child in enumerate(body):
        rest = body[place + 1 :]
        match child:
            case Allocate(sums, Block((start, Allocate(some, Block((*tests, If(Read(asked), terms, None)))), finish))):
                if asked != some.name or not rest or not _writes(finish, registers) or not all(map(_is_short, rest)):
                    continue
                then = Block((Allocate(sums, Block((start, terms, finish))), *rest))
                spared = (_spared(one, _false_of(tests)) for one in rest)
                otherwise = Block((Allocate(sums, Block((start, finish))), *spared))
                branch = If(Read(some.name, (), some.dtype), then, otherwise)
                return Block((*body[:place], Allocate(some, Block((*tests, branch)))))
    return Block(body)


def _writes(statement: Statement, registers: frozenset[str]) -> bool:
    """Says whether all that it writes are registers."""
    return all(one.buffer in registers for one in statements(statement) if isinstance(one, Store))


def _is_short(statement: Statement) -> bool:
    """Says whether it is code without loops, as the end of a register tile is."""
    return all(one.kind in WRITTEN_OUT for one in statements(statement) if isinstance(one, For))


# What is known where nobody asks

Trip = tuple[int, LoopKind, Expr | None]  # of a loop: its extent, its kind, which of its trips are real


@dataclass(frozen=True, slots=True)
class _Never:
    """A condition that holds in no trip of some loops, whose variables are numbered."""

    loops: tuple[Trip, ...]
    condition: Expr


def _false_of(tests: Sequence[Statement]) -> tuple[_Never, ...]:
    """Returns what did not hold: each test is a maximum over loops."""
    found = []
    for test in tests:
        loops, inner = _around(test)
        if isinstance(inner, Update) and inner.combiner == "max":
            found.append(_Never(_trips(loops), _numbered(inner.value, loops)))
    return tuple(found)


def _spared(statement: Statement, never: tuple[_Never, ...]) -> Statement:
    """A statement where these conditions never hold."""
    loops, inner = _around(statement)
    if not isinstance(inner, Store):
        return statement
    false = [one.condition for one in never if one.loops == _trips(loops)]
    result: Statement = replace(inner, value=_chosen(inner.value, loops, false))
    for loop in reversed(loops):
        result = replace(loop, body=result)
    return result


def _chosen(value: Expr, loops: list[For], false: list[Expr]) -> Expr:
    """A value without choices that are settled."""
    if isinstance(value, Op) and value.name == "select":
        asked = _numbered(Op("not", (value.args[0],), value.args[0].dtype), loops)
        if asked in false:
            return _chosen(value.args[1], loops, false)
    return with_children(value, tuple(_chosen(child, loops, false) for child in children(value)))


def _around(statement: Statement) -> tuple[list[For], Statement]:
    """The loops around a statement that are written out, and what they do."""
    loops: list[For] = []
    while isinstance(statement, For) and statement.kind in WRITTEN_OUT:
        loops.append(statement)
        statement = statement.body
    return loops, statement


def _trips(loops: list[For]) -> tuple[Trip, ...]:
    return tuple((int(known(loop.extent) or 0), loop.kind, loop.valid) for loop in loops)


def _numbered(value: Expr, loops: list[For]) -> Expr:
    """An expression in normal form, the variables of loops by their places."""
    return simplify(substitute(value, {loop.var: Var(f"loop{place}") for place, loop in enumerate(loops)}))
