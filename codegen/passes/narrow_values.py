"""What is stored or added up is computed in as few bits as it takes (tensor/rewrites/narrow_integers.py): vectors hold more."""

from __future__ import annotations

from dataclasses import replace

from ...tensor.rewrites.narrow_integers import narrow_integers
from ..ir.loop_ir import Allocate, Block, For, If, Let, LoopProgram, Statement, Store, Update


def narrow_values(program: LoopProgram) -> LoopProgram:
    """An equal program."""
    return program.with_bodies(_narrowed)


def _narrowed(node: Statement) -> Statement:
    match node:
        case Block(body=body):
            return Block(tuple(map(_narrowed, body)))
        case For(body=body) | Let(body=body) | Allocate(body=body):
            return replace(node, body=_narrowed(body))
        case If(then=then, otherwise=otherwise):
            return replace(node, then=_narrowed(then), otherwise=None if otherwise is None else _narrowed(otherwise))
        case Store(value=value) | Update(value=value):
            return replace(node, value=narrow_integers(value))
    return node
