"""Sums and products of narrow floats accumulate in a wider type and are rounded once, whatever the program.

    s[i] = sum[k](x[i, k])     ->     s_wide[i] = sum[k](f32(x[i, k]));  s[i] = bf16(s_wide[i])

It is the first step of the normal form, so that whoever schedules, lowers or counts a program meets ordinary sums of float32.
"""

from __future__ import annotations

from dataclasses import replace

from ..dtype import accumulator
from ..program import Program, Stage, Tensor
from ..stage_edits import free_name, result_of, with_stages

_ACCUMULATES = ("sum", "prod")  # a maximum is one of its elements: it rounds nothing


def wide_sums(program: Program) -> Program:
    """The program with every narrow sum and product as two stages: one that accumulates, one that rounds."""
    narrow = [s for s in program.stages if s.combiner in _ACCUMULATES and _widens(s.tensors[0])]
    return with_stages(program, {stage.name: _apart(program, stage) for stage in narrow}) if narrow else program


def _widens(tensor: Tensor) -> bool:
    return accumulator(tensor.dtype) != tensor.dtype


def _apart(program: Program, stage: Stage) -> tuple[Stage, Stage]:
    (narrow,), (body,) = stage.tensors, stage.bodies
    kind = accumulator(narrow.dtype)
    wide = Tensor(free_name(program, f"{narrow.name}_wide"), kind, narrow.shape)
    total = replace(stage, tensors=(wide,), bodies=(body.cast(kind),))
    rounded = result_of(total).cast(narrow.dtype)
    return total, replace(stage, bodies=(rounded,), reduction=(), combiner=None)
