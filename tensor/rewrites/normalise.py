"""The normal form in which programs are scheduled: no axes of extent 1, axes merged that are only used together, and those
split that hold groups (normalise_groups.py). Sums of narrow floats are wide, and a stage of their own rounds them
(wide_sums.py).

The shapes of inputs and outputs may change, their elements in memory (row-major) do not: x[n, c, h, w] that is only read
as x[n, c, h, w] becomes one axis. So an elementwise operator over any shape is one loop, and a 1x1 convolution is a matrix
product. Reduction axes are put in one order, whatever the order in which they were written.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import pairwise

from ..dtype import i64
from ..expr import Const, Expr, Read, Var, rewrite, substitute, walk
from ..program import Axis, Input, Program, Stage, Table, Tensor
from ..stage_edits import map_stage, simplified
from .normalise_groups import split_groups
from .wide_sums import wide_sums


def normalise(program: Program) -> Program:
    """The normal form of a program: its inputs and outputs are the same arrays, perhaps seen with other dimensions."""
    draft = _Draft(wide_sums(program))
    draft.drop_unit_axes()
    draft.stages = [simplified(stage) for stage in draft.stages]
    draft = _Draft(split_groups(draft.program()))
    while draft.merge_once():
        pass
    draft.stages = [_reduction_in_order(stage) for stage in draft.stages]
    return draft.program()


@dataclass(frozen=True, slots=True)
class _AxisPair:
    """Two axes of a stage that would become one."""

    stage: int
    first: str
    second: str


@dataclass(frozen=True, slots=True)
class _DimensionPair:
    """Dimensions `dimension` and `dimension + 1` of a tensor that would become one."""

    tensor: str
    dimension: int


class _Draft:
    """The parts of a program while shapes change; it is checked again when it is whole."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._shapes = {name: tensor.shape for name, tensor in program.tensors.items()}
        self.stages = list(program.stages)
        self._near: dict[str, list[int]] = {name: [] for name in self._shapes}  # who defines or reads a tensor
        for number, stage in enumerate(program.stages):
            for name in {*(tensor.name for tensor in stage.tensors), *(read.tensor for read in stage.reads())}:
                self._near[name].append(number)

    def program(self) -> Program:
        """The program of these parts."""
        old = self._program
        return Program(
            tuple(Input(self._shaped(item.tensor), item.constant) for item in old.inputs),
            tuple(replace(stage, tensors=tuple(map(self._shaped, stage.tensors))) for stage in self.stages),
            old.outputs,
            tuple(Table(self._shaped(table.tensor), table.values) for table in old.tables),
        )

    def _shaped(self, tensor: Tensor) -> Tensor:
        return Tensor(tensor.name, tensor.dtype, self._shapes[tensor.name])

    # axes of extent 1

    def drop_unit_axes(self) -> None:
        """Axes and dimensions of extent 1 disappear, but for the ordered axis of a fold."""
        kept = {name: [d for d, size in enumerate(shape) if size > 1] for name, shape in self._shapes.items()}
        self.stages = [_without_units(stage, kept) for stage in self.stages]
        self._shapes = {name: tuple(s for s in shape if s > 1) for name, shape in self._shapes.items()}

    # merging

    def merge_once(self) -> bool:
        """Merges one pair of axes with all that must follow. False where no pair can be merged."""
        for number, stage in enumerate(self.stages):
            for first, second in _candidates(stage):
                together = self._closure(_AxisPair(number, first, second))
                if together is not None:
                    self._merge(together)
                    return True
        return False

    def _closure(self, start: _AxisPair) -> set[_AxisPair | _DimensionPair] | None:
        """All pairs that have to be merged with this one, or None where one of them cannot be."""
        found: set[_AxisPair | _DimensionPair] = {start}
        pending: list[_AxisPair | _DimensionPair] = [start]
        while pending:
            item = pending.pop()
            needed = self._axis_needs(item) if isinstance(item, _AxisPair) else self._dimension_needs(item)
            if needed is None:
                return None
            pending.extend(needed - found)
            found |= needed
        return found

    def _axis_needs(self, pair: _AxisPair) -> set[_AxisPair | _DimensionPair] | None:
        stage = self.stages[pair.stage]
        spatial = [axis.name for axis in stage.axes]
        needed: set[_AxisPair | _DimensionPair] = set()
        if pair.first in spatial:
            place = spatial.index(pair.first)
            if place + 1 >= len(spatial) or spatial[place + 1] != pair.second:
                return None
            for number, tensor in enumerate(stage.tensors):
                own = [axis.name for axis in stage.axes_of(number)]
                if pair.first not in own and pair.second not in own:
                    continue
                at = own.index(pair.first) if pair.first in own else -1
                if at < 0 or own[at + 1 : at + 2] != [pair.second]:
                    return None  # a tensor of a fold that drops one of them, or where they are no neighbours
                needed.add(_DimensionPair(tensor.name, at))
        elif pair.second in spatial or stage.fold is not None:
            return None
        uses = matched = 0
        for expression in stage.expressions:
            for node in walk(expression):
                uses += isinstance(node, Var) and node.name in (pair.first, pair.second)
                if isinstance(node, Read):
                    places = [d for d in range(len(node.indices) - 1) if self._is_pair(node, d, stage, pair)]
                    matched += 2 * len(places)
                    needed.update(_DimensionPair(node.tensor, d) for d in places)
        return needed if uses == matched else None

    def _is_pair(self, read: Read, dimension: int, stage: Stage, pair: _AxisPair) -> bool:
        return (
            read.indices[dimension] == Var(pair.first)
            and read.indices[dimension + 1] == Var(pair.second)
            and self._shapes[read.tensor][dimension + 1] == stage.axis(pair.second).extent
        )

    def _dimension_needs(self, pair: _DimensionPair) -> set[_AxisPair | _DimensionPair] | None:
        needed: set[_AxisPair | _DimensionPair] = set()
        for number in self._near[pair.tensor]:
            stage = self.stages[number]
            for own, tensor in enumerate(stage.tensors):
                if tensor.name == pair.tensor:
                    axes = stage.axes_of(own)
                    needed.add(_AxisPair(number, axes[pair.dimension].name, axes[pair.dimension + 1].name))
            for expression in stage.expressions:
                for node in walk(expression):
                    if isinstance(node, Read) and node.tensor == pair.tensor:
                        first, second = node.indices[pair.dimension : pair.dimension + 2]
                        if not isinstance(first, Var) or not isinstance(second, Var) or first == second:
                            return None
                        if stage.axis(second.name).extent != self._shapes[pair.tensor][pair.dimension + 1]:
                            return None
                        needed.add(_AxisPair(number, first.name, second.name))
        return needed

    def _merge(self, pairs: set[_AxisPair | _DimensionPair]) -> None:
        axes: dict[int, dict[str, str]] = {}
        dimensions: dict[str, set[int]] = {}
        for pair in pairs:
            if isinstance(pair, _AxisPair):
                axes.setdefault(pair.stage, {})[pair.first] = pair.second
            else:
                dimensions.setdefault(pair.tensor, set()).add(pair.dimension)
        for number in sorted({*axes, *(near for name in dimensions for near in self._near[name])}):
            self.stages[number] = _merged(self.stages[number], axes.get(number, {}), dimensions)
        for name, joined in dimensions.items():
            self._shapes[name] = _joined_shape(self._shapes[name], joined)


