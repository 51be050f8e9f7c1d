"""The memory accesses of a GPU stage, and what the lanes of a warp touch at one of them.

    Pattern     bound loops that move the address, storage pieces that the address falls into, width of the access

A position along a dimension of a tensor is cut by the pieces of its storage: for a tensor of the program that is the
dimension itself, for a copy the loops of the copy, in whose order it is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...schedules.access import element_stride
from ...schedules.extents import Extent, Sym
from ...schedules.loops import WRITTEN_OUT, Loop, LoopKind, LoopTree, StageLoops
from ...tensor.expr import Read, Var, variables
from ...tensor.indices.affine import affine
from ...tensor.program import Stage
from ..footprint import Value, real
from .lanes import (
    BANK_ROW,
    SECTOR,
    Integers,
    for_each_pattern,
    lane_indices,
    pieces_touched,
    swizzled,
    visible,
    wavefronts,
)

WIDEST = 16  # bytes of one access of a thread
FAR = 1 << 14  # points: neighbours further apart are as good as anywhere

PatternCost = Callable[[Integers, NDArray[np.bool_], Integers], NDArray[np.float64]]


@dataclass(frozen=True, slots=True, eq=False)
class DimensionPart:
    """Storage of one piece of a dimension: position // stride % extent (0: no end), `bytes` apart."""

    dimension: int
    stride: Extent
    extent: Extent
    bytes: Extent


@dataclass(frozen=True, slots=True, eq=False)
class Pattern:
    """`loops`: (trips, moves: (dimension, points)), the fastest first. `width`: bytes of one lane's access."""

    loops: tuple[tuple[Extent, tuple[tuple[int, Extent], ...]], ...]
    pieces: tuple[DimensionPart, ...]
    width: Value
    swizzle: Extent = 0

    def shared_cycles(self, warp: int) -> Value:
        """Cycles of shared memory that one access of a whole warp, of so many lanes, takes."""
        return self._computed(wavefronts, warp)

    def lines_and_sectors(self, warp: int) -> tuple[Value, Value]:
        """Lines of 128 bytes and sectors of 32 bytes that one access of a warp touches."""

        def both(addresses: Integers, active: NDArray[np.bool_], width: Integers) -> NDArray[np.float64]:
            lines = pieces_touched(addresses, active, width, BANK_ROW)
            return lines * 1024.0 + pieces_touched(addresses, active, width, SECTOR)

        packed = self._computed(both, warp)
        lines = np.floor(packed / 1024.0)
        return lines, packed - lines * 1024.0

    def _computed(self, cost: PatternCost, warp: int) -> Value:
        trips = visible([_whole(extent) for extent, _ in self.loops], warp) if self.loops else []
        columns: list[Value | Integers] = [self.width, _whole(self.swizzle), *trips]
        for (_, moves), seen in zip(self.loops, trips, strict=True):
            columns += [np.where(np.asarray(seen) > 1, np.minimum(_whole(points), FAR), 0) for _, points in moves]
        moving = {dimension for _, moves in self.loops for dimension, _ in moves}
        used = [piece for piece in self.pieces if piece.dimension in moving]
        for piece in used:
            columns += [_whole(piece.stride), _whole(piece.extent), _whole(piece.bytes)]

        def compute(rows: list[Integers]) -> NDArray[np.float64]:
            addresses, active = self._addresses(rows[1:], used, warp)
            return cost(addresses, active, rows[0])

        return for_each_pattern(compute, columns)

    def _addresses(
        self, rows: list[Integers], used: list[DimensionPart], warp: int
    ) -> tuple[Integers, NDArray[np.bool_]]:
        bits, rest = rows[0], rows[1:]
        count = len(self.loops)
        indices, active = lane_indices(rest[:count], warp)
        rest = rest[count:]
        shape = active.shape if self.loops else (len(bits), warp)
        position: dict[int, Integers] = {}
        place = 0
        for (_, moves), index in zip(self.loops, indices, strict=True):
            for dimension, _ in moves:
                step = index * rest[place][:, None]
                position[dimension] = position[dimension] + step if dimension in position else step
                place += 1
        addresses = np.zeros((len(bits), shape[1]), dtype=np.int64)
        for piece in used:
            stride, extent, apart = rest[place : place + 3]
            place += 3
            inside = position[piece.dimension] // np.maximum(stride, 1)[:, None]
            inside = np.where(extent[:, None] > 0, inside % np.maximum(extent, 1)[:, None], inside)
            addresses = addresses + inside * apart[:, None]
        return swizzled(addresses, bits), np.broadcast_to(active, addresses.shape)


def _whole(number: Extent) -> Integers:
    """A number as integers. TypeError while it is symbolic."""
    if isinstance(number, Sym):
        raise TypeError(f"the extent {number} has no number yet: apply a config first")
    return np.asarray(number, dtype=np.int64)


def low_bit(number: Extent) -> Value:
    """The largest power of two that divides a number."""
    whole = _whole(number)
    found: Value = (whole & -whole).astype(np.float64)
    return found


def bound_loops(stage: StageLoops, inside: int = 0) -> list[Loop]:
    """The THREAD loops of a stage, the fastest first: lower dimensions, then inner loops."""
    found = [loop for loop in reversed(stage.loops[inside:]) if loop.kind is LoopKind.THREAD]
    return sorted(found, key=lambda loop: loop.dimension)


