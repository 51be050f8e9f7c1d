"""reorder_axes: a stage keeps its values in another order; who reads them reads them there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .expr import Read
from .program import Program, Stage, Tensor
from .surgery import find_stage, free_name, map_reads, map_stage, refuse


def reorder_axes(program: Program, stage: str, axes: Sequence[str]) -> Program:
    """The spatial axes of a stage of one tensor stand in the order `axes`, and so do the dimensions of its tensor.

    y[o, p] = sum[c](...)   ->   y_reordered[p, o] = sum[c](...);  y[o, p] = y_reordered[p, o]

    An output keeps its order: a last stage copies it. Errors: ProgramError where `axes` are not the spatial axes of the stage,
    each once, or for a fold.
    """
    old = find_stage(program, stage)
    names = [axis.name for axis in old.axes]
    if sorted(names) != sorted(axes) or old.fold is not None or len(old.tensors) != 1:
        raise refuse(
            old, "the axes cannot be put in this order", expected=f"each of {', '.join(names)} once, of one tensor",
            found=", ".join(axes),
        )  # fmt: skip
    order = [names.index(axis) for axis in axes]
    tensor = old.tensors[0]
    made = Tensor(free_name(program, f"{tensor.name}_reordered"), tensor.dtype, tuple(tensor.shape[n] for n in order))
    first = replace(old, tensors=(made,), axes=tuple(old.axes[n] for n in order))

    def moved(read: Read) -> Read:
        if read.tensor != tensor.name:
            return read
        return Read(made.name, tuple(read.indices[n] for n in order), read.dtype)

    stages: list[Stage] = []
    for item in program.stages:
        if item is not old:
            stages.append(map_stage(item, lambda e: map_reads(e, moved)))
            continue
        stages.append(first)
        if tensor.name in program.outputs:
            copied = Read(made.name, tuple(axis.var for axis in first.axes), tensor.dtype)
            stages.append(Stage((tensor,), old.axes, (copied,), origin=old.origin))
    return program.replacing(tuple(stages))
