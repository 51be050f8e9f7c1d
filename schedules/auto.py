"""Sketches for any program, derived by rules. All rules in their order: rules/cpu/table.py and rules/gpu/table.py.

No rule reads an operator's name, its origin or a fixed number of stages: they look at how accesses move with the axes
(access.py). How a list of rules schedules a program stands in rules/rule.py.
"""

from __future__ import annotations

from functools import partial

from ..targets.matrix_instructions import MatrixInstruction
from ..targets.target import Target
from ..tensor.accuracy import Accuracy
from ..tensor.program import Program
from .rules.cpu.table import CPU
from .rules.gpu.table import GPU
from .rules.rule import Decided, Rules
from .schedule import Schedule, Template, trace
from .sketch import UNSCHEDULED, Sketch

RULES = {"processor": CPU, "gpu": GPU}  # by the name that a backend has for its own
MOST = 96  # sketches: each variant of several large stages is tried, and not every combination of all of them
FEWEST = 8  # sketches of a program of many stages, each of which is walked in each sketch
WALKED = 1536  # stages of all sketches together


def derive(program: Program, target: Target | None = None, accuracy: Accuracy = "default") -> tuple[Sketch, ...]:
    """Returns the sketches of a program in canonical, normalised form; the unscheduled nest comes first.

    `target`: whose backend says which rules these are; by default a processor that multiplies no matrices.
    `accuracy`: what they may do to the arithmetic.
    """
    template: Template = automatic
    gpu = None
    if target is not None:
        rules = RULES[target.backend.rules]
        template = partial(automatic, instructions=target.matrix_instructions, rules=rules)
        gpu = target.isa.gpu
    most = min(MOST, max(FEWEST, WALKED // len(program.stages)))
    return (UNSCHEDULED, *trace(template, program, "auto", most, accuracy, gpu))


def automatic(
    s: Schedule, instructions: tuple[MatrixInstruction, ...] = (), fast: bool = True, rules: Rules = CPU
) -> None:
    """The template behind `derive`. `fast`: whether convolutions may be done with fewer products."""
    rules.run(s, Decided(instructions=instructions, fast=fast))
