"""The least work that a program needs: operations and bytes. With ceilings: how good a measured time is.

The count is the roofline's (Williams, Waterman, Patterson: "Roofline", 2009): every operation of the program as it is
written, but for points that its conditions on axes leave out (schedules/useful.py), and each input read once and each output
written once. What a stage writes twice, as `(a - b) * (a - b)` does the difference, no kernel computes twice: it counts once.
So a speed in these units says nothing about how a kernel does its work, and two kernels of one program compare by it.

An input of which data say what is read counts with as many elements as indices that are uniform in their range meet, as
those of trials are (tensor/indices/ranges.py); real ones that repeat more may be faster than this.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, expm1, log1p, prod

from ..schedules.operations import stage_operations
from ..schedules.useful import useful
from ..targets.ceilings import Ceilings
from ..tensor.expr import Local, Read, variables, walk
from ..tensor.program import Program, Tensor


@dataclass(frozen=True, slots=True)
class Work:
    """Operations (a multiply and an add are two) by dtype name, or by that of narrow products (`products_of`); bytes that must
    move, and how many of them are written."""

    operations: tuple[tuple[str, int], ...]
    bytes: int
    written: int = 0

    @property
    def flops(self) -> int:
        """Counts the operations of all dtypes."""
        return sum(count for _, count in self.operations)

    def least_seconds(self, ceilings: Ceilings) -> float:
        """The time that no kernel can beat: arithmetic at its ceiling, that of a matrix unit where it is higher, or memory at
        its own, whichever takes longer."""
        arithmetic = sum(count / ceilings.highest(dtype) for dtype, count in self.operations)
        return max(arithmetic, self.memory_seconds(ceilings))

    def is_bound_by_memory(self, ceilings: Ceilings) -> bool:
        """Says whether moving the bytes takes longer than computing."""
        return self.memory_seconds(ceilings) >= self.arithmetic_seconds(ceilings)

    def speed(self, seconds: float, ceilings: Ceilings) -> Speed:
        """Returns what a measured time means, in the unit of what bounds the program.

        Arithmetic in float32 counts against that of vectors everywhere, so that machines and builds compare: a kernel on a
        matrix unit may be at more than 1. That of narrow elements counts against the instruction that does most of it.
        """
        arithmetic, memory = self.arithmetic_seconds(ceilings), self.memory_seconds(ceilings)
        if memory >= arithmetic:
            return Speed(self.bytes / seconds / 1e9, "GB/s", memory / seconds)
        beyond = any(ceilings.highest(dtype) > ceilings.roof(dtype) for dtype, _ in self.operations)
        share = arithmetic / seconds
        return Speed(self.flops / seconds / 1e9, "GFLOP/s", share, "the FMA peak" if beyond else "the ceiling")

    def arithmetic_seconds(self, ceilings: Ceilings) -> float:
        """The least time for the operations alone, at the speed of `Ceilings.roof`."""
        return sum(count / ceilings.roof(dtype) for dtype, count in self.operations)

    def memory_seconds(self, ceilings: Ceilings) -> float:
        """The least time for moving the bytes alone."""
        return self.bytes / ceilings.speed_of_use(self.bytes, self.written)


@dataclass(frozen=True, slots=True)
class Speed:
    """`value` in `unit` ("GFLOP/s" or "GB/s"), and the share of the ceiling: 1.0 is the ceiling itself.

    `of`: the ceiling in words: where a matrix unit may go beyond it, it says that it is the peak of fused multiply-adds.
    """

    value: float
    unit: str
    share: float
    of: str = "the ceiling"

    def __str__(self) -> str:
        return f"{self.value:.1f} {self.unit}" if self.value < 1000 else f"{self.value:.0f} {self.unit}"


def program_work(program: Program) -> Work:
    """The least work of a program."""
    operations: dict[str, int] = {}
    bounds = useful(program)
    for stage in program.stages:
        for name, count in stage_operations(stage, bounds.get(stage.name, ())).items():
            operations[name] = operations.get(name, 0) + count
    read = {read.tensor for stage in program.stages for read in stage.reads()}
    moved = [i.tensor for i in program.inputs if i.tensor.name in read]
    made = [program.tensors[name] for name in program.outputs]
    taken = sum(elements_read(program, tensor) * tensor.dtype.bytes for tensor in moved)
    written = sum(prod(t.shape) * t.dtype.bytes for t in made)
    return Work(tuple(operations.items()), taken + written, written)


def elements_read(program: Program, tensor: Tensor) -> int:
    """Says how many elements of an input a program reads: all, but where data say which ones."""
    whole, total = prod(tensor.shape), 0.0
    for stage in program.stages:
        extents = {axis.name: axis.extent for axis in stage.all_axes}
        for read in (r for r in stage.reads() if r.tensor == tensor.name):
            given = [any(isinstance(node, Read | Local) for node in walk(index)) for index in read.indices]
            if not any(given):
                return whole
            plain = {n for index, data in zip(read.indices, given, strict=True) if not data for n in variables(index)}
            moving = {n for index, data in zip(read.indices, given, strict=True) if data for n in variables(index)}
            cells = prod(size for size, data in zip(tensor.shape, given, strict=True) if data)
            rows = prod(size for size, data in zip(tensor.shape, given, strict=True) if not data)
            total += rows * different(prod(extents[n] for n in moving - plain), cells)
    return min(whole, ceil(total))


def different(draws: int, cells: int) -> float:
    """Says how many different ones of `cells` are met on average by as many uniform draws."""
    return cells * -expm1(draws * log1p(-1 / cells)) if cells > 1 else 1.0
