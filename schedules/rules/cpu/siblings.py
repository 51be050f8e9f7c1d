"""The rule for siblings: reductions over the same loops that read the same data perhaps become one, which reads them once.

    s[i] = sum[k](x[i, k]);  q[i] = sum[k](x[i, k] * x[i, k])        max and min of the same; sums of a gradient, and of it
                                                                     times something; a histogram, and one with weights

What only finishes the members goes with them (tensor/rewrites/siblings). An axis counts the members then; the rules that
schedule reductions without reuse write it out, next to the vectors that the members share. Products with reuse stay apart:
each fills the registers by itself. So do small windows over what is computed here, as in chains of filters: that lies in a near
cache, and who finishes such sums has them in registers, one by one (overlap.py).
"""

from __future__ import annotations

from math import prod

from ....tensor.program import Program, Stage
from ....tensor.rewrites.siblings.join import siblings_of
from ...access import is_anchor
from ...prepared import constant_tensors
from ...schedule import Schedule
from ..rule import Rule, rewriting
from ..tile_groups import WINDOW_AT_MOST


def _rewrite(s: Schedule) -> None:
    """Joins all siblings or none."""
    found = next_siblings(s.program)
    if not found or not s.allows("join_siblings") or not s.variant("siblings joined", [True, False]):
        return
    while found:
        s.rewrite("join_siblings", stages=list(found))
        found = next_siblings(s.program)


def next_siblings(program: Program) -> tuple[str, ...]:
    """Returns the names of stages that are worth joining; () without any."""
    once = constant_tensors(program)

    def may(stage: Stage) -> bool:
        return not is_anchor(stage) and stage.name not in once and not _is_near(program, stage)

    return siblings_of(program, may)


def _is_near(program: Program, stage: Stage) -> bool:
    """Says whether a stage sums up small windows of what other stages of the program make."""
    small = prod(axis.extent for axis in stage.reduction) <= WINDOW_AT_MOST
    return small and any(read.tensor in program.producers for read in stage.reads())


SIBLINGS = Rule("siblings", rewriting(_rewrite))
