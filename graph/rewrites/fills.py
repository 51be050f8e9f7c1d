"""Fills: what reads nothing is written where it is read. What is left then depends on inputs, or on constants alone."""

from __future__ import annotations

from ...schedules.access import is_expensive
from ...schedules.inlining import Inlining
from ...schedules.rules.inline import grows
from ...tensor.program import Program
from ...tensor.stage_edits import needed_stages


def inlined_fills(program: Program) -> Program:
    """The program without pointwise stages that read no tensor: zeros and ranges, mostly; and without what only chose among
    their elements.

    As stages they would be neither constants nor computed at a call, and what reads one beside constants would wait for a
    call.
    """
    now = Inlining(program)
    for name in [stage.name for stage in program.stages]:
        stage = now.stage(name)
        fill = not stage.reads() and now.can_inline(stage) and not is_expensive(stage)
        if fill and not grows(now, stage, now.consumers(name)):
            now.inline(name)
    return needed_stages(now.program())
