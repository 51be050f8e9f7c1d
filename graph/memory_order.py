"""Inputs that lie in memory in another order of their dimensions than the program reads them: read where they lie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..tensor.program import Axis, Input, Program, Stage, Tensor
from ..tensor.stage_edits import free_name

MemoryOrder = tuple[int, ...]  # of each dimension in memory, outermost first, which one it is


def with_inputs_as_they_lie(program: Program, orders: Mapping[str, MemoryOrder]) -> Program:
    """The program whose inputs of these names have the dimensions that lie in memory, in their order.

    What they were is a stage that only gives the elements other places; it is written where it is read.
    """
    inputs: list[Input] = []
    views: list[Stage] = []
    for one in program.inputs:
        order = orders.get(one.tensor.name)
        if order is None:
            inputs.append(one)
            continue
        name = free_name(program, f"{one.tensor.name}_memory")
        lying = Tensor(name, one.tensor.dtype, tuple(one.tensor.shape[dimension] for dimension in order))
        axes = tuple(Axis(f"i{number}", extent) for number, extent in enumerate(one.tensor.shape))
        read = lying[tuple(axes[dimension].var for dimension in order)]
        inputs.append(replace(one, tensor=lying))
        views.append(Stage((one.tensor,), axes, (read,)))
    return replace(program, inputs=tuple(inputs), stages=(*views, *program.stages)) if views else program


def order_of(shape: tuple[int, ...], strides: tuple[int, ...]) -> MemoryOrder | None:
    """The order in which dimensions of these strides (in elements) lie, if elements lie side by side, but in another order than
    that of the dimensions; else None."""
    order = tuple(sorted(range(len(shape)), key=lambda d: (-strides[d], d) if shape[d] > 1 else (0, d)))
    place = 1
    for dimension in reversed(order):
        if shape[dimension] > 1 and strides[dimension] != place:
            return None
        place *= shape[dimension]
    stepped = [dimension for dimension in order if shape[dimension] > 1]
    return order if place and stepped != sorted(stepped) else None
