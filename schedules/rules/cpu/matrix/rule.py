"""The matrix rule: products on a matrix unit that takes words of bf16 or of bytes, where the target has one.

First a rewrite makes three stages of a sum of products: both operands as words in the order in which tiles are loaded, and the
products of these: of float32 as parts of bf16 (tensor/rewrites/tiles/bf16_parts.py), of bf16 and of bytes as they are
(dots.py there). The operands are packed once each, by all threads; the products run

    block of rows, block of columns, block of the depth, tiles of the block, depth, register tiles

or columns outside of all rows, which then share a panel of columns in a near cache, however many dimensions rows have. Rows of
an input that lie in memory as tiles have them may be loaded from there, without a copy.

A pointwise stage that finishes the products runs over each block while it is in a near cache. Beside it, for each vector that
has products which are infinite or NaN, the sums run that stand in for these (tensor/exceptional.py).
"""

from __future__ import annotations

from .....tensor.program import Program, Stage
from ....extents import Extent, ceildiv
from ....prepared import constant_tensors
from ....schedule import LoopHandle, Schedule
from ...rule import Decided, Rule, nests_of_their_own
from ..tile import tiles_of_blocks
from .products import (
    can_stay,
    choosing,
    finishes_products,
    kept_products,
    lines_of,
    numbers_of,
    packed_flat,
    products_of,
    slides,
    stand_ins,
    the_products,
)
from .tiles import apart, pack, register_tiles, tile_products
from .words import prepare


def _matches_packed(program: Program, stage: Stage, decided: Decided) -> str | None:
    """Matches an operand of products, which is packed."""
    read = any(products_of(reader) is not None for reader in program.consumers[stage.name])
    return stage.name if read else None


def _apply_packed(s: Schedule, root: str, anchor: str, decided: Decided) -> set[str]:
    """Packs an operand in a nest of its own."""
    lines = lines_of(s.program, root)
    s.parallel(*pack(s, s.stage(root)))
    return {root} if lines is None else {root, lines}


def matches(program: Program, stage: Stage, decided: Decided) -> str | None:
    """Matches products, or else a stage that finishes some."""
    products = stage if products_of(stage) is not None else finishes_products(program, stage, decided.taken)
    return None if products is None else products.name


def _apply(s: Schedule, root: str, name: str, decided: Decided) -> set[str]:
    """Schedules products, with the stage that finishes them if that is another one."""
    unit = the_products(s.program, name).unit
    high, wide = register_tiles(s, s.stage(name))
    several = sum(products_of(stage) is not None for stage in s.program.stages) > 1
    inside = _packed_inside(s, name)
    numbers = any(numbers_of(s.program, operand) is not None for operand in inside)
    # numbers become words of one tile of columns after the other, so these stand outside of rows
    columns_inside = several or (not numbers and s.variant(f"{name} columns inside", [True, False]))
    columns_outside = not several and s.variant(f"{name} columns outside", [False, True])
    if root == name:
        _alone(s, name, high, wide, columns_inside, columns_outside, inside)
        return {name, *inside}
    at, vector, blocks = _finishing(s, root, name, high, wide, columns_outside)
    exact = stand_ins(s.program, name)
    for one in exact:
        apart(s, one, vector)
    stage = s.compute_at(name, at)
    pieces = s.split(stage.axes[-2], high, unit.m), s.split(stage.axes[-1], wide, unit.n)
    tile_products(s, stage, list(stage.axes[:-2]), *pieces, columns_inside, inside, blocks=blocks)
    return {root, name, *exact, *inside}


def _packed_inside(s: Schedule, name: str) -> list[str]:
    """Returns the operands of which blocks of products pack their parts: those that the rewrite has left flat, and, perhaps,
    rows along which windows slide."""
    found = the_products(s.program, name)
    ready = constant_tensors(s.program)
    sides = ((found.pairs.rows[0], found.rows), (found.pairs.columns[0], found.columns))
    flat = [read.tensor for read, axis in sides if packed_flat(read, axis)]
    rows = found.pairs.rows[0]
    if slides(rows, found.rows) and s.variant("rows packed inside", [False, True]):
        flat.append(rows.tensor)
    return [tensor for tensor in flat if tensor not in ready or numbers_of(s.program, tensor) is not None]


def _alone(
    s: Schedule,
    name: str,
    high: Extent,
    wide: Extent,
    columns_inside: bool,
    columns_outside: bool,
    inside: list[str],
) -> None:
    """Makes a nest of the products alone, which no stage finishes at once."""
    stage, unit = s.stage(name), the_products(s.program, name).unit
    *others, row_loop, column_loop = stage.axes
    tall = tiles_of_blocks(s, f"{name}.row_blocks", row_loop.extent, high * unit.m, 2 * unit.m)
    broad = tiles_of_blocks(s, f"{name}.column_blocks", column_loop.extent, wide * unit.n, 2 * unit.n)
    rows = s.split(row_loop, tall, high, unit.m)
    columns = s.split(column_loop, broad, wide, unit.n)
    around = [columns[0], *others, rows[0]] if columns_outside else [*others, rows[0], columns[0]]
    tile_products(s, stage, around, rows[1:], columns[1:], columns_inside, inside, blocks=columns[0])
    s.parallel(*around)


def _finishing(
    s: Schedule, root: str, name: str, high: Extent, wide: Extent, columns_outside: bool
) -> tuple[LoopHandle, LoopHandle, LoopHandle]:
    """Schedules the stage that finishes the products, in blocks. Returns the loops of a block of products, of a vector, and
    over blocks of columns."""
    stage, unit = s.stage(root), the_products(s.program, name).unit
    *others, row_loop, column_loop = stage.axes
    points = [] if len(stage.axes) == len(s.program.stage(name).axes) else [row_loop]  # of a row of an image
    if points:
        *others, row_loop = others
        tall = ceildiv(row_loop.extent, s.factor(f"{name}.row_blocks", row_loop.extent, default=1))
    else:
        tall = tiles_of_blocks(s, f"{name}.row_blocks", row_loop.extent, high * unit.m, 2 * unit.m) * high * unit.m
    broad = tiles_of_blocks(s, f"{name}.column_blocks", column_loop.extent, wide * unit.n, 2 * unit.n)
    lanes = s.lanes(stage.definition.tensors[0].dtype)
    rows = s.split(row_loop, tall)
    columns = s.split(column_loop, ceildiv(broad * wide * unit.n, lanes), lanes)
    around = [columns[0], *others, rows[0]] if columns_outside else [*others, rows[0], columns[0]]
    s.reorder(*around, rows[1], *points, *columns[1:])
    s.vectorize(columns[-1])
    s.parallel(*around)
    return around[-1], columns[1], columns[0]


def _keep_apart(s: Schedule, decided: Decided) -> Decided:
    """Leaves words of rows where they are, perhaps, now that all rewrites are done; the others are nests of their own."""
    there = [stage.name for stage in s.program.stages if can_stay(s.program, stage.name)]
    if there and s.variant("rows in place", [True, False]):
        s.inline(*there)
    return decided.with_nests(kept_products(s.program))


PRODUCTS = Rule("products", prepare, matches, _apply)
PACKED = Rule("packed", matches=_matches_packed, apply=_apply_packed)
PRODUCTS_APART = Rule("products apart", _keep_apart)
CHOICES_APART = Rule("choices apart", nests_of_their_own(choosing))