def storage_pieces(tree: LoopTree, stage: StageLoops, shape: Sequence[Extent]) -> tuple[DimensionPart, ...]:
    """Says how a tensor of a planned shape is stored: a copy in the order of its loops, else along its axes."""
    definition = tree.definition(stage.stage)
    element = definition.tensors[0].dtype.bytes
    names = [a.name for a in definition.axes]
    strides: list[Extent] = []
    step: Extent = element
    for extent in reversed(shape):
        strides.insert(0, step)
        step = step * extent
    if not stage.tiled:
        return tuple(DimensionPart(n, 1, 0, apart) for n, apart in enumerate(strides))
    found = []
    for loop, apart in zip(stage.loops, strides, strict=True):
        outermost = stage.pieces(loop.axis)[0] is loop
        found.append(DimensionPart(names.index(loop.axis), loop.stride, 0 if outermost else loop.extent, apart))
    return tuple(found)


# ---- accesses ----------------------------------------------------------------------------------------------------------


def global_pattern(tree: LoopTree, stage: StageLoops, read: Read) -> Pattern:
    """An access to a tensor in global memory, row-major."""
    tensor = tree.program.tensors[read.tensor]
    element = tensor.dtype.bytes
    loops = []
    for loop in bound_loops(stage):
        step = element_stride(tree.program, read, loop.axis)
        # where the index is no sum of axes (a window, a remainder) neighbours mostly lie together
        points = (1 if step is None else abs(step)) * loop.stride
        loops.append((loop.extent, ((0, points),)))
    return Pattern(tuple(loops), (DimensionPart(0, 1, 0, element),), global_width(tree, stage, read) * element)


def global_width(tree: LoopTree, stage: StageLoops, read: Read) -> Value:
    """Elements that one access of a thread covers."""
    tensor = tree.program.tensors[read.tensor]
    most = max(1, WIDEST // tensor.dtype.bytes)
    aligned = low_bit(tensor.shape[-1]) if len(tensor.shape) > 1 else float(most)
    for loop in stage.loops:
        innermost = loop.kind in WRITTEN_OUT and loop is stage.pieces(loop.axis)[-1]
        if innermost and element_stride(tree.program, read, loop.axis) == 1:
            return np.minimum(np.minimum(low_bit(loop.extent), aligned), float(most))
    return 1.0


def shared_read(tree: LoopTree, stage: StageLoops, read: Read, made: StageLoops, shape: Sequence[Extent]) -> Pattern:
    """A read of what a block has made for its threads, stored in a planned shape."""
    pieces = storage_pieces(tree, made, shape)
    loops = []
    for loop in bound_loops(stage):
        moves = []
        for dimension, index in enumerate(read.indices):
            coefficient = affine(index).coefficient(Var(loop.axis)) if loop.axis in variables(index) else 0
            if coefficient:
                moves.append((dimension, abs(coefficient) * loop.stride))
        loops.append((loop.extent, tuple(moves)))
    element = tree.program.tensors[read.tensor].dtype.bytes
    return Pattern(tuple(loops), pieces, shared_width(tree, stage, read, made, shape) * element, made.hints.swizzle)


def shared_width(tree: LoopTree, stage: StageLoops, read: Read, made: StageLoops, shape: Sequence[Extent]) -> Value:
    """Elements that one access of a thread covers: as far as its written-out loops run along the innermost storage."""
    tensor = tree.program.tensors[read.tensor]
    most = float(max(1, WIDEST // tensor.dtype.bytes))
    definition = tree.definition(made.stage)
    if not made.loops or not definition.axes:
        return 1.0
    axis = made.loops[-1].axis if made.tiled else definition.axes[-1].name
    index = read.indices[[a.name for a in definition.axes].index(axis)]
    run: Value = most
    aligned: Value = most
    if made.tiled:
        trailing = 1
        while trailing < len(made.loops) and made.loops[-trailing - 1].axis == axis:
            trailing += 1
        aligned = low_bit(shape[-1])
        if trailing == 1:
            run = low_bit(made.loops[-1].extent) if len(made.pieces(axis)) > 1 else most
    for loop in stage.loops:
        innermost = loop.kind in WRITTEN_OUT and loop is stage.pieces(loop.axis)[-1]
        if innermost and loop.axis in variables(index) and affine(index).coefficient(Var(loop.axis)) == 1:
            return np.minimum(np.minimum(low_bit(loop.extent), run), np.minimum(aligned, most))
    return 1.0


def shared_write(tree: LoopTree, stage: StageLoops, shape: Sequence[Extent]) -> Pattern:
    """The store of a stage into the shared memory of its block, stored in a planned shape."""
    definition = tree.definition(stage.stage)
    names = [a.name for a in definition.axes]
    loops = []
    for loop in bound_loops(stage):
        moves = ((names.index(loop.axis), loop.stride),) if loop.axis in names else ()
        loops.append((loop.extent, moves))
    return Pattern(
        tuple(loops),
        storage_pieces(tree, stage, shape),
        own_width(stage, definition) * definition.tensors[0].dtype.bytes,
        stage.hints.swizzle,
    )


def own_width(stage: StageLoops, definition: Stage) -> Value:
    """Elements of one store of a stage into its own storage."""
    most = float(max(1, WIDEST // definition.tensors[0].dtype.bytes))
    last = stage.loops[-1] if stage.loops else None
    if last is None or last.kind is not LoopKind.VECTOR:
        return 1.0
    if not stage.tiled and definition.axes and definition.axes[-1].name != last.axis:
        return 1.0
    return np.minimum(real(last.extent), most)
