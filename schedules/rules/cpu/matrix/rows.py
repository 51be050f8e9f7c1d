"""The rule for products of products on a matrix unit: those of rules/cpu/rows.py, whose operands are words.

    S[h, i, j] = products of words of q and k;  p = softmax of the rows of S;  O[h, i, d] = products of words of p and v

A block of rows of S is multiplied, what belongs to one row is done row by row, up to the words of the next product, and that
follows: matrices between the products stay in a near cache, and never go through memory. What is no row of the last product
is packed beside it, once.

    loops    others, blocks of rows, { products, then row by row up to words, last products }, finish of the block
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from .....common.remembered import remembered
from .....tensor.program import Program, Stage
from ....access import is_anchor, is_expensive
from ....schedule import LoopHandle, Schedule, StageHandle
from ...row_groups import RowAxes, inside_rows, row_members
from ...rule import Decided, Rule
from ..rows import run_row_blocks
from ..tile import tiles_of_blocks
from .products import finishes_products, products_of, stand_ins, the_products
from .tiles import apart, register_tiles, tile_products


@dataclass(frozen=True, slots=True)
class MatrixChain:
    """Holds products of what other products make, row by row. `members` run for a block of rows, consumers first."""

    products: str
    members: tuple[str, ...]


@remembered
def chain_of(program: Program) -> MatrixChain | None:
    """Returns the last products whose rows are made of the same rows of products before them, or None."""
    for stage in reversed(program.stages):
        found = products_of(stage)
        if found is None or found.rows.var not in found.pairs.rows[0].indices:
            continue
        rows = tuple(axis.name for axis in stage.axes[:-1])
        members = row_members(program, stage, rows, _may_run, stand_ins(program, stage.name))
        made = found.pairs.rows[0].tensor
        if made in members and any(is_anchor(program.stage(name)) for name in members):
            return MatrixChain(stage.name, tuple(members))
    return None


def _may_run(stage: Stage, own: RowAxes) -> bool:
    """Tells whether a stage runs for a block of rows: of products, if their rows are those."""
    if not is_anchor(stage):
        return True
    found = products_of(stage)
    return found is not None and found.rows.name == own[-1]


def _prepare(s: Schedule, decided: Decided) -> Decided:
    """Notes the chain. Functions of points that several stages read stay stages, or each would compute them again."""
    found = chain_of(s.program)
    if found is None:
        return decided
    several = (name for name in found.members if len(s.program.consumers[name]) > 1)
    kept = frozenset(name for name in several if is_expensive(s.program.stage(name)))
    return replace(decided, alone=decided.alone | {found.products}).keeping(kept).noting(found)


def _matches(program: Program, stage: Stage, decided: Decided) -> str | None:
    chain = decided.fact(MatrixChain)
    if chain is None:
        return None
    finished = finishes_products(program, stage, decided.taken - {chain.products})
    return chain.products if chain.products in (stage.name, None if finished is None else finished.name) else None


def _apply(s: Schedule, root: str, name: str, decided: Decided) -> set[str]:
    """Schedules the last products, what finishes them, and all members that are left after inlining."""
    chain = decided.fact(MatrixChain)
    assert chain is not None
    members = [member for member in chain.members if any(stage.name == member for stage in s.program.stages)]
    made = the_products(s.program, name).pairs.rows[0].tensor
    beside = stand_ins(s.program, name)
    if root == name:
        at = _last(s, s.stage(name), made)
    else:
        at, vector = _finishing(s, root, name)
        for one in beside:
            apart(s, one, vector)
        _products(s, s.compute_at(name, at), made)
    last = s.program.stage(name)
    run_row_blocks(s, members, at, _products, inside_rows(s.program, last, members, len(last.axes) - 1, beside))
    return {root, name, *beside, *members}


def _last(s: Schedule, stage: StageHandle, made: str) -> LoopHandle:
    """Schedules products that nothing finishes; returns the loop over blocks of rows."""
    unit = the_products(s.program, stage.name).unit
    *others, row_loop, column_loop = stage.axes
    high, wide = register_tiles(s, stage)
    tall = tiles_of_blocks(s, f"{stage.name}.row_blocks", row_loop.extent, high * unit.m, 2 * unit.m)
    rows, columns = s.split(row_loop, tall, high, unit.m), s.split(column_loop, wide, unit.n)
    tile_products(s, stage, [*others, rows[0]], rows[1:], columns, columns_inside=True, near=[made])
    s.parallel(*others, rows[0])
    return rows[0]


def _finishing(s: Schedule, root: str, name: str) -> tuple[LoopHandle, LoopHandle]:
    """Schedules the stage that finishes the last products, block by block; returns the loops over blocks of rows, and over
    vectors."""
    stage, unit = s.stage(root), the_products(s.program, name).unit
    *others, row_loop, column_loop = stage.axes
    tall = tiles_of_blocks(s, f"{name}.row_blocks", row_loop.extent, unit.m, unit.m)
    lanes = s.lanes(stage.definition.tensors[0].dtype)
    rows, columns = s.split(row_loop, tall * unit.m), s.split(column_loop, lanes)
    s.reorder(*others, *rows, *columns)
    s.vectorize(columns[-1])
    s.parallel(*others, rows[0])
    return rows[0], columns[0]


def _products(s: Schedule, stage: StageHandle, made: str = "") -> None:
    """Schedules products for a block of rows, over all columns."""
    unit = the_products(s.program, stage.name).unit
    high, wide = register_tiles(s, stage)
    pieces = s.split(stage.axes[-2], high, unit.m), s.split(stage.axes[-1], wide, unit.n)
    tile_products(s, stage, list(stage.axes[:-2]), *pieces, columns_inside=False, near=[made])


MATRIX_ROWS = Rule("matrix rows", _prepare, _matches, _apply)
