"""Which buffer each tensor of a loop tree lives in, and how its points are found there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from ...schedules.loops import LoopKind, LoopTree, StageLoops, is_full
from ...schedules.prepared import prepared_stages
from ...schedules.regions import full_tile, storage_box, storage_extent, storage_shape
from ...tensor.expr import Expr, Var, variables
from ...tensor.indices.affine import affine
from ...tensor.program import Stage
from ..ir.index import Bounds, floor_div, minus, modulo, number, settled
from ..ir.loop_ir import Buffer, Scope

STACK_LIMIT = 16 * 1024  # bytes; larger tiles go to scratch memory, so that no thread's stack overflows
REGISTER_LIMIT = 4096  # bytes: beyond that no register file holds a tile
OVERHANG_ROWS = (
    20  # points, more than a tile is high; no power of two, so that rows do not begin at the same place of pages
)
OVERHANG_COLUMNS = 32  # points along memory: whole lines

Dimensions = tuple[tuple[str, int, int], ...]  # (axis, stride, extent); extent 0: outermost, no remainder needed
ScopeRule = Callable[[LoopTree, StageLoops, tuple[int, ...], int], tuple[Scope, Dimensions, int]]


@dataclass(frozen=True, slots=True)
class Storage:
    """The buffer of a stage's tensor. `tile_strides`: for tiled storage (axis, stride, extent) of each dimension."""

    buffer: Buffer
    dimensions: Dimensions = ()
    single: bool = False  # one element, whatever the point
    slots: int = 1  # how often it exists; the first index of the buffer says which is meant, if more than once

    def indices(
        self, axes: tuple[str, ...], points: tuple[Expr, ...], origin: dict[str, Expr], bounds: Bounds
    ) -> tuple[Expr, ...]:
        """Buffer indices of a point, given along each axis; `origin` is where the stored box begins (outputs are whole)."""
        if self.buffer.scope is Scope.OUTPUT:
            return points
        if self.single:
            return (number(0),) * len(self.buffer.shape)
        relative = {
            axis: minus(point, origin[axis]) if axis in origin else point
            for axis, point in zip(axes, points, strict=True)
        }
        if not self.dimensions:
            return tuple(relative[axis] for axis in axes)
        found = []
        for axis, stride, extent in self.dimensions:
            index = floor_div(settled(relative[axis], bounds), stride, bounds)
            found.append(modulo(index, extent, bounds) if extent else index)
        return tuple(found)


def storages(tree: LoopTree, scope_rule: ScopeRule | None = None) -> dict[str, Storage]:
    """Tensor name -> its storage, for every tensor of the program.

    scope_rule: where an attached stage's tensor lives, if not where it does on a CPU.
    """
    found: dict[str, Storage] = {}
    for declared in tree.program.inputs:
        tensor = declared.tensor
        scope = Scope.CONSTANT if declared.constant else Scope.INPUT
        found[tensor.name] = Storage(Buffer(tensor.name, tensor.dtype, tensor.shape, scope))
    for table in tree.program.tables:
        tensor = table.tensor
        found[tensor.name] = Storage(Buffer(tensor.name, tensor.dtype, tensor.shape, Scope.TABLE, values=table.values))
    prepared = prepared_stages(tree)
    for stage in tree.stages:
        for place, tensor in enumerate(tree.definition(stage.stage).tensors):
            if tensor.name in tree.program.outputs:
                found[tensor.name] = Storage(Buffer(tensor.name, tensor.dtype, tensor.shape, Scope.OUTPUT))
            else:
                found[tensor.name] = _intermediate(tree, stage, place, stage.stage in prepared, scope_rule)
    return found


def _intermediate(
    tree: LoopTree, stage: StageLoops, place: int, prepared: bool, scope_rule: ScopeRule | None
) -> Storage:
    definition = tree.definition(stage.stage)
    tensor = definition.tensors[place]
    shape = tuple(int(e) for e in storage_shape(tree, stage, place))
    dimensions: tuple[tuple[str, int, int], ...] = ()
    if stage.tiled:
        dimensions = _dimensions(tree, stage)
        shape = tuple(prod(shape[n] for n in joined) for joined in joined_loops(stage))
    swizzle, slots = 0, 1
    if scope_rule is None or stage.at is None:
        scope = _scope(tree, stage, shape, tensor.dtype.bytes, prepared)
    else:
        scope, held, slots = scope_rule(tree, stage, shape, tensor.dtype.bytes)
        if held:
            dimensions, shape = held, tuple(extent for _, _, extent in held)
        swizzle = int(stage.hints.swizzle)
    if scope is Scope.WORKSPACE and not stage.tiled:
        shape = _settled(shape, tuple(a.extent for a in definition.axes_of(place)))
    single = scope is Scope.REGISTER and scope_rule is not None and prod(shape) == 1 and not dimensions
    padded = _padded(tree, tensor.name)
    shape = (slots, *shape) if slots > 1 else shape
    buffer = Buffer(tensor.name, tensor.dtype, shape, scope, padded, swizzle=swizzle, slots=slots)
    return Storage(buffer, dimensions, single, slots)


