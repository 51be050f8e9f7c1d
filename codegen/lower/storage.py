"""Which buffer each tensor of a loop tree lives in, and how its points are found there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

from ...schedules.boxes import kept_points
from ...schedules.extents import Extent, round_up
from ...schedules.loops import LoopKind, LoopTree, StageLoops, is_full
from ...schedules.plan.stage import Plan
from ...schedules.plan.storage import StoragePlan
from ...schedules.regions import full_tile, storage_extent
from ...tensor.expr import Expr, Var, variables
from ...tensor.indices.affine import affine, simplify
from ..ir.index import Bounds, floor_div, minus, modulo, number, settled
from ..ir.loop_ir import Buffer, Scope
from ..rows import PitchedRows
from .view import fixed

Dimensions = tuple[tuple[str, int, int], ...]  # (axis, stride, extent); extent 0: outermost, no remainder needed


@dataclass(frozen=True, slots=True)
class Storage:
    """The buffer of a stage's tensor. `tile_strides`: for tiled storage (axis, stride, extent) of each dimension."""

    buffer: Buffer
    dimensions: Dimensions = ()
    single: bool = False  # one element, whatever the point
    slots: int = 1  # how often it exists; the first index of the buffer says which is meant, if more than once
    rings: frozenset[str] = frozenset()  # axes along which it is used again and again, from its beginning
    fills: bool = False  # its rows are written in whole vectors, zeros beyond their end

    def indices(
        self, axes: tuple[str, ...], points: tuple[Expr, ...], origin: dict[str, Expr], bounds: Bounds
    ) -> tuple[Expr, ...]:
        """Buffer indices of a point, given along each axis; `origin` is where the stored box begins (outputs are whole)."""
        if self.buffer.scope is Scope.OUTPUT:
            return points
        if self.single:
            return (number(0),) * len(self.buffer.shape)
        relative = {
            axis: minus(_plain(point, bounds), origin[axis]) if axis in origin else point
            for axis, point in zip(axes, points, strict=True)
        }
        if not self.dimensions:
            return tuple(
                modulo(relative[axis], extent, bounds) if axis in self.rings else relative[axis]
                for axis, extent in zip(axes, self.buffer.shape, strict=True)
            )
        found = []
        for axis, stride, extent in self.dimensions:
            index = floor_div(settled(relative[axis], bounds), stride, bounds)
            found.append(modulo(index, extent, bounds) if extent else index)
        return tuple(found)


def _plain(point: Expr, bounds: Bounds) -> Expr:
    """A point along an axis, so that what it has in common with where a box begins cancels: of a quotient the multiples."""
    return point if affine(point).is_linear else simplify(point, bounds)


def storages(tree: LoopTree, plan: Plan, rows: Mapping[str, PitchedRows]) -> dict[str, Storage]:
    """Tensor name -> its storage, for every tensor of the program. `rows`: of arguments that do not lie side by side."""
    found: dict[str, Storage] = {}
    for declared in tree.program.inputs:
        tensor = declared.tensor
        scope = Scope.CONSTANT if declared.constant else Scope.INPUT
        found[tensor.name] = Storage(Buffer(tensor.name, tensor.dtype, tensor.shape, scope))
    for table in tree.program.tables:
        tensor = table.tensor
        found[tensor.name] = Storage(Buffer(tensor.name, tensor.dtype, tensor.shape, Scope.TABLE, values=table.values))
    for planned in plan.stages.values():
        for storage in planned.storage:
            found[storage.tensor.name] = _made(tree, planned.stage, storage, plan.gpu)
    for name, lies in rows.items():
        found[name] = replace(found[name], buffer=replace(found[name].buffer, rows=lies))
    return found


