"""Builders whose kernels are wrong: what a fault in the code generator makes of every candidate."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from contracts.measure_kernels import TrustingTimer
from tilesmith.codegen.emit.memory import Memory
from tilesmith.codegen.emit.types import Value, memory_type
from tilesmith.measure.checking import verify
from tilesmith.measure.process.builder import Builder, Built
from tilesmith.measure.process.worker import Link
from tilesmith.measure.result import Job, Measurement
from tilesmith.tensor.expr import Const, Var, call
from tilesmith.tensor.printing import print_program
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.parse import parse

ZEROS_BUILDER = f"{__name__}:ZerosBuilder"
BLOCK_BUILDER = f"{__name__}:BlockBuilder"
FEW_POINTS_TIMER = f"{__name__}:FewPointsTimer"
BLOCK = 4


class ZerosBuilder(Builder):
    """Every store of 16-bit floats writes 0."""

    def __init__(self, target: str | None = None) -> None:
        right = Memory._to_memory

        def zero(memory: Any, value: Value) -> str:
            text = right(memory, value)
            if value.dtype.is_float and value.dtype.bits == 16:
                return "zeroinitializer" if value.lanes else "0" if memory_type(value.dtype) == "i16" else "0xH0000"
            return text

        Memory._to_memory = zero  # type: ignore[method-assign]
        super().__init__(target)


class BlockBuilder(Builder):
    """All candidates leave zeros in a block of 4 x 4 elements in the middle of their output."""

    def handle(self, request: Job, link: Link) -> Built | Measurement:
        faulty = print_program(with_a_block_of_zeros(parse(request.program)))
        return super().handle(replace(request, program=faulty, sketch="", config={}), link)


class FewPointsTimer(TrustingTimer):
    """Checks trials at so few points that they miss such a block."""

    def __init__(self, **options: Any) -> None:
        verify.WHOLE_WORK, verify.POINTS = 0, 8
        super().__init__(**options)


def with_a_block_of_zeros(program: Program) -> Program:
    """The program with a last stage of two axes that gives zeros in the middle."""
    *others, last = program.stages
    inside = None
    for axis in last.axes:
        middle = axis.extent // 2
        within = (Var(axis.name) >= middle) & (Var(axis.name) < middle + BLOCK)
        inside = within if inside is None else inside & within
    assert inside is not None
    (body,) = last.bodies
    return program.replacing((*others, replace(last, bodies=(call("select", inside, Const(0.0, body.dtype), body),))))
