"""The matrix rule: products on a matrix unit that takes words of bf16 or of bytes, where the target has one.

First a rewrite makes three stages of a sum of products: both operands as words in the order in which tiles are loaded, and the
products of these: of float32 as parts of bf16 (tensor/rewrites/bf16_products.py), of bf16 and of bytes as they are
(tile_dots.py). The operands are packed once each, by all threads; the products run

    block of rows, block of columns, block of the depth, tiles of the block, depth, register tiles

A pointwise stage that finishes the products runs over each block while it is in a near cache. Beside it, for each vector that
has products which are infinite or NaN, the sums run that stand in for these (tensor/exceptional.py).
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from functools import lru_cache

from ....common.errors import ProgramError
from ....targets.matrix_instructions import MATRIX_INSTRUCTIONS, InstructionScope, MatrixInstruction, tile_instruction
from ....tensor.exceptional import exceptional_condition
from ....tensor.expr import Const, Expr, Read
from ....tensor.indices.affine import affine
from ....tensor.matrix_pairs import MatrixPairs, matrix_pairs
from ....tensor.program import Axis, Program, Stage
from ....tensor.rewrites.dot_words import dot_of_stage
from ....tensor.rewrites.pad_reads import can_pad_reads, guarded_reads
from ....tensor.rewrites.registry import apply_rewrite
from ...access import depends, finished, identity_read, output_stride
from ...extents import Extent, ceildiv, minimum
from ...prepared import constant_tensors
from ...schedule import LoopHandle, Schedule, StageHandle
from ..rule import Decided, Rule, nests_of_their_own
from .tile import tiles_of_blocks

LEAST = {"rows": 8, "columns": 16, "depth": 32}  # extents from which on the unit may pay
STRIP = 8  # tiles of columns that are
Units = tuple[MatrixInstruction, ...]
_UNITS = tuple(row for row in MATRIX_INSTRUCTIONS.values() if row.scope is InstructionScope.TILES)
OPERANDS = 2  # registers that are no accumulators: one operand each at least


@dataclass(frozen=True, slots=True)
class Products:
    """The parts of a stage for a matrix unit: its instruction, the axes of its tiles, and what it reads."""

    unit: MatrixInstruction
    rows: Axis
    columns: Axis
    word: Axis
    pairs: MatrixPairs


def _prepare(s: Schedule, decided: Decided) -> Decided:
    units = tuple(row for row in decided.instructions if row.scope is InstructionScope.TILES)
    if units:
        _rewrite(s, units)
    return decided


def _rewrite(s: Schedule, units: Units) -> None:
    """Gives, perhaps, each sum of products that fits to the unit. Of several, only the usual structures are tried."""
    if _next_rewrite(s, units) is None or not s.variant("matrix unit", [True, False]):
        return
    few = sum(_fitting(s, s.program, stage, units) is not None for stage in s.program.stages) > 1
    while (found := _next_rewrite(s, units)) is not None:
        name, arguments = found
        if name == "bf16_products":
            s.rewrite(name, **arguments, flat=[] if few else _flat(s, arguments))
        else:
            s.rewrite(name, **arguments)


def _flat(s: Schedule, arguments: dict[str, str]) -> list[str]:
    """Chooses the operands of which each block of products packs its own part, where that stays in a near cache."""
    stage, ready = s.program.stage(arguments["stage"]), constant_tensors(s.program)
    sides = {side: next(r.tensor for r in stage.reads() if depends(r, arguments[side])) for side in ("rows", "columns")}
    return [
        side
        for side, tensor in sides.items()
        if tensor not in ready and s.variant(f"{stage.name} {side} packed inside", [False, True])
    ]


def _next_rewrite(s: Schedule, units: Units) -> tuple[str, dict[str, str]] | None:
    """Returns the next rewrite for the unit. A stage that reads its data under guards gets a border for them first."""
    program = s.program
    for stage in program.stages:
        found = _fitting(s, program, stage, units)
        if found is not None:
            return found
        for tensor in dict.fromkeys(read.tensor for read in stage.reads()):
            if stage.combiner == "sum" and guarded_reads(stage, tensor) and can_pad_reads(program, stage, tensor):
                arguments = {"stage": stage.name, "tensor": tensor}
                padded = apply_rewrite(program, "pad_reads", arguments)
                if _fitting(s, padded, padded.stage(stage.name), units) is not None:
                    return "pad_reads", arguments
    return None


def _fitting(s: Schedule, program: Program, stage: Stage, units: Units) -> tuple[str, dict[str, str]] | None:
    """Returns how the words of a stage are made; None where the unit does not multiply its elements, or it is too small."""
    name = _rewrite_for(stage, units)
    axes = None if name is None or not s.allows(name) else _axes(program, stage.name, name)
    if name is None or axes is None:
        return None
    return name, {"stage": stage.name, **dict(zip(("rows", "columns", "depth"), axes, strict=True))}


def _rewrite_for(stage: Stage, units: Units) -> str | None:
    """Returns the rewrite that makes words of what a sum multiplies, if the unit has an instruction for these."""
    if stage.combiner != "sum" or len(stage.reads()) != 2:
        return None
    found = dot_of_stage(stage)
    if found is None:
        return None if tile_instruction(units, "bf16", "bf16") is None else "bf16_products"
    x, y = found[1]
    if tile_instruction(units, x.dtype.name, y.dtype.name) is None:
        return None
    return "bf16_tile_dots" if found[0].name == "bf16_dot" else "tile_dots"


@lru_cache(maxsize=256)  # each combination of variants asks again
def _axes(program: Program, name: str, rewrite: str) -> tuple[str, str, str] | None:
    """Returns rows, columns and depth of a stage that the unit may take by a rewrite, or None.

    Columns lie along memory if they can. Of axes that make equally many rows, the one that lies next to them is taken.
    """
    stage = program.stage(name)
    if name in constant_tensors(program):
        return None
    wide = sorted((a for a in stage.axes if a.extent >= LEAST["columns"]), key=lambda a: output_stride(stage, a.name))
    depths = sorted((a for a in stage.reduction if a.extent >= LEAST["depth"]), key=lambda a: -a.extent)
    for columns in wide:
        others = [a for a in reversed(stage.axes) if a.extent >= LEAST["rows"] and a != columns]
        high = sorted(others, key=lambda a: -a.extent)
        for rows in high:
            for depth in depths:
                arguments = {"stage": name, "rows": rows.name, "columns": columns.name, "depth": depth.name}
                try:
                    apply_rewrite(program, rewrite, arguments)
                except ProgramError:
                    continue
                return rows.name, columns.name, depth.name
    return None


def products_of(stage: Stage) -> Products | None:
    """Returns the parts of a stage that the rewrite has made, which is known by its form; None for any other stage."""
    if stage.combiner != "sum" or len(stage.axes) < 2 or len(stage.reduction) < 2:
        return None
    rows, columns, (block, word) = stage.axes[-2], stage.axes[-1], stage.reduction[-2:]
    pairs = matrix_pairs(stage.bodies[0], rows.name, columns.name)
    unit = None if pairs is None else tile_instruction(_UNITS, pairs.a, pairs.b)
    if pairs is None or not all(_is_packed(read, block.var) for read in (*pairs.rows, *pairs.columns)):
        return None  # words of other rewrites lie as their elements did
    if unit is None or rows.extent % unit.m or columns.extent % unit.n or word.extent != unit.words:
        return None
    return Products(unit, rows, columns, word, pairs)


def _is_packed(read: Read, block: Expr) -> bool:
    """Says whether words lie as the rewrites lay them: [.., block of the depth, part, two dimensions of a tile]."""
    return len(read.indices) >= 4 and read.indices[-4] == block and isinstance(read.indices[-3], Const)


def _products(program: Program, name: str) -> Products:
    """Returns the parts of a stage that is one of products."""
    found = products_of(program.stage(name))
    assert found is not None
    return found


def _kept_products(program: Program) -> frozenset[str]:
    """Returns products and their packed operands, which stay stages of their own: no other stage takes them in."""
    found: set[str] = set()
    for stage in program.stages:
        if products_of(stage) is not None:
            found |= {stage.name, *(read.tensor for read in stage.reads()), *_exact(program, stage.name)}
    return frozenset(found)


def _choosing(program: Program) -> frozenset[str]:
    """Returns the stages that choose between products and stand-in sums, which run beside them: nests of their own."""
    return frozenset(
        reader.name
        for stage in program.stages
        if exceptional_condition(stage) is not None
        for reader in program.consumers[stage.name]
    )


def _exact(program: Program, products: str) -> tuple[str, ...]:
    """Returns the sums that stand in at points whose products are not finite."""
    return tuple(reader.name for reader in program.consumers[products] if exceptional_condition(reader) is not None)


def _finishes_products(program: Program, stage: Stage, taken: Set[str]) -> Stage | None:
    """Returns the products that a pointwise stage finishes, point by point in its own order."""

    def fits(read: Read, producer: Stage) -> bool:
        return identity_read(read, stage) and products_of(producer) is not None

    return finished(program, stage, taken, fits)


def _apart(s: Schedule, name: str, at: LoopHandle) -> None:
    """Runs sums that are hardly ever asked for, a vector of them at a time. That is right, and little code."""
    stage = s.compute_at(name, at)
    *others, column = stage.axes
    s.reorder(*others, *stage.reduction, column)
    s.unroll(*others)
    s.vectorize(column)


def _matches_packed(program: Program, stage: Stage, decided: Decided) -> str | None:
    """Matches an operand of products, which is packed."""
    read = any(products_of(reader) is not None for reader in program.consumers[stage.name])
    return stage.name if read else None


def _apply_packed(s: Schedule, root: str, anchor: str, decided: Decided) -> set[str]:
    """Packs an operand in a nest of its own."""
    s.parallel(*_pack(s, s.stage(root)))
    return {root}


def _pack(s: Schedule, stage: StageHandle) -> list[LoopHandle]:
    """Makes all parts of a word at once, words side by side in vectors. Returns the loops around, outermost first.

    Tiles of rows, or strips of columns, let memory be read in its order (1024 x 1024, Sapphire Rapids, two threads: 0.25
    instead of 0.85 ms).
    """
    *outer, part, row, word = stage.axes
    read, products = _read_of(s.program, stage.name), _products(s.program, s.program.consumers[stage.name][0].name)
    columns, width = not any(read.tensor == stage.name for read in products.pairs.rows), products.unit.n
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


def _read_of(program: Program, name: str) -> Read:
    """Returns the first read of a packed operand."""
    return next(read for read in program.consumers[name][0].reads() if read.tensor == name)


def _is_tiled(read: Read) -> bool:
    """Tells whether tiles of rows or columns are a dimension of a packed operand: its indices are quotients then."""
    return not all(affine(index).is_linear for index in read.indices)


def _matches(program: Program, stage: Stage, decided: Decided) -> str | None:
    """Matches products, or else a stage that finishes some."""
    products = stage if products_of(stage) is not None else _finishes_products(program, stage, decided.taken)
    return None if products is None else products.name


def _apply(s: Schedule, root: str, name: str, decided: Decided) -> set[str]:
    """Schedules products, with the stage that finishes them if that is another one."""
    unit = _products(s.program, name).unit
    rows, columns = (ceildiv(loop.extent, n) for loop, n in zip(s.stage(name).axes[-2:], (unit.m, unit.n), strict=True))
    high = s.factor(f"{name}.rows", rows, at_most=3, default=2)
    wide = s.factor(f"{name}.columns", columns, at_most=unit.registers - OPERANDS, default=2)
    s.require(s.target("has_matrix_unit") >= 1, "the target has a matrix unit")
    s.require(high * wide + OPERANDS <= unit.registers, "accumulators and an operand each fit in the tile registers")
    several = sum(products_of(stage) is not None for stage in s.program.stages) > 1
    columns_inside = several or s.variant(f"{name} columns inside", [True, False])
    inside = _packed_inside(s, name)
    if root == name:
        _alone(s, name, high, wide, columns_inside, inside)
        return {name, *inside}
    at, vector = _finishing(s, root, name, high, wide)
    exact = _exact(s.program, name)
    for one in exact:
        _apart(s, one, vector)
    stage = s.compute_at(name, at)
    pieces = s.split(stage.axes[-2], high, unit.m), s.split(stage.axes[-1], wide, unit.n)
    _tile(s, stage, list(stage.axes[:-2]), *pieces, columns_inside, inside)
    return {root, name, *exact, *inside}


def _packed_inside(s: Schedule, name: str) -> list[str]:
    """Returns the operands that the rewrite has left flat: blocks of products pack their parts of them."""
    found = _products(s.program, name)
    ready = constant_tensors(s.program)
    sides = ((found.pairs.rows[0], found.rows), (found.pairs.columns[0], found.columns))
    return [read.tensor for read, axis in sides if read.tensor not in ready and axis.var in read.indices]


def _alone(s: Schedule, name: str, high: Extent, wide: Extent, columns_inside: bool, inside: list[str]) -> None:
    """Makes a nest of the products alone, which no stage finishes at once."""
    stage, unit = s.stage(name), _products(s.program, name).unit
    *others, row_loop, column_loop = stage.axes
    tall = tiles_of_blocks(s, f"{name}.row_blocks", row_loop.extent, high * unit.m, 2 * unit.m)
    broad = tiles_of_blocks(s, f"{name}.column_blocks", column_loop.extent, wide * unit.n, 2 * unit.n)
    rows = s.split(row_loop, tall, high, unit.m)
    columns = s.split(column_loop, broad, wide, unit.n)
    around = [*others, rows[0], columns[0]]
    _tile(s, stage, around, rows[1:], columns[1:], columns_inside, inside)
    s.parallel(*around)


def _finishing(s: Schedule, root: str, name: str, high: Extent, wide: Extent) -> tuple[LoopHandle, LoopHandle]:
    """Schedules the stage that finishes the products, in blocks. Returns the loops of a block of products and of a vector."""
    stage, unit = s.stage(root), _products(s.program, name).unit
    *others, row_loop, column_loop = stage.axes
    tall = tiles_of_blocks(s, f"{name}.row_blocks", row_loop.extent, high * unit.m, 2 * unit.m)
    broad = tiles_of_blocks(s, f"{name}.column_blocks", column_loop.extent, wide * unit.n, 2 * unit.n)
    lanes = s.lanes(stage.definition.tensors[0].dtype)
    rows = s.split(row_loop, tall * high * unit.m)
    columns = s.split(column_loop, ceildiv(broad * wide * unit.n, lanes), lanes)
    s.reorder(*others, rows[0], columns[0], rows[1], *columns[1:])
    s.vectorize(columns[-1])
    s.parallel(*others, rows[0], columns[0])
    return columns[0], columns[1]


def _tile(
    s: Schedule,
    stage: StageHandle,
    around: list[LoopHandle],
    rows: tuple[LoopHandle, ...],
    columns: tuple[LoopHandle, ...],
    columns_inside: bool,
    inside: list[str],
) -> None:
    """Orders the loops of the products inside of a block.

    `rows` and `columns` are tiles in the block, tiles in registers, and their sides; `stage` is as it was before the split.
    """
    name = stage.name
    *others, depth, word = stage.reduction
    block = tiles_of_blocks(s, f"{name}.depth_blocks", depth.extent, 1, 1)
    pieces = s.split(depth, block)
    tiles = [rows[0], columns[0]] if columns_inside else [columns[0], rows[0]]
    s.reorder(*around, pieces[0], *tiles, *others, pieces[1], rows[1], columns[1], rows[2], columns[2], word)
    s.unroll(rows[1], columns[1], rows[2], word)
    s.vectorize(columns[2])
    found = _products(s.program, name)
    s.tensorize(name, found.unit.name)
    first, second = found.pairs.rows[0].tensor, found.pairs.columns[0].tensor
    moved = first if columns_inside else second
    if moved not in inside:
        s.bring(name, moved, tiles[0], s.flag(f"{name}.bring"))
    for operand in inside:
        _pack(s, s.compute_at(operand, pieces[0]))


PRODUCTS = Rule("products", _prepare, _matches, _apply)
PACKED = Rule("packed", matches=_matches_packed, apply=_apply_packed)
PRODUCTS_APART = Rule("products apart", nests_of_their_own(_kept_products))
CHOICES_APART = Rule("choices apart", nests_of_their_own(_choosing))
