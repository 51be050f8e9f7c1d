"""What narrows a joined tensor is done to each of its parts, which are joined then.

    j[i, k] = select(k < 4, a[i, k], b[i, k - 4]);  y[i, k] = u8(round(j[i, k] / s))
    ->  a'[i, k] = u8(round(a[i, k] / s));  b'[i, k] = u8(round(b[i, k] / s));  y[i, k] = select(k < 4, a'[i, k], b'[i, k - 4])

So each part is narrowed where it is made, and fewer bytes are put side by side, mostly by writing them there: a concat of a
quantized model, whose parts have scales of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ...schedules.access import identity_read, reads_of
from ...schedules.inlining import can_inline
from ...tensor.expr import Expr, Read, substitute
from ...tensor.ops.movement import part_at
from ...tensor.program import Axis, Program, Stage, Tensor
from ...tensor.stage_edits import free_name, map_reads, shape_of, simplified, with_stages
from .pieces import MOST, pieces_of


def narrow_joins(program: Program) -> Program:
    """The program in which what narrows a joined tensor is done before it is joined."""
    replaced: dict[str, tuple[Stage, ...]] = {}
    taken: set[str] = set()
    for stage in program.stages:
        found = _join_of(program, stage)
        if found is not None:
            stages = tuple(_in_parts(program, stage, found, taken))
            replaced |= {found.stage.name: (), stage.name: stages}
    return with_stages(program, replaced) if replaced else program


@dataclass(frozen=True, slots=True)
class _Join:
    """A stage that puts parts side by side along an axis (its position), each with its first value and what it is there."""

    stage: Stage
    position: int
    parts: tuple[tuple[int, Expr], ...]


def _join_of(program: Program, stage: Stage) -> _Join | None:
    """Finds the join that a pointwise stage makes narrower, and that nobody else reads."""
    if stage.combiner is not None or len(stage.tensors) != 1:
        return None
    for tensor in dict.fromkeys(read.tensor for read in stage.reads()):
        made = program.producers.get(tensor)
        if made is None or not can_inline(program, made) or len(program.consumers[tensor]) != 1:
            continue
        here = reads_of(stage, tensor)
        narrows = stage.tensors[0].dtype.bits < made.tensors[0].dtype.bits
        if narrows and len(here) == 1 and identity_read(here[0], stage) and len(made.axes) == len(stage.axes):
            return _parts_of(made)
    return None


def _parts_of(made: Stage) -> _Join | None:
    """A stage as a join, if it is one of tensors that are read as they are."""
    for position, axis in enumerate(made.axes):
        parts = tuple((start, value) for start, _, value in pieces_of(made.bodies[0], axis, 0, axis.extent))
        if len(parts) > 1:
            reads_only = all(isinstance(value, Read) for _, value in parts)
            return _Join(made, position, parts) if reads_only and len(parts) <= MOST else None
    return None


def _in_parts(program: Program, stage: Stage, join: _Join, taken: set[str]) -> Iterator[Stage]:
    """The stage of each part, and what puts them side by side under its name."""
    begins = [begin for begin, _ in join.parts]
    ends = [*begins[1:], stage.axes[join.position].extent]
    made = [
        _part(program, stage, join, value, (begin, end), taken)
        for (begin, value), end in zip(join.parts, ends, strict=True)
    ]
    yield from made
    whole = part_at([part.tensors[0] for part in made], join.position, [axis.var for axis in stage.axes])
    yield replace(stage, bodies=(whole,))


def _part(program: Program, stage: Stage, join: _Join, value: Expr, place: tuple[int, int], taken: set[str]) -> Stage:
    """The stage that narrows, at points of the join from `begin` to before `end`, where that is `value`."""
    (begin, end), axis = place, stage.axes[join.position]
    axes = tuple(Axis(axis.name, end - begin) if one == axis else one for one in stage.axes)
    here = substitute(value, {old.name: new.var for old, new in zip(join.stage.axes, stage.axes, strict=True)})
    body = map_reads(stage.bodies[0], lambda read: here if read.tensor == join.stage.name else read)
    name = free_name(program, f"{stage.name}_part", taken)
    taken.add(name)
    tensor = Tensor(name, stage.tensors[0].dtype, shape_of(axes))
    moved = substitute(body, {axis.name: axis.var + begin})
    return simplified(replace(stage, tensors=(tensor,), axes=axes, bodies=(moved,)))