def _candidates(stage: Stage) -> list[tuple[str, str]]:
    """Pairs of axes of which one might follow the other in memory."""
    spatial = [axis.name for axis in stage.axes]
    pairs = list(pairwise(spatial))
    if stage.fold is None:
        reduced = [axis.name for axis in stage.reduction]
        pairs += [(first, second) for first in reduced for second in reduced if first != second]
    return pairs


def _without_units(stage: Stage, kept: Mapping[str, list[int]]) -> Stage:
    ordered = {axis.name for axis in stage.reduction} if stage.fold else set()
    units = {a.name: Const(0, i64) for a in stage.all_axes if a.extent == 1 and a.name not in ordered}

    def without(expr: Expr) -> Expr:
        found = substitute(expr, dict(units))
        return rewrite(found, lambda n: _picked(n, kept[n.tensor]) if isinstance(n, Read) else None)

    reduction = tuple(axis for axis in stage.reduction if axis.name not in units)
    fold = stage.fold and replace(
        stage.fold, tensor_axes=tuple(tuple(n for n in names if n not in units) for names in stage.fold.tensor_axes)
    )
    changed = replace(
        map_stage(stage, without),
        axes=tuple(axis for axis in stage.axes if axis.name not in units),
        reduction=reduction,
        combiner=stage.combiner if reduction else None,
    )
    return replace(changed, fold=fold and replace(fold, locals=changed.fold.locals if changed.fold else ()))


def _picked(read: Read, dimensions: list[int]) -> Read:
    return Read(read.tensor, tuple(read.indices[d] for d in dimensions), read.dtype)


def _joined_shape(shape: tuple[int, ...], dimensions: AbstractSet[int]) -> tuple[int, ...]:
    """Each of `dimensions` joined with the next; chains may overlap."""
    joined: list[int] = []
    for d, size in enumerate(shape):
        if d - 1 in dimensions:
            joined[-1] *= size
        else:
            joined.append(size)
    return tuple(joined)


def _merged(stage: Stage, axes: Mapping[str, str], dimensions: Mapping[str, AbstractSet[int]]) -> Stage:
    """The stage with each axis of `axes` merged with the one it maps to; the merged one keeps the first one's name."""
    seconds = set(axes.values())

    def extent(axis: Axis) -> int:
        total, name = axis.extent, axis.name
        while name in axes:
            name = axes[name]
            total *= stage.axis(name).extent
        return total

    def joined(read: Read) -> Read:
        dropped = {d + 1 for d in dimensions.get(read.tensor, ())}
        return _picked(read, [d for d in range(len(read.indices)) if d not in dropped])

    def change(expr: Expr) -> Expr:
        return rewrite(expr, lambda n: joined(n) if isinstance(n, Read) else None)

    changed = map_stage(stage, change)
    fold = changed.fold and replace(
        changed.fold,
        tensor_axes=tuple(tuple(n for n in names if n not in seconds) for names in changed.fold.tensor_axes),
    )
    return replace(
        changed,
        axes=tuple(Axis(a.name, extent(a)) for a in stage.axes if a.name not in seconds),
        reduction=tuple(Axis(a.name, extent(a)) for a in stage.reduction if a.name not in seconds),
        fold=fold,
    )


def _reduction_in_order(stage: Stage) -> Stage:
    """Reduction axes in the order of the dimensions of the read that has most of them, others by their first use.

    So the axes of a convolution stand as in the filter, and merge there.
    """
    if len(stage.reduction) < 2:
        return stage
    names = {axis.name for axis in stage.reduction}
    plain = [[i.name for i in read.indices if isinstance(i, Var) and i.name in names] for read in stage.reads()]
    used = [node.name for expression in stage.expressions for node in walk(expression) if isinstance(node, Var)]
    wanted = dict.fromkeys([*max(plain, key=len, default=[]), *used, *(axis.name for axis in stage.reduction)])
    order = {name: place for place, name in enumerate(wanted)}
    return replace(stage, reduction=tuple(sorted(stage.reduction, key=lambda axis: order[axis.name])))
