"""The exceptional rule: what decides whether stand-in sums are asked for (tensor/exceptional.py) is made in few short nests.

    size[i, j] = sum[c](abs(x[c, i, j]));  seen[p, q] = max[r, s](size);  spread[row, column] of the most and the least of these

The last of these stages runs by rows, and takes in whatever it can; the first one, which alone reads much, is a nest of its
own. There is little to win, so nothing is left open: a search has better things to find out.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....tensor.exceptional import exceptional_condition
from ....tensor.expr import Read, walk
from ....tensor.program import Program, Stage
from ...access import element_stride
from ...extents import ceildiv, minimum
from ...schedule import LoopHandle, Schedule, StageHandle
from ..rule import Decided, Rule

TOGETHER = 4  # results side by side, and rows of them: chains overlap, and memory is read in long pieces


def exceptional_checks(program: Program) -> frozenset[str]:
    """Finds the stages that only conditions of stand-in sums need: those that such a condition reads, and what only these read.

    A condition about a result itself, which others read as well, is left out.
    """
    found: set[str] = set()
    for stage in reversed(program.stages):
        readers = program.consumers[stage.name]
        if stage.name in program.outputs or not readers or len(stage.tensors) > 1:
            continue
        if _is_checked(program, stage) or all(reader.name in found for reader in readers):
            found.add(stage.name)
    return frozenset(found)


def _is_checked(program: Program, stage: Stage) -> bool:
    """Tells whether a condition reads a stage at fewer points than there are results."""
    readers = (reader for reader in program.consumers[stage.name] if len(stage.axes) < len(reader.axes))
    conditions = (condition for reader in readers if (condition := exceptional_condition(reader)) is not None)
    return any(isinstance(node, Read) and node.tensor == stage.name for one in conditions for node in walk(one))


@dataclass(frozen=True, slots=True)
class ExceptionalChecks:
    """The stages of `exceptional_checks`, as they are before anything is inlined."""

    stages: frozenset[str]


def _prepare(s: Schedule, decided: Decided) -> Decided:
    about = exceptional_checks(s.program)
    return decided.with_nests(about).noting(ExceptionalChecks(about))


def _matches(program: Program, stage: Stage, decided: Decided) -> str | None:
    checks = decided.fact(ExceptionalChecks)
    return stage.name if checks is not None and stage.name in checks.stages else None


def _apply(s: Schedule, root: str, anchor: str, decided: Decided) -> set[str]:
    """Schedules one of these stages and those that it takes in by rows."""
    checks = decided.fact(ExceptionalChecks)
    assert checks is not None
    return _by_rows(s, root, checks.stages)


def _by_rows(s: Schedule, root: str, about: frozenset[str]) -> set[str]:
    """Runs the root by rows, with the stages that it takes in. A stage that reduces runs alone."""
    stage = s.stage(root)
    if stage.definition.reduction:
        s.parallel(*_sizes(s, stage))
        return {root}
    *rows, _ = stage.axes
    taken = {root}
    if rows:
        s.parallel(*rows)
    _in_lanes(s, stage)
    for one in reversed(s.program.stages) if rows else ():
        readers = s.program.consumers[one.name]
        reads_none = all(read.tensor not in s.program.producers or read.tensor not in about for read in one.reads())
        if one.name in about and one.name not in taken and not reads_none and all(r.name in taken for r in readers):
            _in_lanes(s, s.compute_at(one.name, rows[-1]))
            taken.add(one.name)
    return taken


def _in_lanes(s: Schedule, stage: StageHandle) -> None:
    """Puts the last axis in vectors; a reduction runs inside of them."""
    *others, last = stage.axes
    outer, lanes = s.split(last, s.lanes(stage.definition.tensors[0].dtype))
    s.reorder(*others, outer, *stage.reduction, lanes)
    s.vectorize(lanes)


def _sizes(s: Schedule, stage: StageHandle) -> list[LoopHandle]:
    """Schedules a nest that reads much: along memory, a few results side by side. Returns the loops that threads share."""
    definition, lanes = stage.definition, s.lanes(stage.definition.tensors[0].dtype)
    *others, last = stage.axes
    loops = dict(zip((a.name for a in definition.reduction), stage.reduction, strict=True))
    along = [name for name in loops for read in definition.reads() if element_stride(s.program, read, name) == 1]
    if along:
        outer, inner = s.split(last, TOGETHER)
        pieces = s.split(loops.pop(along[0]), lanes)
        s.reorder(*others, outer, *loops.values(), pieces[0], inner, pieces[1])
        s.unroll(inner)
        s.vectorize(pieces[1])
        return [*others, outer]
    outer, inner, vector = s.split(last, minimum(TOGETHER, ceildiv(last.extent, lanes)), lanes)
    rows = list(s.split(others.pop(), TOGETHER)) if others else []
    s.reorder(*others, *rows[:1], outer, *loops.values(), *rows[1:], inner, vector)
    s.unroll(*rows[1:], inner)
    s.vectorize(vector)
    return [*others, *rows[:1], outer]


EXCEPTIONAL = Rule("exceptional", _prepare, _matches, _apply)
