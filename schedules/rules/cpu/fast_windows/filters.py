"""The filters rule: large filters of fast convolutions, transformed in each call, block by block, instead of ahead.

    U[c, y, x, o] = sum[s](G[x, s] * sum[r](G[y, r] * filter))        M[y, x, t, o] = sum[c](V[y, x, t, c] * U[c, y, x, o])

A filter that was transformed ahead is up to four times as large, is memory that nothing else can have, and is read from there
in each call. Here a block of filters is transformed right where it is multiplied: it lies in the core's own cache meanwhile,
all points of one c together, so that it is written from front to back. That takes as much time as a few tiles of an image do,
so it is worth while for many.

    loops    block of columns, block of the depth, [transform of the filters], points, tiles of columns, others, tiles of rows,
             depth, rows, vectors, lanes
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from .....tensor.expr import Read, Var
from .....tensor.program import Program, Stage
from ....access import depends, plain_dimension
from ....prepared import constant_tensors
from ....schedule import LoopHandle, Schedule
from ...rule import Decided, Rule
from ..register_tile import register_tile
from ..tile import Parts, can_tile, parts_of, tiles_of_blocks
from .transform import Transform, any_transform_of, written_out


@dataclass(frozen=True, slots=True)
class Filters:
    """The two transforms of the filters of some products, one direction each. `points`: axes of the products that tell points
    of a tile apart. `read`: what the first transform reads."""

    parts: Parts
    points: tuple[str, ...]
    half: str
    whole: str
    read: Read


def filters_of(program: Program, products: Stage) -> Filters | None:
    """Returns what transforms the constant operand of products, where it does so in halves; None for anything else."""
    parts = parts_of(program, products, products) if can_tile(program, products, products) else None
    if parts is None or parts.rows is None or len(products.reads()) != 2:
        return None
    fixed = [read for read in products.reads() if not depends(read, parts.rows)]
    if len(fixed) != 1:  # rows may be in a condition alone
        return None
    operand = fixed[0]
    whole = _constant_transform(program, operand)
    half = None if whole is None else _constant_transform(program, whole[1].data)
    if whole is None or half is None or any(plain_dimension(operand, a) is None for a in (parts.vector, parts.depth)):
        return None
    if not all(isinstance(index, Var) for index in whole[1].data.indices):
        return None
    read = half[1].data
    if plain_dimension(read, half[1].vector) is None:
        return None
    points = tuple(axis for axis in parts.others if depends(operand, axis))
    return Filters(parts, points, half[0], whole[0], read)


def _constant_transform(program: Program, read: Read) -> tuple[str, Transform] | None:
    """Returns the transform of constants that makes what is read, and that nothing else reads."""
    producer = program.producers.get(read.tensor)
    if producer is None or producer.name not in constant_tensors(program) or len(program.consumers[producer.name]) != 1:
        return None
    found = any_transform_of(program, producer)
    return None if found is None else (producer.name, found)


def _matches(program: Program, stage: Stage, decided: Decided) -> str | None:
    return stage.name if filters_of(program, stage) is not None else None


def _apply(s: Schedule, root: str, anchor: str, decided: Decided) -> set[str]:
    """Schedules products and, in their blocks, the transforms of their filters."""
    definition = s.program.stage(root)
    found = filters_of(s.program, definition)
    assert found is not None
    parts = found.parts
    loops = {axis.name: loop for axis, loop in zip(definition.all_axes, s.stage(root).loops, strict=True)}
    rows, along, depth = loops[parts.rows or ""], loops[parts.vector], loops[parts.depth]
    tile = register_tile(s, root, rows.extent, along.extent, depth.extent, usual=2)
    wide = tiles_of_blocks(s, f"{root}.column_blocks", along.extent, tile.vectors * tile.lanes, tile.lanes)
    deep = tiles_of_blocks(s, f"{root}.depth_blocks", depth.extent, tile.unroll, least=32)
    columns = s.split(along, wide, tile.vectors, tile.lanes)
    sums = s.split(depth, deep, tile.unroll)
    tiles = s.split(rows, tile.rows)
    points = [loops[axis] for axis in found.points]
    others = [loops[axis] for axis in parts.others if axis not in found.points]
    more = [loops[axis] for axis in parts.other_reductions]
    inside = [*more, *sums[1:], tiles[1], *columns[2:]]
    s.reorder(columns[0], sums[0], *points, columns[1], *others, tiles[0], *inside)
    s.parallel(columns[0])
    s.unroll(sums[2], tiles[1], columns[2])
    s.vectorize(columns[3])
    _transformed_at(s, found, sums[0])
    return {root, found.whole, found.half}


def _transformed_at(s: Schedule, found: Filters, at: LoopHandle) -> None:
    """Schedules both transforms of a block of filters, vector by vector, and copies the filters once, in the order in which
    these read them."""
    stages = [s.program.stage(name) for name in (found.whole, found.half)]
    whole, half = (any_transform_of(s.program, stage) for stage in stages)
    assert whole is not None and half is not None
    sums = {axis.name for axis in stages[0].reduction}
    read = zip(whole.data.indices, stages[1].axes, strict=True)
    names = {index.name: axis.name for index, axis in read if isinstance(index, Var)}
    written = {outer: 0 for outer, inner in names.items() if inner in half.written}
    _, inner = written_out(s, s.compute_at(found.whole, at), replace(whole, written={**whole.written, **written}))
    written = {inner: 0 for outer, inner in names.items() if outer in sums}
    written_out(s, s.compute_at(found.half, inner), replace(half, written={**half.written, **written}))
    made = s.copy(found.read.tensor, found.half)
    along = plain_dimension(found.read, half.vector)
    assert along is not None
    pieces = s.split(made.loops[along], s.lanes(stages[1].tensors[0].dtype))
    s.reorder(pieces[0], *(loop for n, loop in enumerate(made.loops) if n != along), pieces[1])
    s.vectorize(pieces[1])


FILTERS = Rule("filters", matches=_matches, apply=_apply)
