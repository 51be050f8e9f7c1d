"""Who is a sibling: stages that run over the same loops and read the same data at the same places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from math import prod

from ....common.remembered import remembered
from ...dtype import boolean, i64
from ...exceptional import exceptional_condition
from ...expr import Const, Expr, Read, Var, const, substitute
from ...indices.members import member_axes
from ...program import Axis, Program, Stage
from ...stage_edits import map_stage, shape_of, simplified

REDUCTIONS_AT_MOST = 4  # reduction axes that are tried in other orders
EXTREMA = ("max", "min")


def are_siblings(program: Program, one: Stage, other: Stage) -> bool:
    """Tells whether two reductions run over the same loops and read the same data, whoever needs whom."""
    return one != other and is_sum(other) and aligned(program, one, other) is not None


def is_sum(stage: Stage) -> bool:
    """Tells whether a stage may be a member: a reduction that is not joined yet, and of which nothing is seldom asked for."""
    plain = stage.combiner not in (None, "fold") and not member_axes(stage)
    return plain and exceptional_condition(stage) is None and bool(stage.axes or stage.reduction)


@remembered
def aligned(program: Program, one: Stage, other: Stage) -> Stage | None:
    """The other stage by the names of the first one's axes, such that both read the same data; None where none is alike."""
    same = one.combiner == other.combiner or (one.combiner in EXTREMA and other.combiner in EXTREMA)
    dtype = one.tensors[0].dtype
    if not same or dtype != other.tensors[0].dtype or shape_of(one.axes) != shape_of(other.axes):
        return None
    if one.combiner != other.combiner and dtype == boolean:
        return None
    if len(one.reduction) > REDUCTIONS_AT_MOST or len(one.reduction) != len(other.reduction):
        return None
    for order in permutations(other.reduction):
        if shape_of(order) != shape_of(one.reduction):
            continue
        names = renaming((*other.axes, *order), one.all_axes)
        made = replace(other, axes=one.axes, reduction=one.reduction, bodies=(substitute(other.bodies[0], names),))
        if _share_data(program, one, made):
            return made
    return None


def renaming(axes: Sequence[Axis], others: Sequence[Axis]) -> dict[str, Expr]:
    """Other axes in place of some, one by one."""
    return {axis.name: other.var for axis, other in zip(axes, others, strict=True)}


def _share_data(program: Program, one: Stage, other: Stage) -> bool:
    """Tells whether two stages read the largest of all that they read at the same places."""

    def size(read: Read) -> int:
        return prod(program.tensors[read.tensor].shape)

    mine, theirs = _plain(one).reads(), _plain(other).reads()
    common = set(mine) & set(theirs)
    return bool(common) and max(map(size, common)) >= max(map(size, (*mine, *theirs)))


@remembered
def _plain(stage: Stage) -> Stage:
    """The stage with the one point of axes that have no other in their place."""
    units: dict[str, Expr] = {axis.name: const(0, i64) for axis in stage.all_axes if axis.extent == 1}
    return simplified(map_stage(stage, lambda expr: substitute(expr, units)))


def is_behind(program: Program, later: Stage, earlier: Stage) -> bool:
    """Tells whether a stage needs another one, or what is made of it."""
    least = program.places[earlier.name]
    waiting, seen = [later], {later.name}
    while waiting:
        for read in waiting.pop().reads():
            producer = program.producers.get(read.tensor)
            if producer == earlier:
                return True
            if producer is not None and producer.name not in seen and program.places[producer.name] > least:
                seen.add(producer.name)
                waiting.append(producer)
    return False


def same_finish(program: Program, one: Stage, other: Stage) -> bool:
    """Tells whether two pointwise stages read the members of joined stages, and else the same, at the same places."""
    if one == other or other.combiner is not None or len(one.tensors) != 1 or len(other.tensors) != 1:
        return False
    if shape_of(one.axes) != shape_of(other.axes) or one.tensors[0].dtype != other.tensors[0].dtype:
        return False
    if (one.name in program.outputs) != (other.name in program.outputs):
        return False
    return _places(program, one) == _places(program, other)


def _places(program: Program, stage: Stage) -> frozenset[Read]:
    """Returns what a stage reads, whichever member it is, by numbers of axes."""
    named: dict[str, Expr] = {axis.name: Var(f"#{number}") for number, axis in enumerate(stage.axes)}
    found = set()
    for read in stage.reads():
        indices = tuple(substitute(index, named) for index in read.indices)
        if is_joined(program, read):
            indices = (const(0, i64), *indices[1:])
        found.add(Read(read.tensor, indices, read.dtype))
    return frozenset(found)


def is_joined(program: Program, read: Read) -> bool:
    """Tells whether a member of a joined stage is read, by its number."""
    producer = program.producers.get(read.tensor)
    by_number = bool(read.indices) and isinstance(read.indices[0], Const)
    return producer is not None and by_number and producer.name in with_members(program)


@remembered
def with_members(program: Program) -> frozenset[str]:
    """Returns the stages whose first axis counts members: those that are joined, and those that finish each member alike."""
    found: set[str] = set()
    for stage in program.stages:
        if member_axes(stage):
            found.add(stage.name)
        elif found and stage.combiner is None and len(stage.tensors) == 1 and stage.axes:
            own = (stage.axes[0].var,)
            if any(read.tensor in found and read.indices[:1] == own for read in stage.reads()):
                found.add(stage.name)
    return frozenset(found)


@remembered
def data_of(program: Program, stage: Stage) -> frozenset[str]:
    """Returns the largest tensors that a stage reads: siblings have one of them in common."""
    sizes = {read.tensor: prod(program.tensors[read.tensor].shape) for read in stage.reads()}
    return frozenset(name for name, size in sizes.items() if size == max(sizes.values()))
