"""join_siblings: stages that read the same data at the same places become one stage, so that one pass reads the data once.

    s[i] = sum[k](x[i, k])                    t[c: 2, i] = sum[k](select(c == 0, x[i, k], x[i, k] * x[i, k]))
    q[i] = sum[k](x[i, k] * x[i, k])      ->  readers of s[i] read t[0, i], those of q[i] t[1, i]

A new axis counts the members. Code has no loop over it: which term a member has is known when the code is made, and what is
read does not move with the axis, so that each element is loaded once for all members. The smallest element is the largest one
of what is mirrored (-x, and -1 - x of integers, where nothing overflows), so minima and maxima are siblings too.

What only finishes members, each in the same way, is joined along the same axis. Pointwise stages that are outputs become one
stage of several tensors.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush

from ...dtype import boolean, i64
from ...expr import Cast, Expr, Op, Read, Var, const, substitute
from ...indices.members import MEMBERS_AT_MOST
from ...indices.operator_ranges import range_of
from ...indices.scatter import scattered
from ...program import Axis, Program, Stage, Tensor
from ...stage_edits import find_stage, free_axis_name, free_name, map_reads, map_stage, refuse, shape_of
from .alike import aligned, are_siblings, data_of, is_behind, is_joined, is_sum, renaming, same_finish, with_members


def join_siblings(program: Program, stages: Sequence[str]) -> Program:
    """Stages over the same loops become one. Errors: ProgramError where they read other data, or one needs another."""
    members = [find_stage(program, name) for name in stages]
    first = members[0]
    if len(set(stages)) != len(stages) or not 2 <= len(stages) <= MEMBERS_AT_MOST:
        raise refuse(
            first, "this is no number of stages to join", expected=f"2 to {MEMBERS_AT_MOST} different stages",
            found=", ".join(stages),
        )  # fmt: skip
    found = _joined(program, members)
    if found is None or any(is_behind(program, one, other) for one in members for other in members if one != other):
        raise refuse(
            first, f"these stages cannot be joined: {', '.join(stages)}",
            expected="the same loops, the same data at the same places, and none that needs another",
        )  # fmt: skip
    return found


def siblings_of(program: Program, may: Callable[[Stage], bool] = lambda stage: True) -> tuple[str, ...]:
    """The names of stages that `join_siblings` joins: reductions first, then what finishes joined ones; () without any.

    may: whether a reduction is joined at all.
    """
    sums = [stage for stage in program.stages if is_sum(stage) and may(stage)]
    alike: dict[str, list[Stage]] = defaultdict(list)
    for stage in sums:
        for name in data_of(program, stage):
            alike[name].append(stage)
    for stage in sums:
        others = dict.fromkeys(one for name in sorted(data_of(program, stage)) for one in alike[name])
        found = _family(program, stage, [one for one in others if are_siblings(program, stage, one)])
        if found:
            return found
    joined = with_members(program)
    for stage in program.stages:
        if stage.combiner is None and any(read.tensor in joined for read in stage.reads()):
            near = dict.fromkeys(other for read in stage.reads() for other in program.consumers[read.tensor])
            found = _family(program, stage, [one for one in near if same_finish(program, stage, one)])
            if found:
                return found
    return ()


def _family(program: Program, first: Stage, others: Sequence[Stage]) -> tuple[str, ...]:
    """Returns as many stages, of those that may be joined with the first, as may be joined with one another."""
    found = [first]
    for other in others:
        independent = not any(is_behind(program, a, other) or is_behind(program, other, a) for a in found)
        if len(found) < MEMBERS_AT_MOST and independent and _joined(program, [*found, other]) is not None:
            found.append(other)
    return tuple(stage.name for stage in found) if len(found) > 1 else ()


@dataclass(frozen=True, slots=True)
class _Family:
    """A stage that stands for several, and what is read in place of each of them."""

    stage: Stage
    members: tuple[Stage, ...]
    mirrored: tuple[bool, ...]

    def value(self, number: int, indices: tuple[Expr, ...]) -> Expr:
        """An element of a member."""
        made = Read(self.stage.name, (const(number, i64), *indices), self.stage.tensors[0].dtype)
        return _mirrored(made) if self.mirrored[number] else made


def _joined(program: Program, members: Sequence[Stage]) -> Program | None:
    """The program with members joined; None where they are not alike."""
    first = members[0]
    if any(len(stage.tensors) != 1 or stage.fold is not None for stage in members):
        return None
    if first.combiner is not None:
        if not all(are_siblings(program, first, other) for other in members[1:]):
            return None
        found = _sums(program, members)
        return None if found is None else _with_family(program, found)
    if not all(same_finish(program, first, other) for other in members[1:]):
        return None
    if all(stage.name in program.outputs for stage in members):
        return _with_several_tensors(program, members)
    same = _finishes(program, members)
    return None if same is None else _with_family(program, same)


def _sums(program: Program, members: Sequence[Stage]) -> _Family | None:
    first = members[0]
    axis = Axis(free_axis_name(first, "c"), len(members))
    same = [aligned(program, first, other) for other in members[1:]]
    alike = [first, *(stage for stage in same if stage is not None)]
    mirrored = tuple(stage.combiner != first.combiner for stage in alike)
    terms = [
        _mirrored(stage.bodies[0]) if turned else stage.bodies[0] for stage, turned in zip(alike, mirrored, strict=True)
    ]
    made = _stage(program, first, axis, _merged(terms, axis.var))
    places = [scattered(stage) for stage in (made, *alike)]
    wanted = places[0].places if places[0] is not None else None
    if any((found.places if found is not None else None) != wanted for found in places):
        return None  # the places of terms would not be seen any more
    return _Family(made, tuple(members), mirrored)


def _stage(program: Program, first: Stage, axis: Axis, body: Expr) -> Stage:
    axes = (axis, *first.axes)
    tensor = Tensor(free_name(program, f"{first.name}_joined"), first.tensors[0].dtype, shape_of(axes))
    return replace(first, tensors=(tensor,), axes=axes, bodies=(body,))


def _mirrored(value: Expr) -> Expr:
    """A value of which the least is the greatest of the other, and the other way round; done twice it is the value itself."""
    if value.dtype.is_float:
        return -value
    return Op("sub", (const(sum(range_of(value.dtype)), value.dtype), value), value.dtype)


def _merged(values: Sequence[Expr], member: Var) -> Expr:
    """An expression that is each of some values at its number: it chooses as far inside as they differ."""
    first = values[0]
    if all(value == first for value in values):
        return first
    match first:
        case Op(name=name, args=args, dtype=dtype):
            same = [v.args for v in values if isinstance(v, Op) and v.name == name and len(v.args) == len(args)]
            if len(same) == len(values) and _alike(same):
                return Op(name, tuple(_merged(column, member) for column in zip(*same, strict=True)), dtype)
        case Cast(dtype=dtype):
            inner = [(v.arg,) for v in values if isinstance(v, Cast) and v.dtype == dtype]
            if len(inner) == len(values) and _alike(inner):
                return Cast(_merged([value for (value,) in inner], member), dtype)
        case _:
            pass
    found = values[-1]
    for number, value in reversed(list(enumerate(values[:-1]))):
        found = Op("select", (Op("eq", (member, const(number, i64)), boolean), value, found), value.dtype)
    return found


def _alike(columns: Sequence[tuple[Expr, ...]]) -> bool:
    """Tells whether operands have the same dtypes, and no index among them: what is read where is never chosen."""
    dtypes = [tuple(value.dtype for value in values) for values in columns]
    return len(set(dtypes)) == 1 and len(set(columns)) > 1 and i64 not in dtypes[0]


def _finishes(program: Program, members: Sequence[Stage]) -> _Family | None:
    """One stage that does for each member what all do."""
    first = members[0]
    axis = Axis(free_axis_name(first, "c"), len(members))
    bodies = []
    for number, stage in enumerate(members):

        def of_member(read: Read, number: int = number) -> Read:
            if not is_joined(program, read) or read.indices[0] != const(number, i64):
                return read
            return Read(read.tensor, (axis.var, *read.indices[1:]), read.dtype)

        bodies.append(map_reads(substitute(stage.bodies[0], renaming(stage.axes, first.axes)), of_member))
    whole = [program.tensors[r.tensor].shape[0] for r in first.reads() if is_joined(program, r)]
    if any(body != bodies[0] for body in bodies) or any(extent != len(members) for extent in whole):
        return None
    return _Family(_stage(program, first, axis, bodies[0]), tuple(members), (False,) * len(members))


def _with_several_tensors(program: Program, members: Sequence[Stage]) -> Program:
    """Pointwise stages as one of several tensors."""
    first = members[0]
    bodies = tuple(substitute(stage.bodies[0], renaming(stage.axes, first.axes)) for stage in members)
    made = replace(first, tensors=tuple(stage.tensors[0] for stage in members), bodies=bodies)
    return _in_order(program, [*(stage for stage in program.stages if stage not in members), made])


def _with_family(program: Program, family: _Family) -> Program:
    """The program in which a family stands for its members; those that are outputs are copied from it."""
    number = {stage.name: n for n, stage in enumerate(family.members)}
    given = [stage for stage in family.members if stage.name in program.outputs]
    others = [stage for stage in program.stages if stage.name not in number]
    stages = [map_stage(stage, lambda e: map_reads(e, lambda r: _member(family, number, r))) for stage in others]
    stages.append(family.stage)
    if given:
        axes = given[0].axes
        bodies = tuple(family.value(number[stage.name], tuple(axis.var for axis in axes)) for stage in given)
        stages.append(Stage(tuple(stage.tensors[0] for stage in given), axes, bodies, origin=given[0].origin))
    return _in_order(program, stages)


def _member(family: _Family, number: Mapping[str, int], read: Read) -> Expr:
    return family.value(number[read.tensor], read.indices) if read.tensor in number else read


def _in_order(program: Program, stages: Sequence[Stage]) -> Program:
    """The program of these stages, each behind what it reads, as far as that goes in the order in which they are given."""
    makers = {tensor.name: n for n, stage in enumerate(stages) for tensor in stage.tensors}
    needs = [{makers[read.tensor] for read in stage.reads() if read.tensor in makers} for stage in stages]
    readers: dict[int, list[int]] = {n: [] for n in range(len(stages))}
    for n, needed in enumerate(needs):
        for maker in needed:
            readers[maker].append(n)
    ready = [n for n, needed in enumerate(needs) if not needed]
    made: list[Stage] = []
    while ready:
        n = heappop(ready)
        made.append(stages[n])
        for reader in readers[n]:
            needs[reader].discard(n)
            if not needs[reader]:
                heappush(ready, reader)
    return program.replacing(tuple(made))
