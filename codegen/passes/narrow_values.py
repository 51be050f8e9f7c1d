"""What is stored or added up is computed in as few bits as it takes (tensor/rewrites/narrow_integers.py): vectors hold more."""

from __future__ import annotations

from dataclasses import replace

from ...tensor.rewrites.narrow_integers import narrow_integers
from ..ir.loop_ir import LoopProgram, Statement, Store, Update, with_substatements


def narrow_values(program: LoopProgram) -> LoopProgram:
    """Computes in fewer bits what is cut to fewer; results stay the same, bit for bit."""
    return program.with_bodies(_narrowed)


def _narrowed(node: Statement) -> Statement:
    if isinstance(node, (Store, Update)):
        return replace(node, value=narrow_integers(node.value))
    return with_substatements(node, _narrowed)
