"""Axes that hold groups are split, so that what belongs to a group as a whole is a row like any other.

    out[c: 64, p] = x[c, p] - mean[c // 2]     ->     out[g: 32, k: 2, p] = x[g, k, p] - mean[g]
    y[o: 64, p] = sum[c: 3](x[o // 2 * 3 + c, p] * w[o, c])     ->     y[g: 32, k: 2, p] = sum[c: 3](x[g, c, p] * w[g, k, c])

An axis is split where a value computed before is read at axis // size and at nothing that lies further in, as the statistics
of a group norm are; and where a tensor is read at (axis // size) * length + member, as the channels of a grouped convolution
are, which then is a batch of convolutions. All tensors that have the axis as a dimension get two in its place; their memory
stays as it is. Where one of them is read in any other way than along the axis, or at group * size + member, nothing changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from ..dtype import i64
from ..expr import Const, Expr, Op, Read, Var, rewrite, variables, walk
from ..indices.forms import affine, group_of
from ..program import Axis, Input, Program, Stage, Tensor
from ..stage_edits import free_axis_name, map_stage, simplified

Place = TypeVar("Place")
AxisSizes = dict[tuple[int, str], int]  # (stage, axis) -> the size of its groups
DimensionSizes = dict[tuple[str, int], int]  # (tensor, dimension) -> the size of its groups


def split_groups(program: Program) -> Program:
    """The program with all such axes split."""
    for number, axis, size in _groups(program):
        found = _split(program, {(number, axis): size})
        if found is not None:
            return split_groups(found)
    return program


def _groups(program: Program) -> Iterator[tuple[int, str, int]]:
    """(stage, axis, size of a group) of each axis that is worth a split."""
    for number, stage in enumerate(program.stages):
        spatial = [a.name for a in stage.axes]
        for read in stage.reads() if stage.fold is None else ():
            for index in read.indices:
                grouped = _grouped_index(stage, index)
                axis, size = (group_of(index) if grouped is None else grouped.of) or ("", 1)
                if axis not in spatial or size == 1 or stage.axis(axis).extent % size:
                    continue
                further = {a.name for a in stage.axes[spatial.index(axis) + 1 :]}
                inside = further and not any(further & variables(other) for other in read.indices)
                if grouped is not None or (inside and read.tensor in program.producers):
                    yield number, axis, size


def _remainder_of(node: Expr) -> tuple[str, int] | None:
    """(axis, size) of axis % size; None of anything else."""
    match node:
        case Op(name="mod", args=(Var(name=axis), Const(value=size))):
            return axis, int(size)
    return None


@dataclass(frozen=True, slots=True)
class _GroupedIndex:
    """group * length + member, with a member that is a whole axis. The group is an axis, or axis // size, which `of` tells."""

    group: Expr
    length: int
    member: Var

    @property
    def of(self) -> tuple[str, int] | None:
        """The axis and the size of its groups; None where the group is an axis."""
        return group_of(self.group)


def _grouped_index(stage: Stage, index: Expr) -> _GroupedIndex | None:
    """The parts of such an index, None of any other."""
    form = affine(index)
    if len(form.terms) != 2 or form.constant:
        return None
    for (group, length), (member, step) in (form.terms, form.terms[::-1]):
        counts = isinstance(group, Var) or group_of(group) is not None
        if counts and isinstance(member, Var) and step == 1 and stage.axis(member.name).extent == length:
            return _GroupedIndex(group, length, member)
    return None


def _split(program: Program, axes: AxisSizes) -> Program | None:
    """The program with an axis split, and all that must follow; None where something else stands in the way."""
    dimensions: DimensionSizes = {}
    while True:
        follow = _dimensions_of(program, axes)
        behind = None if follow is None else _axes_of(program, follow)
        if follow is None or behind is None:
            return None
        if follow.items() <= dimensions.items() and behind.items() <= axes.items():
            return _Split(program, axes, dimensions).done()
        if not (_agree(axes, behind) and _agree(dimensions, follow)):
            return None
        axes, dimensions = axes | behind, dimensions | follow


def _agree(one: Mapping[Place, int], other: Mapping[Place, int]) -> bool:
    return all(one.get(key, size) == size for key, size in other.items())