def _settled(shape: tuple[int, ...], extents: tuple[int, ...]) -> tuple[int, ...]:
    """The shape with what hangs over rounded up: nests that write and read the tensor by other tiles are then often the same
    for many tiles, and are compiled once."""
    settled = []
    for dimension, (size, extent) in enumerate(zip(shape, extents, strict=True)):
        step = OVERHANG_COLUMNS if dimension == len(shape) - 1 else OVERHANG_ROWS
        settled.append(size if size <= extent else extent + -(-(size - extent) // step) * step)
    return tuple(settled)


def _padded(tree: LoopTree, tensor: str) -> bool:
    """True when register tiles of all readers move through the tensor upwards only, where there is room for them.

    What a stage leaves beyond its box is whatever was there before, unless it is a copy: lanes of vectors do not read that,
    because arithmetic on denormal numbers takes a hundred times as long.
    """
    filled = tree.by_stage[tree.program.producers[tensor].name].tiled
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


def _dimensions(tree: LoopTree, stage: StageLoops) -> tuple[tuple[str, int, int], ...]:
    held = storage_box(tree, stage)
    found = []
    for group in joined_loops(stage):
        loops = [stage.loops[position] for position in group]
        outermost = stage.pieces(loops[0].axis)[0] is loops[0]
        extent = 0 if outermost else prod(int(storage_extent(stage, loop, held)) for loop in loops)
        found.append((loops[0].axis, int(loops[-1].stride), extent))
    return tuple(found)


def _scope(tree: LoopTree, stage: StageLoops, shape: tuple[int, ...], size: int, prepared: bool) -> Scope:
    elements = size
    for extent in shape:
        elements *= extent
    if stage.at is None:
        return Scope.PREPARED if prepared else Scope.WORKSPACE
    if stage.scope is not None:
        return stage.scope
    if elements <= REGISTER_LIMIT and fits_registers(tree, stage):
        return Scope.REGISTER
    return Scope.STACK if elements <= STACK_LIMIT else Scope.SCRATCH


def fits_registers(tree: LoopTree, stage: StageLoops) -> bool:
    """True when both the stage and its one reader reach every point by full pieces only, in lanes of one width."""
    definition = tree.definition(stage.stage)
    if stage.at is None or stage.tiled or len(definition.tensors) != 1:
        return False
    if not unrolls(tree, stage):
        return False
    outer = tree.by_stage[stage.at[0]]
    inside = outer.loops[outer.position(stage.at[1]) + 1 :]
    own = any(x.axis in {a.name for a in definition.axes} for x in stage.loops)
    return not (own or inside) or _same_lanes(tree, stage, outer, definition)


def unrolls(tree: LoopTree, stage: StageLoops) -> bool:
    """True when an attached stage and its one reader reach every point by full pieces only: which element of a buffer that is
    then is known when the code is written."""
    definition = tree.definition(stage.stage)
    readers = tree.program.consumers[definition.name]
    if stage.at is None or len(readers) != 1 or readers[0].name != stage.at[0]:
        return False
    outer = tree.by_stage[stage.at[0]]
    inside = outer.loops[outer.position(stage.at[1]) + 1 :]
    own = [x for x in stage.loops if x.axis in {a.name for a in definition.axes}]
    return all(is_full(tree, stage, x) for x in own) and all(is_full(tree, outer, x) for x in inside)


def _same_lanes(tree: LoopTree, stage: StageLoops, outer: StageLoops, definition: Stage) -> bool:
    """Both sides cover the same tile along each axis, with the vectorized pieces alike (or no vectors at all)."""
    reader = tree.definition(outer.stage)
    reads = [r for r in reader.reads() if r.tensor == definition.name]
    if len(reads) != 1:
        return False
    for axis, index in zip(definition.axes, reads[0].indices, strict=True):
        name = getattr(index, "name", None)
        if name is None:
            return False
        mine = [x.extent for x in stage.pieces(axis.name) if x.kind is LoopKind.VECTOR]
        theirs = [x.extent for x in outer.pieces(name) if x.kind is LoopKind.VECTOR]
        if mine != theirs or full_tile(tree, stage, axis.name) != full_tile(tree, outer, name):
            return False
    return True
