"""What products on a matrix unit are, found by their form."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from .....common.remembered import remembered
from .....targets.matrix_instructions import MATRIX_INSTRUCTIONS, InstructionScope, MatrixInstruction, tile_instruction
from .....tensor.dtype import i32
from .....tensor.exceptional import exceptional_condition
from .....tensor.expr import Const, Expr, Read, variables
from .....tensor.indices.affine import affine
from .....tensor.matrix_pairs import MatrixPairs, matrix_pairs
from .....tensor.program import Axis, Program, Stage
from .....tensor.rewrites.dot_words import is_packed
from ....access import finished, identity_read
from ....inlining import inline_stages
from ....prepared import constant_tensors

_UNITS = tuple(row for row in MATRIX_INSTRUCTIONS.values() if row.scope is InstructionScope.TILES)


@dataclass(frozen=True, slots=True)
class Products:
    """The parts of a stage for a matrix unit: its instruction, the axes of its tiles, and what it reads."""

    unit: MatrixInstruction
    rows: Axis
    columns: Axis
    word: Axis
    pairs: MatrixPairs


@remembered
def products_of(stage: Stage) -> Products | None:
    """Returns the parts of a stage that the rewrite has made, which is known by its form; None for any other stage."""
    if stage.combiner != "sum" or len(stage.axes) < 2 or len(stage.reduction) < 2:
        return None
    rows, columns, (block, word) = stage.axes[-2], stage.axes[-1], stage.reduction[-2:]
    pairs = matrix_pairs(stage.bodies[0], rows.name, columns.name)
    unit = None if pairs is None else tile_instruction(_UNITS, pairs.a, pairs.b)
    if pairs is None or unit is None or not all(_is_packed(read, block.var) for read in pairs.columns):
        return None  # words of other rewrites lie as their elements did
    if not all(_is_packed(read, block.var) or _is_in_place(read, rows, unit, block, word) for read in pairs.rows):
        return None
    if rows.extent % unit.m or columns.extent % unit.n or word.extent != unit.words:
        return None
    return Products(unit, rows, columns, word, pairs)


def _is_packed(read: Read, block: Expr) -> bool:
    """Says whether words lie as the rewrites lay them: [.., block of the depth, part, two dimensions of a tile]."""
    return len(read.indices) >= 4 and read.indices[-4] == block and isinstance(read.indices[-3], Const)


def in_place(read: Read) -> bool:
    """Says whether words are elements of a narrow tensor, where these lie."""
    return read.dtype != i32


def _is_in_place(read: Read, rows: Axis, unit: MatrixInstruction, block: Axis, word: Axis) -> bool:
    """Says whether words of rows lie in a narrow tensor as a tile has them."""
    if not in_place(read) or [index for index in read.indices[:-1] if rows.name in variables(index)] != [rows.var]:
        return False
    return affine(read.indices[-1]) == affine((block.var * unit.words + word.var) * unit.group)


def packed_flat(read: Read, axis: Axis) -> bool:
    """Says whether the rewrite has left words of an operand flat along its rows or columns: each block packs its own part."""
    return not in_place(read) and axis.var in read.indices


def slides(read: Read, rows: Axis) -> bool:
    """Says whether words of rows are packed one behind the other, and windows begin at any of them."""
    places = [affine(index) for index in read.indices if rows.name in variables(index)]
    return not in_place(read) and all(place.is_linear and len(place.terms) > 1 for place in places)


def can_stay(program: Program, name: str) -> bool:
    """Tells whether words of rows, as a rewrite packs them, are elements of an input just as tiles need them, so that tiles are
    loaded from there: no row is beyond its end, nor any element of the depth."""
    stage = program.stage(name)
    given = {tensor.tensor.name for tensor in program.inputs if not tensor.constant}
    readers = program.consumers[name]
    found = products_of(readers[0]) if len(readers) == 1 else None
    if found is None or found.pairs.rows[0].tensor != name or not {read.tensor for read in stage.reads()} <= given:
        return False
    if packed_flat(found.pairs.rows[0], found.rows):
        return False
    products = products_of(inline_stages(program, (name,)).stage(readers[0].name))
    if products is None:
        return False
    read = products.pairs.rows[0]
    return program.tensors[read.tensor].shape[read.indices.index(products.rows.var)] == products.rows.extent


def the_products(program: Program, name: str) -> Products:
    """Returns the parts of a stage that is one of products."""
    found = products_of(program.stage(name))
    assert found is not None
    return found


def finishes_products(program: Program, stage: Stage, taken: Set[str]) -> Stage | None:
    """Returns the products that a pointwise stage finishes, point by point in its own order, or as an image of which the rows
    of the products are all rows, one behind the other."""

    def fits(read: Read, producer: Stage) -> bool:
        return products_of(producer) is not None and (identity_read(read, stage) or reads_image(read, stage))

    return finished(program, stage, taken, fits)


def reads_image(read: Read, stage: Stage) -> bool:
    """Says whether a stage reads at its own axes, of which two are rows and columns of an image whose rows lie one behind the
    other: [.., B * p + q, ..]."""
    if len(stage.axes) < 3 or len(read.indices) != len(stage.axes) - 1:
        return False
    *others, row, column, last = (axis.var for axis in stage.axes)
    place = affine(read.indices[-2])
    rest = place.minus(affine(column)).plus(affine(row), -place.coefficient(row))
    plain = (*read.indices[:-2], read.indices[-1]) == (*others, last)
    return plain and not rest.terms and not rest.constant and place.coefficient(row) >= stage.axes[-2].extent


def kept_products(program: Program) -> frozenset[str]:
    """Returns products and their packed operands, which stay stages of their own: no other stage takes them in."""
    found: set[str] = set()
    for stage in program.stages:
        if products_of(stage) is not None:
            packed = {read.tensor for read in stage.reads()}
            before = {
                made for name in packed for of in (lines_of, numbers_of) if (made := of(program, name)) is not None
            }
            found |= {stage.name, *packed, *before, *stand_ins(program, stage.name)}
    return frozenset(found)


def lines_of(program: Program, packed: str) -> str | None:
    """Returns the words, as they lie along the depth, of which an operand is a turned copy; None where it is none."""
    stage = program.producers.get(packed)
    match stage.bodies if stage is not None else ():
        case (Read(tensor=name),) if name in program.producers and is_packed(program.stage(name)):
            return name
    return None


def numbers_of(program: Program, packed: str) -> str | None:
    """Returns the stage of constant numbers of which each block of products makes words of columns; None of other words."""
    stage = program.producers.get(packed)
    if stage is None or packed not in constant_tensors(program):
        return None
    for reader in program.consumers[packed]:
        found = products_of(reader)
        if found is not None and any(r.tensor == packed and packed_flat(r, found.columns) for r in found.pairs.columns):
            return next((read.tensor for read in stage.reads() if read.tensor in program.producers), None)
    return None


def choosing(program: Program) -> frozenset[str]:
    """Returns the stages that choose between products and stand-in sums, which run beside them: nests of their own."""
    return frozenset(
        reader.name
        for stage in program.stages
        if exceptional_condition(stage) is not None
        for reader in program.consumers[stage.name]
    )


def stand_ins(program: Program, products: str) -> tuple[str, ...]:
    """Returns the sums that stand in at points whose products are not finite."""
    return tuple(reader.name for reader in program.consumers[products] if exceptional_condition(reader) is not None)
