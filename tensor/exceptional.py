"""Sums that stand in where something is no ordinary number: their terms count at points where a number is huge or NaN.

    r[i, j] = sum[k](select(not abs(p[i, j]) < 2^127, x[i, k] * y[k, j], 0))

The condition is the same for all terms of a point. Where it does not hold the sum is its identity, and no term is computed
(codegen/lower/exceptional.py). Ordinary data never ask: so rules take such a stage for no product, and cost models take it for
free.
A condition of any other kind, such as a mask, is expected to hold, and is not meant here.
"""

from __future__ import annotations

from ..common.remembered import remembered
from .expr import Const, Expr, Op, Read, variables
from .identity import identity
from .indices.bounds import conjuncts
from .program import Stage

HUGE = 2.0**64  # no ordinary number


@remembered
def exceptional_condition(stage: Stage) -> Expr | None:
    """The condition under which a point of such a reduction has terms; None for any other stage."""
    if stage.combiner in (None, "fold") or len(stage.bodies) != 1:
        return None
    match stage.bodies[0]:
        case Op(name="select", args=(condition, _, Const(value=value, dtype=dtype))):
            if value != identity(stage.combiner or "", dtype).value or not _is_rare(condition):
                return None
            return None if variables(condition) & {axis.name for axis in stage.reduction} else condition
    return None


def _is_rare(condition: Expr) -> bool:
    """not abs(number) < huge, perhaps of several numbers: not (abs(number) < huge and abs(other) < huge)"""
    match condition:
        case Op(name="not", args=(ordinary,)):
            return all(_is_ordinary(part) for part in conjuncts(ordinary))
    return False


def _is_ordinary(condition: Expr) -> bool:
    match condition:
        case Op(name="lt", args=(Op(name="abs", args=(Read(),)), Const(value=limit))):
            return limit >= HUGE
    return False
