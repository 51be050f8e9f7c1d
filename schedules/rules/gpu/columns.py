"""The columns rule on GPUs: a sliding window is written as a matrix of columns, so that its reduction becomes a matrix product.

What only moves data for a product, as that matrix does, is written into the copies that its blocks make (implicit GEMM).
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from ....common.errors import ProgramError
from ....tensor.expr import Read, variables
from ....tensor.indices.affine import affine
from ....tensor.program import Program, Stage
from ....tensor.rewrites.registry import apply_rewrite
from ....tensor.text.canonical import canonical
from ...access import is_anchor, moves_data_only
from ...inlining import can_inline
from ...schedule import Schedule
from ..rule import Decided, Rule, rewriting
from .tile import copied


def _rewrite(s: Schedule) -> None:
    """Makes, perhaps, a matrix product of the only sliding one.

    Its window axes are merged, and its spatial axes where they lie together.
    """
    steps = _steps_to_columns(s.program)
    if steps and s.variant("columns", [True, False]):
        for name, arguments in steps:
            s.rewrite(name, **arguments)


@lru_cache(maxsize=64)  # each combination of variants asks again
def _steps_to_columns(program: Program) -> list[tuple[str, dict[str, object]]]:
    """Returns the rewrites with their arguments; none where there is no such product, or where one of them does not apply."""
    steps: list[tuple[str, dict[str, object]]] = []
    found = [(stage, read) for stage in program.stages for read in _sliding(stage)]
    spatial = _slid_axes(*found[0]) if len(found) == 1 else []
    while len(found) == 1:
        stage, read = found[0]
        if len(spatial) > 1:
            steps.append(("merge_axes", {"stage": stage.name, "axes": spatial}))
            spatial = []
        elif len(stage.reduction) > 1:
            steps.append(("merge_axes", {"stage": stage.name, "axes": [a.name for a in stage.reduction]}))
        else:
            steps.append(("im2col", {"stage": stage.name, "tensor": read.tensor}))
        try:
            program = canonical(apply_rewrite(program, *steps[-1]))
        except ProgramError:
            return []
        if steps[-1][0] == "im2col":
            return steps
        found = [(stage, read) for stage in program.stages for read in _sliding(stage)]  # canonical names have changed
    return []


def _sliding(stage: Stage) -> list[Read]:
    """Returns the reads of a sum with reuse that go over a tensor by a spatial and a reduction axis in one index."""
    if not is_anchor(stage) or stage.combiner != "sum" or len(stage.tensors) > 1:
        return []
    spatial, reduction = {a.name for a in stage.axes}, {a.name for a in stage.reduction}
    found = []
    for read in stage.reads():
        used = [variables(index) for index in read.indices]
        if any(names & spatial and names & reduction for names in used) and _is_partial(stage, read):
            found.append(read)
    return found


def _is_partial(stage: Stage, read: Read) -> bool:
    """Tells whether a read leaves an axis out: im2col makes a matrix only of what does."""
    used = frozenset().union(*(variables(index) for index in read.indices))
    return any(a.name not in used for a in stage.all_axes)


def _slid_axes(stage: Stage, read: Read) -> list[str]:
    """Returns the longest run of neighbouring spatial axes, up to the last one, that move the read and slide over it."""
    reduction = {a.name for a in stage.reduction}
    slides = {
        name
        for index in read.indices
        if variables(index) & reduction and affine(index).terms
        for name in variables(index)
    }
    run: list[str] = []
    for axis in reversed(stage.axes):
        if axis.name not in slides:
            break
        run.insert(0, axis.name)
    return run


def _moves_for(program: Program, stage: Stage) -> Stage | None:
    """Returns the product whose copies can do, as they are filled, what a stage does that only moves data."""
    consumers = program.consumers[stage.name]
    if len(consumers) != 1 or not can_inline(program, stage) or not moves_data_only(stage):
        return None
    product = consumers[0]
    return product if stage.name in copied(program, product) else None


def _moved_by_copies(program: Program) -> frozenset[str]:
    return frozenset(stage.name for stage in program.stages if _moves_for(program, stage) is not None)


def _prepare_moved(s: Schedule, decided: Decided) -> Decided:
    """Takes these stages before there are roots: each runs in the copies of its product."""
    moved = _moved_by_copies(s.program)
    return replace(decided, taken=decided.taken | moved).keeping(moved)


COLUMNS = Rule("columns", rewriting(_rewrite))
MOVED = Rule("moved by copies", _prepare_moved)
