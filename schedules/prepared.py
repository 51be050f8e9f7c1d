"""What is computed ahead, once, when a kernel is made: the one place that decides it.

A stage is prepared when it reads constants of the program (declared `constant`), tables, and what is prepared itself, and
nothing else; when it is no output, in any of its tensors; and when it stands at the root, or inside of a nest whose root is
prepared. All else runs at each call: code is made for it (codegen/lower/lower.py), and a cost model counts it
(cost_model/levels.py).

Rules ask before stages have a place: to them a stage is constant if it would be prepared at the root.
"""

from __future__ import annotations

from ..common.remembered import remembered
from ..tensor.program import Program
from .loops import LoopTree, StageLoops


def prepared_stages(tree: LoopTree) -> frozenset[str]:
    """Returns the stages of a loop tree that are prepared."""
    constant = _constant_stages(tree.program)
    return frozenset(stage.stage for stage in tree.stages if {stage.stage, _root_of(tree, stage)} <= constant)


def _root_of(tree: LoopTree, stage: StageLoops) -> str:
    """Returns the stage at the root in whose nest a stage runs."""
    while stage.at is not None:
        stage = tree.by_stage[stage.at[0]]
    return stage.stage


@remembered
def constant_tensors(program: Program) -> frozenset[str]:
    """Returns constants, tables, and what can be computed from these when the kernel is made."""
    known = {t.name for t in program.constant_inputs} | {table.tensor.name for table in program.tables}
    for name in _constant_stages(program):
        known |= {tensor.name for tensor in program.stage(name).tensors}
    return frozenset(known)


@remembered
def _constant_stages(program: Program) -> frozenset[str]:
    outputs, tables = set(program.outputs), {table.tensor.name for table in program.tables}
    known = {tensor.name for tensor in program.constant_inputs}
    found: set[str] = set()
    for stage in program.stages:
        sources, made = {read.tensor for read in stage.reads()}, {tensor.name for tensor in stage.tensors}
        if sources & known and sources <= known | tables and not made & outputs:
            found.add(stage.name)
            known |= made
    return frozenset(found)
