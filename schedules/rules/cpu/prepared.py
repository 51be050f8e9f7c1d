"""The prepared rule: what is computed once, when a kernel is made (schedules/prepared.py), need not be quick.

Vectors keep its code short; a fold is left as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....tensor.program import Program, Stage
from ...access import output_stride
from ...prepared import constant_tensors
from ...schedule import Schedule
from ..rule import Decided, Rule


@dataclass(frozen=True, slots=True)
class Constant:
    """The constant tensors of the program that is left after inlining."""

    tensors: frozenset[str]


def _prepare(s: Schedule, decided: Decided) -> Decided:
    return decided.noting(Constant(constant_tensors(s.program)))


def _matches(program: Program, stage: Stage, decided: Decided) -> str | None:
    constant = decided.fact(Constant)
    return stage.name if constant is not None and stage.name in constant.tensors else None


def _apply(s: Schedule, root: str, anchor: str, decided: Decided) -> set[str]:
    handle = s.stage(root)
    stage = handle.definition
    if stage.fold is None:
        vectors = [loop for a, loop in zip(stage.axes, handle.loops, strict=False) if output_stride(stage, a.name) == 1]
        if vectors:
            s.vectorize(s.split(vectors[-1], s.lanes(stage.tensors[0].dtype))[1])
    return {root}


PREPARED = Rule("prepared", _prepare, _matches, _apply)
