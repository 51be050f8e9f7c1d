"""The rule for folds over blocks: what each step takes in is made right before it, for a block of rows.

    s[i, j] = ..;  parts[i, b] of the block b of j;  fold[b] { m[i], l[i], o[i, d] };  y[i, d] = o[i, d] / l[i]

A softmax and its weighted sum are brought to this form (tensor/rewrites/block_softmax.py). The matrix between the products
exists for a block of rows and a block of columns alone, in a near cache.

    loops    others, blocks of rows, { blocks of the fold { products, rows, one step }, rest of the rows }
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ....common.errors import ProgramError
from ....tensor.expr import variables
from ....tensor.program import Program, Stage
from ....tensor.rewrites.registry import apply_rewrite
from ...access import identity_read, is_anchor, reads_of
from ...inlining import can_inline, inline_stages
from ...schedule import LoopHandle, Schedule
from ..row_groups import RowAxes, row_members
from ..rule import Decided, Rule
from .fold import common_axes
from .rows import run_row_blocks

BLOCKS = (256, 512)
SHORTEST = 2048  # points of an axis that is worth blocks: rows of a shorter one stay near as they are
ROWS_AT_MOST = 256  # in a block


@dataclass(frozen=True, slots=True)
class Online:
    """A fold to run block by block. A pointwise stage, `root`, finishes it; `members` run before each step, consumers first."""

    root: str
    fold: str
    members: tuple[str, ...]


def _prepare(s: Schedule, decided: Decided) -> Decided:
    """Rewrites, perhaps, a softmax to blocks where that can be. Then finds the fold, and what runs before each of its steps."""
    for stage in s.program.stages if s.allows("block_softmax") else ():
        options = [block for block in BLOCKS if _applies(s.program, stage, block)]
        if options:
            block = s.variant(f"{stage.name} by blocks", [0, *options])
            if block:
                s.rewrite("block_softmax", stage=stage.name, block=block)
                s.inline(*_unfinished(s.program))
            break
    online = online_of(s.program)
    if online is None:
        return decided
    decided = replace(decided, alone=decided.alone | {online.root})
    return decided.keeping(frozenset(online.members)).noting(online)


def _applies(program: Program, stage: Stage, block: int) -> bool:
    if stage.combiner != "max" or len(stage.reduction) != 1 or stage.reduction[0].extent < max(SHORTEST, 2 * block):
        return False
    try:
        blocks = apply_rewrite(program, "block_softmax", {"stage": stage.name, "block": block})
    except ProgramError:
        return False
    return online_of(inline_stages(blocks, tuple(_unfinished(blocks)))) is not None


def _unfinished(program: Program) -> list[str]:
    """Returns the pointwise stages that read a fold and that one other pointwise stage reads at the same points.

    These are quotients that are rounded. Written where they are read, they finish the fold in one stage.
    """
    found = []
    for stage in program.stages:
        readers = program.consumers[stage.name]
        if any(_folds(program, read.tensor) for read in stage.reads()) and can_inline(program, stage):
            at_once = len(readers) == 1 and readers[0].combiner is None
            if at_once and all(identity_read(read, readers[0]) for read in reads_of(readers[0], stage.name)):
                found.append(stage.name)
    return found


def _folds(program: Program, tensor: str) -> bool:
    return tensor in program.producers and program.producers[tensor].fold is not None


def online_of(program: Program) -> Online | None:
    """Finds a fold that a pointwise stage finishes row by row, and whose steps read what products make."""
    for fold in program.stages:
        readers = {r.name: r for t in fold.tensors for r in program.consumers[t.name]}
        if fold.fold is None or len(readers) != 1 or any(t.name in program.outputs for t in fold.tensors):
            continue
        (root,) = readers.values()
        if root.reduction or root.name not in program.outputs or len(root.axes) != len(fold.axes):
            continue
        members = _members(program, fold)
        if sum(is_anchor(program.stage(name)) for name in members) > 1:
            return Online(root.name, fold.name, tuple(members))
    return None


def _members(program: Program, fold: Stage) -> list[str]:
    """Returns the stages of which each step of the fold needs other values, those of one row for a row."""
    moved = {fold.name: {fold.reduction[0].name}}  # axes along which a stage moves from step to step

    def may(stage: Stage, own: RowAxes) -> bool:
        axes = [_moved(stage, reader, moved[reader.name]) for reader in program.consumers[stage.name]]
        moved[stage.name] = set().union(*axes)
        return all(axes)

    return row_members(program, fold, common_axes(fold), may)


def _moved(stage: Stage, reader: Stage, moving: set[str]) -> set[str]:
    """Returns the axes of a stage along which its reader moves when some of its own axes do."""
    found = set()
    for read in reader.reads():
        if read.tensor == stage.name:
            found |= {a.name for a, index in zip(stage.axes, read.indices, strict=True) if variables(index) & moving}
    return found


def _matches(program: Program, stage: Stage, decided: Decided) -> str | None:
    online = decided.fact(Online)
    return stage.name if online is not None and online.root == stage.name else None


def _apply(s: Schedule, name: str, anchor: str, decided: Decided) -> set[str]:
    """Schedules the root, the fold and all members."""
    found = decided.fact(Online)
    assert found is not None
    root = s.stage(name)
    number = len(common_axes(s.program.stage(found.fold))) - 1
    *others, row = root.axes[: number + 1]
    dtype = root.definition.tensors[0].dtype
    height = s.factor(f"{found.root}.block", row.extent, at_most=ROWS_AT_MOST, default=48)
    pieces = s.split(row, height)
    columns = s.split(root.axes[-1], s.lanes(dtype))
    s.reorder(*others, *pieces, *root.axes[number + 1 : -1], *columns)
    s.vectorize(columns[1])
    s.parallel(*others, pieces[0])
    at = _stepwise(s, found.fold, pieces[0])
    run_row_blocks(s, list(found.members), at)
    return {found.root, found.fold, *found.members}


def _stepwise(s: Schedule, fold: str, at: LoopHandle) -> LoopHandle:
    """Schedules the fold for a block of rows; returns the loop over its steps."""
    made = s.compute_at(fold, at)
    common = len(common_axes(made.definition))
    (step,) = made.reduction
    columns = s.split(made.axes[-1], s.lanes(made.definition.tensors[0].dtype))
    s.reorder(step, *made.axes[:common], *made.axes[common:-1], *columns)
    s.vectorize(columns[1])
    return step


ONLINE = Rule("online", _prepare, _matches, _apply)
