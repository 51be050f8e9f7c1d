"""Sketches for any program, derived by rules. All rules in their order: rules/cpu/table.py and rules/gpu/table.py.

No rule reads an operator's name, its origin or a fixed number of stages: they look at how accesses move with the axes
(access.py). How a list of rules schedules a program stands in rules/rule.py.
"""

from __future__ import annotations

from functools import partial

from ..targets.matrix_instructions import MatrixInstruction
from ..tensor.accuracy import Accuracy
from ..tensor.program import Program
from .rules.cpu.table import CPU
from .rules.gpu.table import GPU
from .rules.rule import Decided
from .schedule import Schedule, trace
from .sketch import UNSCHEDULED, Sketch

RULES = {"cuda": GPU}  # by the kind of a target; any other one is a processor
MOST = 96  # sketches: each variant of several large stages is tried, and not every combination of all of them
FEWEST = 8  # sketches of a program of many stages, each of which is walked in each sketch
WALKED = 6144  # stages of all sketches together


def derive(
    program: Program,
    kind: str = "",
    instructions: tuple[MatrixInstruction, ...] = (),
    accuracy: Accuracy = "default",
) -> tuple[Sketch, ...]:
    """Returns the sketches of a program in canonical, normalised form; the unscheduled nest comes first.

    `kind`: of the target, which says whose rules these are. `instructions`: those of it that multiply matrices.
    `accuracy`: what they may do to the arithmetic.
    """
    template = partial(automatic, instructions=instructions, kind=kind)
    most = min(MOST, max(FEWEST, WALKED // len(program.stages)))
    return (UNSCHEDULED, *trace(template, program, "auto", most, accuracy))


def automatic(s: Schedule, instructions: tuple[MatrixInstruction, ...] = (), fast: bool = True, kind: str = "") -> None:
    """The template behind `derive`. `fast`: whether convolutions may be done with fewer products."""
    RULES.get(kind, CPU).run(s, Decided(instructions=instructions, fast=fast))