def _made(tree: LoopTree, stage: StageLoops, planned: StoragePlan, gpu: bool) -> Storage:
    """The storage of a tensor that a stage makes."""
    tensor, scope = planned.tensor, planned.scope
    shape = tuple(fixed(extent) for extent in planned.shape)
    if scope is Scope.OUTPUT:
        return Storage(Buffer(tensor.name, tensor.dtype, shape, scope))
    dimensions: Dimensions = ()
    if stage.tiled:
        dimensions = _dimensions(stage, planned.held)
        shape = tuple(prod(shape[n] for n in joined) for joined in joined_loops(stage))
    if planned.home.fragment:
        dimensions = tuple((axis, fixed(stride), fixed(extent)) for axis, stride, extent in planned.home.fragment)
        shape = tuple(extent for _, _, extent in dimensions)
    swizzle = fixed(stage.hints.swizzle) if gpu and stage.at is not None else 0
    single = gpu and scope is Scope.REGISTER and prod(shape) == 1 and not dimensions
    slots = fixed(planned.slots)
    shape = (slots, *shape) if slots > 1 else shape
    fills = not gpu and _fills_rows(tree, stage, planned)
    padded = _padded(tree, tensor.name, stage.tiled or fills)
    buffer = Buffer(tensor.name, tensor.dtype, shape, scope, padded, swizzle=swizzle, slots=slots)
    return Storage(buffer, dimensions, single, slots, frozenset(kept_points(tree, stage)), fills)


def _fills_rows(tree: LoopTree, stage: StageLoops, planned: StoragePlan) -> bool:
    """Says whether a piece of data that a processor makes for another stage is written in whole vectors, zeros beyond its end:
    its rows have room for that and for nothing more."""
    definition, last = tree.definition(stage.stage), stage.loops[-1] if stage.loops else None
    if stage.at is None or stage.tiled or stage.stored is not None or definition.combiner is not None:
        return False
    if last is None or last.kind is not LoopKind.VECTOR or last.axis != definition.axes[-1].name:
        return False
    if full_tile(tree, stage, last.axis) != last.extent or len(definition.tensors) > 1:
        return False
    rows = [stage, *(tree.by_stage[reader.name] for reader in tree.program.consumers[definition.name])]
    if any(fixed(one.hints.aligns) > 0 for one in rows):
        return False  # whole vectors that begin at lines of memory end farther behind
    fits = fixed(planned.held[last.axis]) == fixed(round_up(stage.box[last.axis], last.extent))
    return fits and planned.scope in (Scope.STACK, Scope.SCRATCH)


def _padded(tree: LoopTree, tensor: str, filled: bool) -> bool:
    """True when register tiles of all readers move through the tensor upwards only, where there is room for them.

    What a stage leaves beyond its box is whatever was there before, unless it is `filled`: lanes of vectors do not read that,
    because arithmetic on denormal numbers takes a hundred times as long.
    """
    for consumer in tree.program.consumers[tensor]:
        reader = tree.by_stage[consumer.name]
        tiled = {loop.axis for loop in reader.loops if is_full(tree, reader, loop)}
        lanes = {loop.axis for loop in reader.loops if loop.kind is LoopKind.VECTOR}
        for read in consumer.reads():
            if read.tensor != tensor:
                continue
            for atom, coefficient in (term for index in read.indices for term in affine(index).terms):
                if variables(atom) & tiled and not (isinstance(atom, Var) and coefficient > 0):
                    return False
                if variables(atom) & lanes and not filled:
                    return False
    return True


def joined_loops(stage: StageLoops) -> tuple[tuple[int, ...], ...]:
    """The loops of a copy, by position, in groups that are one dimension of its storage: neighbours of one axis.

    A row that is padded is a dimension of its own.
    """
    groups: list[tuple[int, ...]] = []
    padded = int(stage.hints.padding) > 0
    for position, loop in enumerate(stage.loops):
        row = padded and position + 1 == len(stage.loops)
        if groups and not row and stage.loops[groups[-1][-1]].axis == loop.axis:
            groups[-1] = (*groups[-1], position)
        else:
            groups.append((position,))
    return tuple(groups)


def _dimensions(stage: StageLoops, held: dict[str, Extent]) -> Dimensions:
    found = []
    for group in joined_loops(stage):
        loops = [stage.loops[position] for position in group]
        outermost = stage.pieces(loops[0].axis)[0] is loops[0]
        extent = 0 if outermost else prod(int(storage_extent(stage, loop, held)) for loop in loops)
        found.append((loops[0].axis, int(loops[-1].stride), extent))
    return tuple(found)
