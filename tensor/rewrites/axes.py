"""Rewrites of axes: merge_axes, pad_axis, split_k."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from ..dtype import i64
from ..expr import Const, Expr, Op, Read, binary, call, substitute, variables, walk
from ..indices.affine import simplify
from ..program import Axis, Input, Program, Stage, Table, Tensor
from ..stage_edits import (
    find_axis,
    find_stage,
    free_axis_name,
    free_name,
    identity_of,
    map_reads,
    map_stage,
    refuse,
    simplified,
    with_stages,
)


def merge_axes(program: Program, stage: str, axes: Sequence[str]) -> Program:
    """Neighbouring axes of one stage become one, called as they are, joined by `_`.

    Spatial axes: the tensor loses these dimensions, and who reads it is adapted; an output is the same memory with fewer
    dimensions. Inputs and tables are flattened where all their reads then become plain. Other reads get // and %.

    Args:
        stage: a tensor of the stage.
        axes: two or more axes that stand next to each other, all spatial or all of the reduction.

    Errors: ProgramError if they do not, or a tensor of a fold keeps only some of them.
    """
    old = find_stage(program, stage)
    merged = tuple(find_axis(old, name) for name in axes)
    spatial = merged[0] in old.axes
    if spatial and any(old.axes_of(n) != old.axes[: len(old.axes_of(n))] for n in range(len(old.tensors))):
        raise refuse(
            old, "a tensor of the fold has its axes in another order", advice="merge the axes of a fold without one"
        )
    place = _place_of(old, merged)
    whole = Axis(free_axis_name(old, "_".join(axes)), prod(axis.extent for axis in merged))
    values: dict[str, Expr] = {}
    inner = whole.extent
    for number, axis in enumerate(merged):
        inner //= axis.extent
        index: Expr = Op("floordiv", (whole.var, Const(inner, i64)), i64)
        values[axis.name] = Op("mod", (index, Const(axis.extent, i64)), i64) if number else index
    names = [axis.name for axis in merged]
    group = old.axes if spatial else old.reduction
    changed_axes = (*group[:place], whole, *group[place + len(merged) :])
    new = map_stage(old, lambda expr: substitute(expr, values))
    new = replace(new, axes=changed_axes) if spatial else replace(new, reduction=changed_axes)
    shapes: dict[str, int] = {}  # tensor -> the first merged dimension
    if spatial:
        for number, tensor in enumerate(old.tensors):
            if len(old.axes_of(number)) > place:
                shapes[tensor.name] = place
        if new.fold is not None:
            kept = tuple(_merged_names(own, names, whole.name) for own in new.fold.tensor_axes)
            new = replace(new, fold=replace(new.fold, tensor_axes=kept))
    stages = tuple(new if s is old else s for s in program.stages)
    return _flatten_inputs(join_dimensions(program, stages, shapes, len(merged)), whole.name)


def _place_of(stage: Stage, merged: tuple[Axis, ...]) -> int:
    """Says where the axes start among the spatial or the reduction axes."""
    for group in (stage.axes, () if stage.fold else stage.reduction):
        for place in range(len(group) - len(merged) + 1):
            if group[place : place + len(merged)] == merged and len(merged) > 1:
                for number in range(len(stage.tensors)):
                    rank = len(stage.axes_of(number))
                    if group is stage.axes and place < rank < place + len(merged):
                        raise refuse(stage, f"{stage.tensors[number].name} of the fold keeps only some of the axes")
                return place
    raise refuse(
        stage,
        "these axes cannot be merged",
        expected="two or more neighbours, all spatial or all of one reduction",
        found=", ".join(axis.name for axis in merged),
    )


def _merged_names(own: tuple[str, ...], names: list[str], whole: str) -> tuple[str, ...]:
    return tuple(whole if name == names[0] else name for name in own if name not in names[1:])


def join_dimensions(program: Program, stages: tuple[Stage, ...], places: Mapping[str, int], count: int) -> Program:
    """The program with `count` dimensions of some tensors joined into one, starting at `places`."""

    def tensor_of(tensor: Tensor) -> Tensor:
        if tensor.name not in places:
            return tensor
        at, shape = places[tensor.name], tensor.shape
        return replace(tensor, shape=(*shape[:at], prod(shape[at : at + count]), *shape[at + count :]))

    def joined(read: Read) -> Expr:
        if read.tensor not in places:
            return read
        at, shape = places[read.tensor], program.tensors[read.tensor].shape
        total = read.indices[at]
        for size, index in zip(shape[at + 1 : at + count], read.indices[at + 1 : at + count], strict=True):
            total = total * size + index
        return Read(read.tensor, (*read.indices[:at], total, *read.indices[at + count :]), read.dtype)

    changed = tuple(
        simplified(replace(map_stage(s, lambda e: map_reads(e, joined)), tensors=tuple(map(tensor_of, s.tensors))))
        for s in stages
    )
    return Program(
        tuple(Input(tensor_of(item.tensor), item.constant) for item in program.inputs),
        changed,
        program.outputs,
        tuple(Table(tensor_of(table.tensor), table.values) for table in program.tables),
    )


def _flatten_inputs(program: Program, axis: str) -> Program:
    """Joins neighbouring dimensions of inputs that are only indexed by `axis` and lose a // or % by it."""
    declared = [item.tensor for item in program.inputs] + [table.tensor for table in program.tables]
    for tensor in declared:
        for dimension in range(len(tensor.shape) - 1):
            if _is_plainer(program, tensor, dimension, axis):
                return _flatten_inputs(join_dimensions(program, program.stages, {tensor.name: dimension}, 2), axis)
    return program


