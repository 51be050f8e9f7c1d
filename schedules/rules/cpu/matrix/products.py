"""What products on a matrix unit are, found by their form."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from .....targets.matrix_instructions import MATRIX_INSTRUCTIONS, InstructionScope, MatrixInstruction, tile_instruction
from .....tensor.exceptional import exceptional_condition
from .....tensor.expr import Const, Expr, Read
from .....tensor.matrix_pairs import MatrixPairs, matrix_pairs
from .....tensor.program import Axis, Program, Stage
from ....access import finished, identity_read

_UNITS = tuple(row for row in MATRIX_INSTRUCTIONS.values() if row.scope is InstructionScope.TILES)


@dataclass(frozen=True, slots=True)
class Products:
    """The parts of a stage for a matrix unit: its instruction, the axes of its tiles, and what it reads."""

    unit: MatrixInstruction
    rows: Axis
    columns: Axis
    word: Axis
    pairs: MatrixPairs


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


def the_products(program: Program, name: str) -> Products:
    """Returns the parts of a stage that is one of products."""
    found = products_of(program.stage(name))
    assert found is not None
    return found


def finishes_products(program: Program, stage: Stage, taken: Set[str]) -> Stage | None:
    """Returns the products that a pointwise stage finishes, point by point in its own order."""

    def fits(read: Read, producer: Stage) -> bool:
        return identity_read(read, stage) and products_of(producer) is not None

    return finished(program, stage, taken, fits)


def kept_products(program: Program) -> frozenset[str]:
    """Returns products and their packed operands, which stay stages of their own: no other stage takes them in."""
    found: set[str] = set()
    for stage in program.stages:
        if products_of(stage) is not None:
            found |= {stage.name, *(read.tensor for read in stage.reads()), *stand_ins(program, stage.name)}
    return frozenset(found)


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
