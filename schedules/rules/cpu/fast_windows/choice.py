"""The choice rule: a stage that finishes a transform, or chooses between it and sums that stand in for it, takes these in.

    y[p, q, o] = select(ordinary(p, q), fast[p, q, o], exact[p, q, o])        fast a transform, exact by tensor/exceptional.py

Both run tile by tile, and the transform that feeds the first one with it. What these transform back is products of data that
were transformed as well: of a whole image or batch that is much memory. So it is done, perhaps, *in bands* of a few rows of
tiles: a band is transformed, multiplied and transformed back before the next one begins, in memory that holds one band of each
thread and stays in its caches. Each band reads the constant operand of the products again, so the more there are of these the
fewer bands should there be; how high a band is is left open, and so is how many images it has.

Where all results of a window are one tile (tensor/rewrites/fast_windows/winograd_taps.py), the products are of channels and
filters, and are summed over images and tiles. They are done *in blocks* of these: a block of products is transformed back
while it is near. Both operands may be transformed in blocks as well, some tiles at a time, just where they are multiplied; what
several blocks of products read is transformed for each of them.

    loops    bands of images, bands of rows, [data, products], image, row of tiles, column of tiles, vectors, points of a tile
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

from .....tensor.exceptional import exceptional_condition
from .....tensor.expr import Read, Var
from .....tensor.program import Program, Stage
from ....access import depends, finished, identity_read, plain_dimension
from ....extents import Extent, ceildiv
from ....prepared import constant_tensors
from ....schedule import LoopHandle, Schedule, StageHandle
from ...rule import Decided, Rule
from ..register_tile import RegisterTile, register_tile
from ..tile import Parts, can_tile, is_streamed, parts_of, tiles_of_blocks
from .filters import filters_of
from .transform import fed_at, transform_of, with_feeder, written_out


def _finished_transform(program: Program, stage: Stage, taken: Set[str]) -> Stage | None:
    """Returns the transform that a pointwise stage finishes in its order, or between whose results and stand-in sums it
    chooses."""

    def fits(read: Read, producer: Stage) -> bool:
        return identity_read(read, stage) and transform_of(program, producer) is not None

    found = finished(program, stage, taken, fits)
    return found if found is not None and len(_stand_ins(program, stage)) <= 1 else None


def _stand_ins(program: Program, stage: Stage) -> list[str]:
    """Returns the sums that stand in for something, and that the stage reads in its order."""
    found = []
    for read in stage.reads():
        producer = program.producers.get(read.tensor)
        if producer is not None and exceptional_condition(producer) is not None and identity_read(read, stage):
            found.append(producer.name)
    return found


def _matches(program: Program, stage: Stage, decided: Decided) -> str | None:
    chosen = _finished_transform(program, stage, decided.taken)
    return None if chosen is None else chosen.name


def _apply(s: Schedule, root: str, transform: str, decided: Decided) -> set[str]:
    """Schedules a stage that finishes a transform, or chooses between this and sums, with these."""
    found, feeder = with_feeder(s.program, transform, decided.taken)
    exact = _stand_ins(s.program, s.program.stage(root))
    band = None if feeder is None else _band_of(s.program, transform, feeder, found.written, decided.taken)
    band = band if band is not None and s.variant(f"{root} in bands", [False, True]) else None
    block = None if feeder is None else _block_of(s.program, transform, feeder, found.written, decided.taken)
    stage, names = s.stage(root), [axis.name for axis in s.program.stage(transform).axes]
    loops = dict(zip(names, stage.axes, strict=True))
    lanes = s.lanes(s.program.stage(transform).tensors[0].dtype)
    columns = loops.pop(found.vector)
    wide = [] if block is None else [tiles_of_blocks(s, f"{root}.column_blocks", columns.extent, lanes, lanes)]
    *across, vectors, vector = s.split(columns, *wide, lanes)
    cut = set() if band is None else {band.rows, *(loops.keys() - found.written.keys())}
    cut = cut if block is None else {block.rows}
    bands, around, inside = _cut(s, root, loops, found.written, cut)
    bands += across
    s.reorder(*bands, *around, vectors, *inside.values(), vector)
    s.unroll(*inside.values())
    s.vectorize(vector)
    s.parallel(*(bands or around))
    for name in (*exact, transform):
        _at_a_tile(s, s.compute_at(name, vectors), [names.index(n) for n in (*inside, found.vector)], name == transform)
    taken = {root, transform, *exact} | fed_at(s, feeder, vectors)
    if block is not None:
        return taken | _products_of_a_block(s, block, bands[-1])
    return taken if band is None else taken | _in_a_band(s, band, bands[-1])


def _cut(
    s: Schedule, root: str, loops: Mapping[str, LoopHandle], written: Mapping[str, int], cut: Set[str]
) -> tuple[list[LoopHandle], list[LoopHandle], dict[str, LoopHandle]]:
    """Cuts the loops of the root, of which some points are written out: the loops over bands, which axes to `cut` have, those
    over tiles, and, by their axes, those inside of a tile. An axis of which all points are written out has no others."""
    bands: dict[str, LoopHandle] = {}
    around: dict[str, LoopHandle] = {}
    inside = {name: loops[name] for name, points in written.items() if not points and name in loops}
    tiled = [name for name, points in written.items() if points]
    for name in (*tiled, *(name for name in loops if name not in written)):
        loop, points = loops[name], [written[name]] if name in tiled else []
        size = [s.factor(f"{root}.{name}.band", ceildiv(loop.extent, *points or [1]))] if name in cut else []
        pieces = [*s.split(loop, *size, *points)] if size or points else [loop]
        if size:
            bands[name] = pieces.pop(0)
        around[name] = pieces[0]
        if points:
            inside[name] = pieces[-1]
    return [bands[name] for name in loops if name in bands], [around[n] for n in loops if n in around], inside


def _at_a_tile(s: Schedule, stage: StageHandle, places: list[int], written: bool) -> None:
    """Schedules the points of a tile and a vector, which are `places` of axes, inside of sums, which may be `written` out."""
    *points, lanes = (stage.axes[place] for place in places)
    others = [loop for place, loop in enumerate(stage.axes) if place not in places]
    sums = list(stage.reduction)
    if written:
        sums = [piece for loop in sums for piece in s.split(loop, loop.extent)]
        s.unroll(*sums[1::2])
    s.reorder(*others, *sums, *points, lanes)
    s.unroll(*points)
    s.vectorize(lanes)


# In bands


@dataclass(frozen=True, slots=True)
class _Band:
    """Holds what runs in a band: the transform of the `data`, and its `products` with the constant `filters`. `rows`: the axis
    of the results along which bands follow one another."""

    rows: str
    products: str
    parts: Parts
    data: str
    filters: Read


def _band_of(
    program: Program, transform: str, feeder: str, written: Mapping[str, int], taken: Set[str]
) -> _Band | None:
    """Returns what can run in bands of the rows that the feeder alone writes out; None where something else needs it whole."""
    outer, inner = (transform_of(program, program.stage(name)) for name in (transform, feeder))
    assert outer is not None and inner is not None
    rows = [name for name, points in written.items() if points and name not in outer.written]
    found = _tileable(program, inner.data.tensor, taken)
    if len(rows) != 1 or found is None:
        return None
    products, parts = found
    if filters_of(program, products) is not None:  # each band would transform them again
        return None
    moving, resting = sorted(products.reads(), key=lambda read: not depends(read, parts.rows or ""))
    data = _alone(program, moving.tensor, taken)
    if data is None or transform_of(program, data) is None or resting.tensor not in constant_tensors(program):
        return None
    if any(plain_dimension(resting, axis) is None for axis in (parts.vector, parts.depth)):
        return None
    if is_streamed(program, products, parts):  # memory bounds the products, which then have an order of their own
        return None
    return _Band(rows[0], products.name, parts, data.name, resting)


def _tileable(program: Program, tensor: str, taken: Set[str]) -> tuple[Stage, Parts] | None:
    """Returns the products of two operands that make a tensor which one stage reads, and the parts of their axes."""
    products = _alone(program, tensor, taken)
    if products is None or len(products.reads()) != 2 or not can_tile(program, products, products):
        return None
    parts = parts_of(program, products, products)
    return None if parts is None or parts.rows is None else (products, parts)


def _alone(program: Program, tensor: str, taken: Set[str]) -> Stage | None:
    """Returns the stage that makes a tensor which one stage reads, and nobody else."""
    found = program.producers.get(tensor)
    if found is None or found.name in taken or found.name in program.outputs or len(program.consumers[tensor]) != 1:
        return None
    return found


@dataclass(frozen=True, slots=True)
class _BlockOfResults:
    """The `products` that a block of the results needs, of which a transform writes out all points. `rows`: the axis of the
    results along which the rows of these products lie; their columns are its vectors. `operands`: the transforms of what they
    multiply, where nothing else needs these."""

    rows: str
    products: str
    parts: Parts
    operands: tuple[str, ...]


def _block_of(
    program: Program, transform: str, feeder: str, written: Mapping[str, int], taken: Set[str]
) -> _BlockOfResults | None:
    """Returns the products that can run in blocks of the results, each of which is needed in one block. Those with a constant,
    which lies in the order of reading, have an order of their own."""
    outer, inner = (transform_of(program, program.stage(name)) for name in (transform, feeder))
    assert outer is not None and inner is not None
    found = _tileable(program, inner.data.tensor, taken)
    if any(written.values()) or found is None:
        return None
    products, parts = found
    if any(read.tensor in constant_tensors(program) for read in products.reads()):
        return None
    names: list[str | None] = [parts.rows, parts.vector]
    for made, read in ((products, inner.data), (program.stage(feeder), outer.data)):
        axes = {axis.name: index for axis, index in zip(made.axes, read.indices, strict=True)}
        names = [index.name if isinstance(index := axes.get(name or ""), Var) else None for name in names]
    rows, columns = names
    own = {axis.name for axis in program.stage(transform).axes} - written.keys()
    if rows not in own or columns != outer.vector:
        return None
    operands = [_alone(program, read.tensor, taken) for read in products.reads()]
    alone = tuple(one.name for one in operands if one is not None and transform_of(program, one) is not None)
    return _BlockOfResults(rows, products.name, parts, alone if len(alone) == len(operands) else ())


def _products_of_a_block(s: Schedule, block: _BlockOfResults, at: LoopHandle) -> set[str]:
    """Schedules the products of a block, which stay in a near cache until they are transformed; returns what was scheduled."""
    name, parts = block.products, block.parts
    tiled, definition = _tiled(s, name, parts, at), s.program.stage(name)
    held: Extent = definition.tensors[0].dtype.bytes
    for axis in definition.axes:
        held = held * tiled.loops[axis.name].extent
    s.require(held <= s.target("l2"), "the products of a block have a place in the second cache")
    more, others = ([tiled.loops[axis] for axis in axes] for axes in (parts.other_reductions, parts.others))
    transformed = block.operands and s.variant(f"{name} transforms inside", [False, True])
    if transformed:
        tiled.run(s, *more, tiled.block, *others, tiled.panel, tiled.rows)
    else:
        tiled.run(s, *others, tiled.block, tiled.panel, tiled.rows, *more)
    taken = {name}
    for operand in block.operands if transformed else ():
        taken |= _transformed_at(s, operand, tiled.block)
    return taken


def _transformed_at(s: Schedule, name: str, at: LoopHandle) -> set[str]:
    """Schedules a transform and the one that feeds it at a loop; returns what was scheduled."""
    found, feeder = with_feeder(s.program, name, frozenset())
    _, inner = written_out(s, s.compute_at(name, at), found)
    return {name} | fed_at(s, feeder, inner)


def _in_a_band(s: Schedule, band: _Band, at: LoopHandle) -> set[str]:
    """Schedules the products of a band and the transform of its data; returns what was scheduled."""
    return _products(s, band, at) | _transformed_at(s, band.data, at)


def _products(s: Schedule, band: _Band, at: LoopHandle) -> set[str]:
    """Schedules the products: each panel of the filters is brought near once, and serves all tiles of the band."""
    name, parts = band.products, band.parts
    tiled = _tiled(s, name, parts, at)
    shared = [tiled.loops[axis] for axis in parts.others if not depends(band.filters, axis)]
    others = [tiled.loops[axis] for axis in parts.others if depends(band.filters, axis)]
    more = [tiled.loops[axis] for axis in parts.other_reductions]
    tiled.run(s, *others, tiled.block, tiled.panel, *shared, tiled.rows, *more)
    packed = _packed(s, band, tiled.tile)
    s.bring(name, packed, tiled.panel, s.flag(f"{name}.bring"))
    return {name}


@dataclass(frozen=True, slots=True)
class _TiledProducts:
    """Products cut into register tiles. `loops`: those of the axes, before they were cut; `block`, `panel`, `rows`: the
    loops over blocks of the depth, panels of columns and tiles of rows; `inside`: those of a tile, outermost first."""

    tile: RegisterTile
    loops: Mapping[str, LoopHandle]
    block: LoopHandle
    panel: LoopHandle
    rows: LoopHandle
    inside: tuple[LoopHandle, ...]

    def run(self, s: Schedule, *around: LoopHandle) -> None:
        """Puts the loops of a tile inside of all others, in this order."""
        _, depth, row, vector, lanes = self.inside
        s.reorder(*around, *self.inside)
        s.unroll(depth, row, vector)
        s.vectorize(lanes)


def _tiled(s: Schedule, name: str, parts: Parts, at: LoopHandle) -> _TiledProducts:
    """Cuts products, which run at a loop, into tiles. Left open is how large these are, and how many steps of the depth a block
    has."""
    definition, first = s.program.stage(name), s.stage(name)
    points, along, depth = (
        first.along(definition, axis).extent for axis in (parts.rows or "", parts.vector, parts.depth)
    )
    tile = register_tile(s, name, points, along, depth, usual=2)
    deep = tiles_of_blocks(s, f"{name}.depth_blocks", depth, tile.unroll, least=32)
    stage = s.compute_at(name, at)
    loops = {axis.name: loop for axis, loop in zip(definition.all_axes, stage.loops, strict=True)}
    block, *sums = s.split(loops[parts.depth], deep, tile.unroll)
    rows, row = s.split(loops[parts.rows or ""], tile.rows)
    panel, *columns = s.split(loops[parts.vector], tile.vectors, tile.lanes)
    return _TiledProducts(tile, loops, block, panel, rows, (*sums, row, *columns))


def _packed(s: Schedule, band: _Band, tile: RegisterTile) -> str:
    """Copies the filters, once, in the order in which products read them; returns the copy."""
    made = s.copy(band.filters.tensor, band.products)
    along, deep = (plain_dimension(band.filters, axis) for axis in (band.parts.vector, band.parts.depth))
    assert along is not None and deep is not None
    pieces = s.split(made.loops[along], tile.vectors, tile.lanes)
    others = [loop for n, loop in enumerate(made.loops) if n not in (along, deep)]
    s.reorder(*others, pieces[0], made.loops[deep], *pieces[1:])
    s.unroll(pieces[1])
    s.vectorize(pieces[2])
    return made.name


CHOICE = Rule("choice", matches=_matches, apply=_apply)
