"""Branches that ask the same, one right behind the other, are one.

    if r: S else: T        ->  if r: { S; U } else: { T; V }
    if r: U else: V

Stages that run for one block of their reader ask each for itself whether the block is whole. What one of them has loaded the
next one finds in its register, as long as no branch is between them.
"""

from __future__ import annotations

from ...tensor.expr import Read, walk
from ..ir.loop_ir import Block, If, LoopProgram, Statement, with_substatements


def join_branches(program: LoopProgram) -> LoopProgram:
    """Merges neighbouring branches on the same condition; results stay the same, bit for bit."""
    return program.with_bodies(_join)


def _join(node: Statement) -> Statement:
    node = with_substatements(node, _join)
    if not isinstance(node, Block):
        return node
    joined: list[Statement] = []
    for one in node.body:
        last = joined[-1] if joined else None
        if isinstance(last, If) and isinstance(one, If) and _ask_the_same(last, one):
            joined[-1] = _joined(last, one)
        else:
            joined.append(one)
    return joined[0] if len(joined) == 1 else Block(tuple(joined))


def _ask_the_same(one: If, other: If) -> bool:
    """Tells whether two branches go the same way, whatever the first one does: their condition reads no memory."""
    return one.condition == other.condition and not any(isinstance(part, Read) for part in walk(one.condition))


def _joined(one: If, other: If) -> If:
    arms = [arm for arm in (one.otherwise, other.otherwise) if arm is not None]
    return If(one.condition, _both(one.then, other.then), _both(*arms) if arms else None)


def _both(*arms: Statement) -> Statement:
    parts = [part for arm in arms for part in (arm.body if isinstance(arm, Block) else (arm,))]
    return parts[0] if len(parts) == 1 else Block(tuple(parts))
