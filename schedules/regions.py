"""Trips, boxes and allocation sizes of a loop tree: the only place that derives them.

All arithmetic is on extents in any of their four lives, so one walk analyses one config or 100,000. The lowering reads the
same numbers, and a test counts them in the lowered code.

Which points an attached stage covers stands in boxes.py. Sizes are clamped at the edge of the stage around, so boxes are too:
nothing is computed for points that no consumer asks for.

Counting. At a clamped piece the sizes below take few values: the full stride many times, and a rest. A *size distribution*
is that short list of (size, how many times). Because axes of T feed different axes of the attached stage, the axes count
independently and totals are products. This is exact; multiplying ceilings of nested ragged splits is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product as cartesian

from ..tensor.expr import Expr, Var
from ..tensor.indices.affine import affine
from .boxes import BoxAxis, box_axes, kept_points
from .extents import Extent, ceildiv, maximum, minimum, product, round_up
from .hints import PadLayout
from .loops import Loop, LoopTree, StageLoops, is_full

SizeCounts = tuple[tuple[Extent, Extent], ...]


def after(sizes: SizeCounts, stride: Extent) -> SizeCounts:
    """The sizes left below a clamped piece of this stride."""
    full: Extent = 0
    rests: list[tuple[Extent, Extent]] = []
    for size, count in sizes:
        full = full + count * (size // stride)
        rest = size % stride
        rests.append((rest, count * minimum(rest, 1)))
    return ((stride, full), *rests)


def visits(sizes: SizeCounts, stride: Extent) -> Extent:
    """Says how many trips a clamped piece of this stride makes, all instances together."""
    total: Extent = 0
    for size, count in sizes:
        total = total + count * ceildiv(size, stride)
    return total


def instances(sizes: SizeCounts) -> Extent:
    """Says how many instances a distribution counts."""
    total: Extent = 0
    for _, count in sizes:
        total = total + count
    return total


@dataclass(frozen=True, slots=True, eq=False)
class Opening:
    """Says how often, and with which sizes, the loops of a stage open.

    The stage is opened `unrelated` * product over axes of (instances of the axis's sizes) times.
    """

    unrelated: Extent
    sizes: dict[str, SizeCounts]


def opening(tree: LoopTree, stage: StageLoops) -> Opening:
    """The opening of a stage, from those of the stages around it."""
    if stage.at is None:
        return Opening(1, {axis: ((extent, 1),) for axis, extent in stage.box.items()})
    outer = tree.by_stage[stage.at[0]]
    depth = outer.position(stage.at[1]) + 1
    runs = depth + len(tree.loops_of_use(stage))
    around = opening(tree, outer)
    boxes = box_axes(tree, stage.stage, stage.at)
    related = dict.fromkeys(axis for box in boxes.values() for axis, _ in box.terms)
    unrelated = around.unrelated
    for axis in outer.box:
        if axis not in related:
            unrelated = unrelated * reached(tree, outer, around, axis, depth)
    below = {axis: below_sizes(tree, outer, around, axis, runs) for axis in related}
    sizes = {axis: _box_sizes(box, below) for axis, box in boxes.items()}
    loop = outer.loops[depth - 1]
    for axis, kept in kept_points(tree, stage).items():
        stored = below_sizes(tree, outer, around, loop.axis, depth - 1)
        sizes[axis] = _new_sizes(stored, loop.stride, boxes[axis].step(loop.axis), kept)
    return Opening(unrelated, sizes)


def _new_sizes(stored: SizeCounts, stride: Extent, coefficient: int, kept: int) -> SizeCounts:
    """Returns what is new in each trip of a loop: in the first of each run what is kept from then on too."""
    result: list[tuple[Extent, Extent]] = []
    for size, count in stored:
        first = minimum(size, stride)
        left = size - first
        result.append((coefficient * first + kept, count * minimum(size, 1)))
        result.append((coefficient * stride, count * (left // stride)))
        result.append((coefficient * (left % stride), count * minimum(left % stride, 1)))
    return tuple(result)


def _box_sizes(box: BoxAxis, below: dict[str, SizeCounts]) -> SizeCounts:
    axes = [axis for axis, _ in box.terms]
    result: list[tuple[Extent, Extent]] = []
    for combination in cartesian(*(below[axis] for axis in axes)):
        sizes = {axis: size for axis, (size, _) in zip(axes, combination, strict=True)}
        result.append((box.extent(sizes), product([count for _, count in combination])))
    return tuple(result)


def reached(tree: LoopTree, stage: StageLoops, start: Opening, axis: str, depth: int) -> Extent:
    """Trips along one axis of the innermost of its pieces among the first `depth` loops, all instances together."""
    total = instances(start.sizes[axis])
    for loop in stage.loops[:depth]:
        if loop.axis == axis:
            total = total * loop.extent if is_full(tree, stage, loop) else visits(start.sizes[axis], loop.stride)
    return total


def below_sizes(tree: LoopTree, stage: StageLoops, start: Opening, axis: str, depth: int) -> SizeCounts:
    """The sizes of an axis below the first `depth` loops."""
    sizes = start.sizes[axis]
    for loop in stage.loops[:depth]:
        if loop.axis == axis and not is_full(tree, stage, loop):
            sizes = after(start.sizes[axis], loop.stride)
    return sizes


def trips(tree: LoopTree, stage: StageLoops) -> dict[str, Extent]:
    """Loop name -> how many trips it makes in all."""
    start = opening(tree, stage)
    reach = {axis: instances(sizes) for axis, sizes in start.sizes.items()}
    result: dict[str, Extent] = {}
    for depth, loop in enumerate(stage.loops, 1):
        reach[loop.axis] = reached(tree, stage, start, loop.axis, depth)
        result[loop.name] = start.unrelated * product(list(reach.values()))
    return result


def openings(tree: LoopTree, stage: StageLoops) -> Extent:
    """Says how many times the loops of a stage open."""
    start = opening(tree, stage)
    return start.unrelated * product([instances(s) for s in start.sizes.values()])


def points(tree: LoopTree, stage: StageLoops) -> Extent:
    """Says how many times the body of a stage is evaluated, masked lanes included."""
    counted = trips(tree, stage)
    return counted[stage.loops[-1].name] if stage.loops else openings(tree, stage)


def full_tile(tree: LoopTree, stage: StageLoops, axis: str) -> Extent:
    """Points along an axis that the full pieces cover together (1 if there are none)."""
    return product([loop.extent for loop in stage.pieces(axis) if is_full(tree, stage, loop)])


def stride_at(stage: StageLoops, axis: str, depth: int) -> Extent:
    """The largest size of an axis below the first `depth` loops."""
    size = stage.box[axis]
    for loop in stage.loops[:depth]:
        if loop.axis == axis:
            size = loop.stride
    return size


def box_extents(
    tree: LoopTree, stage: str, at: tuple[str, str], reduction: dict[str, Extent] | None = None
) -> dict[str, Extent]:
    """Says how many points of each axis an instance of `stage`, attached at a loop, covers at most.

    `reduction`: the extents to use for reduction axes (they may be unknown while a template runs).
    """
    outer = tree.by_stage[at[0]]
    depth = outer.position(at[1]) + 1
    sizes = {axis: stride_at(outer, axis, depth) for axis in outer.box}
    result = {}
    for axis, box in box_axes(tree, stage, at).items():
        known = (reduction or {}).get(axis)
        result[axis] = box.extent(sizes) if known is None else known
    return result


# ---- storage ---------------------------------------------------------------------------------------------------------


def storage_box(tree: LoopTree, stage: StageLoops) -> dict[str, Extent]:
    """Points of each spatial axis that the storage of a stage holds, the overhang of register tiles included."""
    definition = tree.definition(stage.stage)
    held: dict[str, Extent] = {a.name: stage.box[a.name] for a in definition.axes}
    held = {name: round_up(extent, full_tile(tree, stage, name)) for name, extent in held.items()}
    for number, tensor in enumerate(definition.tensors):
        for consumer in tree.program.consumers[tensor.name]:
            reader = tree.by_stage[consumer.name]
            for read in consumer.reads():
                if read.tensor != tensor.name:
                    continue
                for axis, index in zip(definition.axes_of(number), read.indices, strict=True):
                    over = _overhang(tree, stage, axis.name, reader, index)
                    held[axis.name] = maximum(held[axis.name], stage.box[axis.name] + over)
    return held


def _overhang(tree: LoopTree, stage: StageLoops, axis: str, reader: StageLoops, index: Expr) -> Extent:
    """Says how far register tiles of the reader reach beyond what it needs of an axis of `stage`, which it reads at `index`."""
    around: dict[str, bool] = {}  # axes of the reader that move the box -> whether a loop around the box does
    if stage.at is not None and stage.at[0] == reader.stage:
        loops = reader.loops[: reader.position(stage.at[1]) + 1]
        moving = box_axes(tree, stage.stage, stage.at)[axis].terms
        around = {name: any(loop.axis == name for loop in loops) for name, _ in moving}
    total: Extent = 0
    for atom, coefficient in affine(index).terms:
        if isinstance(atom, Var) and coefficient > 0:
            total = total + coefficient * _tile_overhang(tree, reader, atom.name, around.get(atom.name))
    tiles = _tiles_beside(tree, stage, reader, index)
    if tiles is None:
        return total
    tile, size = tiles
    several = minimum(maximum(tile - size, size - tile), 1)  # 0 where each opening runs one tile
    return several * total + (1 - several) * (round_up(stage.box[axis], tile) - stage.box[axis])


def _tiles_beside(tree: LoopTree, stage: StageLoops, reader: StageLoops, index: Expr) -> tuple[Extent, Extent] | None:
    """(width of a tile, points of one opening) of a reader that runs farther inside of the loop that `stage` stands in, its
    openings side by side from where the box of `stage` begins; None for any other reader."""
    if stage.at is None or reader.at is None or reader.at[0] != stage.at[0] or not isinstance(index, Var):
        return None
    outer = tree.by_stage[stage.at[0]]
    form = box_axes(tree, reader.stage, reader.at).get(index.name)
    if form is None or len(form.terms) != 1 or form.terms[0][1] != 1 or form.low or form.high or not form.is_plain:
        return None
    if not any(loop.axis == form.terms[0][0] for loop in outer.loops[: outer.position(reader.at[1]) + 1]):
        return None
    return full_tile(tree, reader, index.name), reader.box[index.name]


def _tile_overhang(tree: LoopTree, reader: StageLoops, axis: str, around: bool | None) -> Extent:
    """Says how far the tiles along an axis of the reader reach beyond its last point in a box.

    around: None for a box that does not move with this axis, else whether it moves with a loop of the axis.
    """
    tile = full_tile(tree, reader, axis)
    if around or (isinstance(tile, int) and tile == 1):
        return 0  # the stride of the loop around the box is a multiple of the tile
    if around is False:
        return round_up(reader.box[axis], tile) - reader.box[axis]
    total: Extent = 0
    for size, count in opening(tree, reader).sizes[axis]:
        total = maximum(total, minimum(count, 1) * (round_up(size, tile) - size))
    return total


def storage_shape(
    tree: LoopTree, stage: StageLoops, number: int = 0, held: dict[str, Extent] | None = None
) -> tuple[Extent, ...]:
    """The allocated shape of a tensor of a stage: along its axes, or, for a copy, along the loops in their order.

    The innermost of these, a row, has room for what `pad_layout` adds. `held`: the storage box, if it is known.
    """
    held = storage_box(tree, stage) if held is None else held
    if not stage.tiled:
        return tuple(held[a.name] for a in tree.definition(stage.stage).axes_of(number))
    shape = [storage_extent(stage, loop, held) for loop in stage.loops]
    if shape and stage.hints.of(PadLayout):
        shape[-1] = shape[-1] + stage.hints.padding
    return tuple(shape)


def storage_extent(stage: StageLoops, loop: Loop, held: dict[str, Extent]) -> Extent:
    """Says how many trips of a loop the storage of a copy has room for."""
    outermost = stage.pieces(loop.axis)[0]
    return ceildiv(held[loop.axis], loop.stride) if loop is outermost else loop.extent


def storage_bytes(tree: LoopTree, stage: StageLoops, number: int = 0) -> Extent:
    """Allocated bytes of a tensor of a stage."""
    tensor = tree.definition(stage.stage).tensors[number]
    return product(list(storage_shape(tree, stage, number))) * tensor.dtype.bytes