def _dimensions_of(program: Program, axes: AxisSizes) -> DimensionSizes | None:
    """The dimensions along which these axes run; None where one is used in another way."""
    found: DimensionSizes = {}
    for (number, name), size in axes.items():
        stage = program.stages[number]
        extent = stage.axis(name).extent
        if stage.fold is not None or extent % size:
            return None
        spatial = [a.name for a in stage.axes]
        own: DimensionSizes = {}
        if name in spatial:
            own |= {(tensor.name, spatial.index(name)): size for tensor in stage.tensors}
        uses = plain = 0
        for node in (n for expression in stage.expressions for n in walk(expression)):
            uses += isinstance(node, Var) and node.name == name
            plain += (name, size) in (group_of(node), _remainder_of(node))
            if isinstance(node, Read):
                here = [d for d, index in enumerate(node.indices) if index == Var(name)]
                plain += sum(program.tensors[node.tensor].shape[d] == extent for d in here)
                own |= {(node.tensor, d): size for d in here}
                own |= _lengths_of(stage, node, (name, size))
        if uses != plain or not _agree(found, own):
            return None
        found |= own
    return found


def _lengths_of(stage: Stage, read: Read, of: tuple[str, int]) -> DimensionSizes:
    """The dimensions of a read that an axis and members of its groups move together."""
    found = ((d, _grouped_index(stage, index)) for d, index in enumerate(read.indices))
    return {(read.tensor, d): one.length for d, one in found if one is not None and one.of == of}


def _axes_of(program: Program, dimensions: DimensionSizes) -> AxisSizes | None:
    """The axes that run along these dimensions; None where one is read in another way."""
    tables = {table.tensor.name for table in program.tables}
    found: AxisSizes = {}
    for (name, dimension), size in dimensions.items():
        if name in tables or program.tensors[name].shape[dimension] % size:
            return None
        own: AxisSizes = {}
        for number, stage in enumerate(program.stages):
            if any(tensor.name == name for tensor in stage.tensors):
                own[number, stage.axes[dimension].name] = size
            for index in (r.indices[dimension] for r in stage.reads() if r.tensor == name):
                grouped = _grouped_index(stage, index)
                if isinstance(index, Var):
                    own[number, index.name] = size
                elif grouped is None or grouped.length != size:
                    return None
                elif grouped.of is not None:
                    own[number, grouped.of[0]] = grouped.of[1]
        if not _agree(found, own):
            return None
        found |= own
    return found


@dataclass(frozen=True, slots=True)
class _Split:
    """Axes and dimensions that are split, with the sizes of their groups."""

    program: Program
    axes: AxisSizes
    dimensions: DimensionSizes

    def done(self) -> Program:
        """The program with all of them split."""
        old = self.program
        stages = tuple(self._stage(number, stage) for number, stage in enumerate(old.stages))
        inputs = tuple(Input(self._shaped(item.tensor), item.constant) for item in old.inputs)
        return Program(inputs, stages, old.outputs, old.tables)

    def _shaped(self, tensor: Tensor) -> Tensor:
        shape: list[int] = []
        for dimension, extent in enumerate(tensor.shape):
            size = self.dimensions.get((tensor.name, dimension))
            shape += [extent] if size is None else [extent // size, size]
        return replace(tensor, shape=tuple(shape))

    def _stage(self, number: int, stage: Stage) -> Stage:
        sizes = {name: size for (n, name), size in self.axes.items() if n == number}
        inner = {name: free_axis_name(stage, f"{name}_member") for name in sizes}

        def index(read: Read, dimension: int) -> list[Expr]:
            found, size = read.indices[dimension], self.dimensions.get((read.tensor, dimension))
            if size is None:
                return [found]
            if isinstance(found, Var):
                return [found, Var(inner[found.name])]
            grouped = _grouped_index(stage, found)
            assert grouped is not None
            return [grouped.group, grouped.member]

        def changed(node: Expr) -> Expr | None:
            if not isinstance(node, Read) or not any(t == node.tensor for t, _ in self.dimensions):
                return None
            indices = [i for dimension in range(len(node.indices)) for i in index(node, dimension)]
            return Read(node.tensor, tuple(indices), node.dtype)

        def split(own: tuple[Axis, ...]) -> tuple[Axis, ...]:
            made: list[Axis] = []
            for axis in own:
                size = sizes.get(axis.name)
                made += [axis] if size is None else [Axis(axis.name, axis.extent // size), Axis(inner[axis.name], size)]
            return tuple(made)

        # an axis that is split counts groups from now on
        counts: dict[Expr, Expr] = {}
        for name, size in sizes.items():
            counts[Op("floordiv", (Var(name), Const(size, i64)), i64)] = Var(name)
            counts[Op("mod", (Var(name), Const(size, i64)), i64)] = Var(inner[name])
        new = map_stage(stage, lambda expr: rewrite(rewrite(expr, counts.get), changed))
        tensors = tuple(map(self._shaped, stage.tensors))
        return simplified(replace(new, tensors=tensors, axes=split(stage.axes), reduction=split(stage.reduction)))
