"""How products run on a matrix unit: packed operands, register tiles, and the blocks around them."""

from __future__ import annotations

from collections.abc import Collection

from .....tensor.expr import Read
from .....tensor.indices.affine import affine
from .....tensor.program import Program
from ....extents import Extent, ceildiv, minimum
from ....schedule import LoopHandle, Schedule, StageHandle
from ..tile import tiles_of_blocks
from ..transpose import square
from .products import in_place, lines_of, numbers_of, the_products

OPERANDS = 2  # registers that are no accumulators: one operand each at least
STRIP = 8  # tiles of columns that are packed together


def pack(s: Schedule, stage: StageHandle) -> list[LoopHandle]:
    """Makes all parts of a word at once, words side by side in vectors. Returns the loops around, outermost first.

    Tiles of rows, or strips of columns, let memory be read in its order (1024 x 1024, Sapphire Rapids, two threads: 0.25
    instead of 0.85 ms).
    """
    *outer, part, row, word = stage.axes
    read, products = _read_of(s.program, stage.name), the_products(s.program, s.program.consumers[stage.name][0].name)
    columns, width = not any(read.tensor == stage.name for read in products.pairs.rows), products.unit.n
    lines = lines_of(s.program, stage.name)
    if lines is not None:
        return _turn(s, stage, lines)
    if _is_tiled(read) and columns:
        tiles, *others, block = outer
        strip, tile = s.split(tiles, minimum(STRIP, tiles.extent))
        lanes = s.split(word, width)[1]
        around, inside = [*others, block, strip], [row, tile]
    elif columns:
        tile, lanes = s.split(word, width)
        around, inside = outer, [row, tile]
    elif _is_tiled(read):
        lanes = s.split(word, width)[1]
        around, inside = outer[:-1], [outer[-1], row]
    else:
        high, low = s.split(row, products.unit.m)
        lanes = s.split(word, width)[1]
        around, inside = [*outer[:-1], high], [outer[-1], low]
    s.reorder(*around, *inside, part, lanes)
    s.unroll(part)
    s.vectorize(lanes)
    return around


def _turn(s: Schedule, stage: StageHandle, lines: str) -> list[LoopHandle]:
    """Makes a tile's words as they lie along the depth, and turns them in registers. Returns the loops around.

    Elements of a word of columns would come from memory one by one: of a head's 512 x 64 keys 47 instead of 12 cycles for
    each vector (Granite Rapids).
    """
    tiles, *others, block, part, word, column = stage.axes
    strip, tile = s.split(tiles, minimum(STRIP, tiles.extent))
    around = [*others, block, strip]
    s.reorder(*around, tile, part, word, column)
    s.unroll(part, word)
    s.vectorize(column)
    square(s, lines, stage.name, len(stage.axes) - 1, tile)
    made = s.compute_at(lines, tile)
    s.unroll(*made.axes[-3:-1])
    s.vectorize(made.axes[-1])
    return around


def _read_of(program: Program, name: str) -> Read:
    """Returns the first read of a packed operand."""
    return next(read for read in program.consumers[name][0].reads() if read.tensor == name)


def _is_tiled(read: Read) -> bool:
    """Tells whether tiles of rows or columns are a dimension of a packed operand: its indices are quotients then."""
    return not all(affine(index).is_linear for index in read.indices)


def tile_products(
    s: Schedule,
    stage: StageHandle,
    around: list[LoopHandle],
    rows: tuple[LoopHandle, ...],
    columns: tuple[LoopHandle, ...],
    columns_inside: bool,
    inside: Collection[str] = (),
    near: Collection[str] = (),
    blocks: LoopHandle | None = None,
) -> None:
    """Orders the loops of the products inside of a block.

    `rows` and `columns` are tiles in the block, tiles in registers, and their sides; `stage` is as it was before the split.
    Operands in `inside` are packed for each block of the depth, `blocks` being the loop over blocks of columns; those in `near`
    are in a near cache, as something else has just made them.
    """
    name = stage.name
    *others, depth, word = stage.reduction
    block = tiles_of_blocks(s, f"{name}.depth_blocks", depth.extent, 1, 1)
    pieces = s.split(depth, block)
    tiles = [rows[0], columns[0]] if columns_inside else [columns[0], rows[0]]
    s.reorder(*around, pieces[0], *tiles, *others, pieces[1], rows[1], columns[1], rows[2], columns[2], word)
    s.unroll(rows[1], columns[1], rows[2], word)
    s.vectorize(columns[2])
    found = the_products(s.program, name)
    s.tensorize(name, found.unit.name)
    first, second = found.pairs.rows[0].tensor, found.pairs.columns[0].tensor
    moved = first if columns_inside else second
    there = columns_inside and in_place(found.pairs.rows[0])
    if not there and moved not in (*inside, *near):
        s.bring(name, moved, tiles[0], s.flag(f"{name}.bring"))
    for operand in inside:
        numbers = numbers_of(s.program, operand)
        at_once = columns_inside or operand == first
        if at_once or not (numbers or s.variant(f"{name} packed on first use", [True, False])):
            pack(s, s.compute_at(operand, pieces[0]))
            continue
        _pack_on_first_use(s, operand, name, columns[0], pieces[1])
        if numbers is not None and blocks is not None:
            s.bring(name, numbers, columns[0])
            s.bring(name, numbers, blocks, 1 - minimum(columns[0].extent - 1, 1))


def _pack_on_first_use(s: Schedule, operand: str, products: str, at: LoopHandle, depth: LoopHandle) -> None:
    """Makes words of columns for one register tile of them at a time, where its first rows are multiplied: vectors make words
    while the unit works, which lie one behind the other, and go no farther than a near cache.

    1024 x 1024 x 1024 of f32, two threads of a Granite Rapids: 5.9 ms where a block packs all of its columns first, 3.9.
    """
    n = the_products(s.program, products).unit.n
    made = s.copy(operand, products)
    s.inline(operand)
    made = s.compute_at(made.name, at)
    *others, block, part, row, column = made.loops
    tile, lanes = s.split(column, n)
    s.reorder(tile, *others, block, row, part, lanes)
    s.unroll(part)
    s.vectorize(lanes)
    s.on_first_use(made, depth)


def register_tiles(s: Schedule, stage: StageHandle) -> tuple[Extent, Extent]:
    """Leaves open how many tiles of rows and of columns of the products are in registers."""
    name, unit = stage.name, the_products(s.program, stage.name).unit
    rows, columns = (ceildiv(s.most(loop), n) for loop, n in zip(stage.axes[-2:], (unit.m, unit.n), strict=True))
    high = s.factor(f"{name}.rows", rows, at_most=3, default=2)
    wide = s.factor(f"{name}.columns", columns, at_most=unit.registers - OPERANDS, default=2)
    s.require(s.target("has_matrix_unit") >= 1, "the target has a matrix unit")
    s.require(high * wide + OPERANDS <= unit.registers, "accumulators and an operand each fit in the tile registers")
    return high, wide


def apart(s: Schedule, name: str, at: LoopHandle) -> None:
    """Runs sums that are hardly ever asked for, a vector of them at a time. That is right, and little code."""
    stage = s.compute_at(name, at)
    *others, column = stage.axes
    s.reorder(*others, *stage.reduction, column)
    s.unroll(*others)
    s.vectorize(column)
