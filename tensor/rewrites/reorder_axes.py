"""Values kept in another order: reorder_axes for what a stage makes, reorder_reads for what it reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from ..expr import Read
from ..program import Axis, Program, Stage, Tensor
from ..stage_edits import find_stage, free_name, map_reads, map_stage, refuse, with_stages
from .axes import join_dimensions


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


def reorder_reads(program: Program, stage: str, tensor: str, dimensions: Sequence[int], merge: bool = False) -> Program:
    """A stage reads a tensor from a copy, the new stage TENSOR_reordered, whose dimensions stand in another order.

    y = x[c, h]   ->   x_reordered[h, c] = x[c, h];  y = x_reordered[h, c]        dimensions = [1, 0]

    `merge`, of an input: dimensions that follow each other in both orders become one, for all who read it. Then the copy is the
    transpose of a matrix, however few points its last dimension has: filters of 3 x 3 are rows of 9.

    Errors: ProgramError where the stage does not read the tensor, `dimensions` are not its dimensions, each once, or one is to
    be merged that a stage makes.
    """
    old = find_stage(program, stage)
    shape = program.tensors[tensor].shape if tensor in program.tensors else ()
    if sorted(dimensions) != list(range(len(shape))) or not any(r.tensor == tensor for r in old.reads()):
        raise refuse(
            old, f"{tensor!r} cannot be read in this order", expected=f"a tensor that is read, its {len(shape)} dimensions",
            found=", ".join(map(str, dimensions)),
        )  # fmt: skip
    if merge and tensor in program.producers:
        raise refuse(
            old, f"dimensions of {tensor!r} cannot be merged", expected="an input", found="a tensor of a stage"
        )
    if merge:
        program, dimensions = _followers_merged(program, tensor, dimensions)
        old = find_stage(program, stage)
    source = program.tensors[tensor]
    shape = source.shape
    made = Tensor(free_name(program, f"{tensor}_reordered"), source.dtype, tuple(shape[n] for n in dimensions))
    axes = tuple(Axis(f"d{n}", shape[n]) for n in dimensions)
    by_dimension = sorted(axes, key=lambda axis: int(axis.name[1:]))
    copied = Stage((made,), axes, (Read(tensor, tuple(a.var for a in by_dimension), source.dtype),), origin=old.origin)

    def moved(read: Read) -> Read:
        if read.tensor != tensor:
            return read
        return Read(made.name, tuple(read.indices[n] for n in dimensions), read.dtype)

    changed = map_stage(old, lambda e: map_reads(e, moved))
    return with_stages(program, {old.name: (copied, changed)})


def _followers_merged(program: Program, tensor: str, dimensions: Sequence[int]) -> tuple[Program, list[int]]:
    """Joins the dimensions of an input that follow each other in `dimensions`, too; gives the order of what is left."""
    order = list(dimensions)
    for first in reversed(range(len(order) - 1)):
        if (first, first + 1) in pairwise(order):
            program = join_dimensions(program, program.stages, {tensor: first}, 2)
            order = [n - (n > first) for n in order if n != first + 1]
    return program, order