def _is_plainer(program: Program, tensor: Tensor, dimension: int, axis: str) -> bool:
    gained = False
    for stage in program.stages:
        bounds = {a.name: (0, a.extent - 1) for a in stage.all_axes}
        for read in stage.reads():
            if read.tensor != tensor.name:
                continue
            first, second = read.indices[dimension : dimension + 2]
            if variables(first) | variables(second) != {axis}:
                return False
            joined = simplify(first * tensor.shape[dimension + 1] + second, bounds)
            if _divisions(joined) >= _divisions(first) + _divisions(second):
                return False
            gained = True
    return gained


def _divisions(expr: Expr) -> int:
    return sum(isinstance(node, Op) and node.name in ("floordiv", "mod") for node in walk(expr))


def pad_axis(program: Program, stage: str, axis: str, multiple: int) -> Program:
    """An axis becomes a multiple of `multiple` long; what is added has no effect.

    Terms that are added to a reduction are what its combiner ignores. A spatial axis makes the tensor larger, filled with
    that, or with zeros by a pointwise stage; if it is an output, the padded tensor gets a name of its own and a last
    stage copies what is wanted.
    Errors: ProgramError for a fold's ordered axis (its steps cannot be skipped) and a multiple below 1.
    """
    old = find_stage(program, stage)
    found = find_axis(old, axis)
    if multiple < 1 or old.fold is not None:
        raise refuse(old, "this axis cannot be padded", expected="a pointwise stage or a reduction, multiple >= 1")
    padded = Axis(axis, -(-found.extent // multiple) * multiple)
    if padded.extent == found.extent:
        return program
    bodies = tuple(
        call("select", found.var < found.extent, body, identity_of(old.combiner, body)) for body in old.bodies
    )
    if found in old.reduction:
        reduction = tuple(padded if a == found else a for a in old.reduction)
        return with_stages(program, {old.name: (replace(old, bodies=bodies, reduction=reduction),)})
    axes = tuple(padded if a == found else a for a in old.axes)
    shape = tuple(a.extent for a in axes)
    names = {t.name: free_name(program, f"{t.name}_padded") for t in old.tensors if t.name in program.outputs}
    tensors = tuple(Tensor(names.get(t.name, t.name), t.dtype, shape) for t in old.tensors)
    new = [replace(old, tensors=tensors, axes=axes, bodies=bodies)]
    for tensor in old.tensors:
        if tensor.name in names:
            copied = Read(names[tensor.name], tuple(a.var for a in old.axes), tensor.dtype)
            new.append(Stage((tensor,), old.axes, (copied,), origin=old.origin))
    return with_stages(program, {old.name: tuple(new)})


def split_k(program: Program, stage: str, axis: str, parts: int) -> Program:
    """A reduction is done in `parts` independent pieces of one of its axes, which a second stage combines.

    The new first stage NAME_partial[part, ...] has the pieces as its outermost axis. Pieces are equally long; the last one
    stops where the axis does. Errors: ProgramError for a fold, an axis that is not reduced, parts below 1.
    """
    old = find_stage(program, stage)
    found = find_axis(old, axis)
    if old.fold is not None or found not in old.reduction or parts < 1:
        raise refuse(old, "this axis cannot be split over parts", expected="an axis of a reduction, parts >= 1")
    parts = min(parts, found.extent)
    length = -(-found.extent // parts)
    parts = -(-found.extent // length)  # none is empty
    part = Axis(free_axis_name(old, f"{axis}_part"), parts)
    place = part.var * length + found.var
    body = substitute(old.bodies[0], {axis: place})
    if length * parts > found.extent:
        body = call("select", binary("lt", place, found.extent), body, identity_of(old.combiner, body))
    tensor = old.tensors[0]
    partial = Tensor(free_name(program, f"{tensor.name}_partial"), tensor.dtype, (parts, *tensor.shape))
    reduction = tuple(Axis(axis, length) if a == found else a for a in old.reduction)
    first = replace(old, tensors=(partial,), axes=(part, *old.axes), bodies=(body,), reduction=reduction)
    read = Read(partial.name, (part.var, *(a.var for a in old.axes)), tensor.dtype)
    second = replace(old, bodies=(read,), reduction=(part,))
    return with_stages(program, {old.name: (simplified(first), second)})
