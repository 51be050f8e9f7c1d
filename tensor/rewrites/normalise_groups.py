"""Axes that hold groups are split, so that what belongs to a group as a whole is a row like any other.

    out[c: 64, p] = x[c, p] - mean[c // 2]     ->     out[g: 32, k: 2, p] = x[g, k, p] - mean[g]

An axis is split where a value computed before is read at axis // size and at nothing that lies further in: the statistics
of a group norm. All tensors that have the axis as a dimension get two in its place; their memory stays as it is. Where one
of them is read in any other way than along the axis, or at group * size + member, nothing changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..dtype import i64
from ..expr import Const, Expr, Op, Read, Var, rewrite, variables, walk
from ..program import Axis, Input, Program, Stage, Tensor
from ..stage_edits import free_axis_name, map_stage, simplified


def split_groups(program: Program) -> Program:
    """The program with all such axes split."""
    for number, axis, size in _groups(program):
        found = _AxisSplit(program, size).of_axis(number, axis)
        if found is not None:
            return split_groups(found)
    return program


def _groups(program: Program) -> Iterator[tuple[int, str, int]]:
    """(stage, axis, size of a group) of each axis that is worth a split."""
    for number, stage in enumerate(program.stages):
        for read in stage.reads():
            for index in read.indices if read.tensor in program.producers else ():
                axis, size = _group_of(index)
                place = [a.name for a in stage.axes].index(axis) if axis in {a.name for a in stage.axes} else None
                if place is None or stage.fold is not None or stage.axes[place].extent % size or size == 1:
                    continue
                further = {a.name for a in stage.axes[place + 1 :]}
                if further and not any(further & variables(other) for other in read.indices):
                    yield number, axis, size


def _group_of(index: Expr) -> tuple[str, int]:
    """(axis, size) of axis // size; ("", 1) of anything else."""
    if isinstance(index, Op) and index.name == "floordiv":
        of, size = index.args
        if isinstance(of, Var) and isinstance(size, Const):
            return of.name, int(size.value)
    return "", 1


@dataclass(frozen=True, slots=True)
class _AxisSplit:
    """Splits an axis into groups of `size`, with all that must follow."""

    program: Program
    size: int

    def of_axis(self, number: int, axis: str) -> Program | None:
        """The new program, or None where something else stands in the way."""
        axes: set[tuple[int, str]] = {(number, axis)}
        dimensions: set[tuple[str, int]] = set()
        while True:
            follow = self._dimensions_of(axes)
            behind = None if follow is None else self._axes_of(follow)
            if follow is None or behind is None:
                return None
            if follow <= dimensions and behind <= axes:
                return self._done(axes, dimensions)
            axes |= behind
            dimensions |= follow

    def _dimensions_of(self, axes: set[tuple[int, str]]) -> set[tuple[str, int]] | None:
        """The dimensions along which these axes run; None where one is used in another way."""
        found: set[tuple[str, int]] = set()
        for number, name in axes:
            stage = self.program.stages[number]
            extent = stage.axis(name).extent
            if stage.fold is not None or extent % self.size:
                return None
            spatial = [a.name for a in stage.axes]
            if name in spatial:
                found |= {(tensor.name, spatial.index(name)) for tensor in stage.tensors}
            uses = plain = 0
            for node in (n for expression in stage.expressions for n in walk(expression)):
                uses += isinstance(node, Var) and node.name == name
                plain += _group_of(node) == (name, self.size)
                if isinstance(node, Read):
                    here = [d for d, index in enumerate(node.indices) if index == Var(name)]
                    plain += sum(self.program.tensors[node.tensor].shape[d] == extent for d in here)
                    found |= {(node.tensor, d) for d in here}
            if uses != plain:
                return None
        return found

    def _axes_of(self, dimensions: set[tuple[str, int]]) -> set[tuple[int, str]] | None:
        """The axes that run along these dimensions; None where one is read in another way."""
        tables = {table.tensor.name for table in self.program.tables}
        found: set[tuple[int, str]] = set()
        for name, dimension in dimensions:
            if name in tables:
                return None
            for number, stage in enumerate(self.program.stages):
                if any(tensor.name == name for tensor in stage.tensors):
                    found.add((number, stage.axes[dimension].name))
                for read in (r for r in stage.reads() if r.tensor == name):
                    index = read.indices[dimension]
                    if isinstance(index, Var):
                        found.add((number, index.name))
                    elif self._parts(stage, index) is None:
                        return None
        return found

    def _parts(self, stage: Stage, index: Expr) -> tuple[Expr, Expr] | None:
        """(group, member) of group * size + member, both of them whole axes."""
        for group in stage.all_axes:
            for member in stage.all_axes:
                first = group.var * self.size
                if member.extent == self.size and index in (first + member.var, member.var + first):
                    return group.var, member.var
        return None

    def _done(self, axes: set[tuple[int, str]], dimensions: set[tuple[str, int]]) -> Program:
        old = self.program
        stages = tuple(
            self._stage(stage, {name for n, name in axes if n == number}, dimensions)
            for number, stage in enumerate(old.stages)
        )
        inputs = tuple(Input(self._shaped(item.tensor, dimensions), item.constant) for item in old.inputs)
        return Program(inputs, stages, old.outputs, old.tables)

    def _shaped(self, tensor: Tensor, dimensions: set[tuple[str, int]]) -> Tensor:
        shape: list[int] = []
        for dimension, extent in enumerate(tensor.shape):
            split = (tensor.name, dimension) in dimensions
            shape += [extent // self.size, self.size] if split else [extent]
        return replace(tensor, shape=tuple(shape))

    def _stage(self, stage: Stage, axes: set[str], dimensions: set[tuple[str, int]]) -> Stage:
        inner = {name: free_axis_name(stage, f"{name}_member") for name in axes}

        def index(read: Read, dimension: int) -> list[Expr]:
            found = read.indices[dimension]
            if (read.tensor, dimension) not in dimensions:
                return [found]
            if isinstance(found, Var):
                return [found, Var(inner[found.name])]
            parts = self._parts(stage, found)
            assert parts is not None
            return [*parts]

        def changed(node: Expr) -> Expr | None:
            if not isinstance(node, Read) or not any(t == node.tensor for t, _ in dimensions):
                return None
            indices = [i for dimension in range(len(node.indices)) for i in index(node, dimension)]
            return Read(node.tensor, tuple(indices), node.dtype)

        def split(own: tuple[Axis, ...]) -> tuple[Axis, ...]:
            made: list[Axis] = []
            for axis in own:
                whole = axis.name not in axes
                made += (
                    [axis] if whole else [Axis(axis.name, axis.extent // self.size), Axis(inner[axis.name], self.size)]
                )
            return tuple(made)

        # an axis that is split counts groups from now on
        groups: dict[Expr, Expr] = {Op("floordiv", (Var(name), Const(self.size, i64)), i64): Var(name) for name in axes}
        new = map_stage(stage, lambda expr: rewrite(rewrite(expr, groups.get), changed))
        tensors = tuple(self._shaped(tensor, dimensions) for tensor in stage.tensors)
        return simplified(replace(new, tensors=tensors, axes=split(stage.axes), reduction=split(stage.reduction)))
