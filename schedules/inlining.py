"""Writing the body of a pointwise stage where it is read."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from ..common.errors import ScheduleError
from ..tensor.expr import Expr, Read, rewrite, substitute
from ..tensor.indices.affine import simplify
from ..tensor.program import Program, Stage


def can_inline(program: Program, stage: Stage) -> bool:
    """True for a pointwise stage of one tensor that some stage reads and that is no output."""
    name = stage.name
    return (
        stage.combiner is None
        and len(stage.tensors) == 1
        and name not in program.outputs
        and bool(program.consumers[name])
    )


@lru_cache(maxsize=512)
def inline_stage(program: Program, name: str) -> Program:
    """The program with every read of a stage replaced by its body. ScheduleError where that is not possible."""
    stage = program.stage(name)
    if not can_inline(program, stage):
        raise ScheduleError(
            f"{name} cannot be inlined",
            expected="a pointwise stage of one tensor that is read and is no output",
            found="an output" if name in program.outputs else (stage.combiner or "a stage that nothing reads"),
        )

    def expand(node: Expr) -> Expr | None:
        if not isinstance(node, Read) or node.tensor != name:
            return None
        values = {axis.name: index for axis, index in zip(stage.axes, node.indices, strict=True)}
        return simplify(substitute(stage.bodies[0], values))

    def inlined(user: Stage) -> Stage:
        fold = user.fold
        if fold is not None:
            fold = replace(fold, locals=tuple((n, rewrite(e, expand)) for n, e in fold.locals))
        return replace(user, bodies=tuple(rewrite(b, expand) for b in user.bodies), fold=fold)

    users = {user.name for user in program.consumers[name]}
    stages = tuple(inlined(s) if s.name in users else s for s in program.stages if s.name != name)
    return program.replacing(stages)
