"""Copies that pack rows, whose elements are turned in registers, a square at a time (codegen/passes/turn_copies.py)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...schedules.access import element_stride
from ...schedules.loops import LoopKind
from ...schedules.plan.squares import SIDE, WIDTHS
from ...tensor.expr import Read
from ...tensor.program import Program
from ..footprint import real
from ..levels import StageLevels
from .counts import InstructionCounts


def with_squares(program: Program, stage: StageLevels, counts: InstructionCounts) -> InstructionCounts:
    """The counts of a stage whose elements move one by one, as code moves them: by squares, if it is a copy that reads across
    what it writes. Rows that are fewer than a square is wide stay single; if they are no multiple, some are moved twice."""
    if not _reads_across(program, stage):
        return counts
    rows = real(stage.straight[0].extent)
    single = np.where(rows < SIDE, 1.0, 0.0)
    squares = (1.0 - single) * np.ceil(rows / SIDE) / rows  # of SIDE trips, of one of their elements
    return replace(
        counts,
        operations=counts.operations + np.log2(SIDE) * squares * counts.stores,
        loads=counts.loads * (single + (1.0 - single) / SIDE),
        broadcasts=counts.broadcasts * single,
        stores=counts.stores * (single + squares),
        apart=counts.apart * single,
    )


def _reads_across(program: Program, stage: StageLevels) -> bool:
    """Says whether a stage only copies, element by element of rows that are written out, what lies side by side along the loop
    around."""
    definition = stage.definition
    wide = definition.tensors[0].dtype.bits in WIDTHS
    if not stage.loops.tiled or not stage.body or len(stage.straight) != 1 or not wide:
        return False
    (rows,), along, read = stage.straight, stage.loops.loops[stage.body - 1], definition.bodies[0]
    if rows.kind is not LoopKind.UNROLL or along.kind is not LoopKind.SERIAL or not isinstance(read, Read):
        return False
    return rows.axis != along.axis and element_stride(program, read, along.axis) == 1
