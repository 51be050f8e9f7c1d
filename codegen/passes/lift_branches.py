"""Branches that do not depend on the unrolled and vector loops around them move outside.

    unroll u { vector l { if k == 0: S else: T } }
    ->  if k == 0: unroll u { vector l { S } } else: unroll u { vector l { T } }

Otherwise each copy of the body would branch: many small blocks, which cost compile time and keep instructions apart.
"""

from __future__ import annotations

from dataclasses import replace

from ...schedules.loops import WRITTEN_OUT
from ...tensor.expr import Read, variables, walk
from ..ir.loop_ir import For, If, LoopProgram, Statement, with_substatements


def lift_branches(program: LoopProgram) -> LoopProgram:
    """Hoists branches out of unrolled and vector loops; results stay the same, bit for bit."""
    return program.with_bodies(_lift)


def _lift(node: Statement) -> Statement:
    lifted = with_substatements(node, _lift)
    return _swapped(lifted) if isinstance(lifted, For) else lifted


def _swapped(loop: For) -> Statement:
    """A loop over a branch as a branch over loops, where the condition is the same for all trips."""
    branch = loop.body
    if loop.kind not in WRITTEN_OUT or not isinstance(branch, If):
        return loop
    if loop.var in variables(branch.condition) or any(isinstance(part, Read) for part in walk(branch.condition)):
        return loop  # a condition on memory may change from trip to trip
    otherwise = None if branch.otherwise is None else _swapped(replace(loop, body=branch.otherwise))
    return If(branch.condition, _swapped(replace(loop, body=branch.then)), otherwise)
