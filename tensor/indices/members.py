"""Reductions that are joined with others over the same loops (rewrites/siblings): an axis counts the members.

    t[c: 2, i] = sum[k](select(c == 0, x[i, k], x[i, k] * x[i, k]))

The language has no other word for it; whoever schedules a reduction asks here. What is read does not move with such an axis,
so its loop is written out, inside of all others: an element is loaded once for all members.
"""

from __future__ import annotations

from ...common.remembered import remembered
from ..expr import Cast, Const, Op, Read, Var
from ..program import Stage

MEMBERS_AT_MOST = 4  # each has accumulators of its own


@remembered
def member_axes(stage: Stage) -> tuple[str, ...]:
    """The axes that count members: all that depends on one is which term a point has, or which member is read."""
    axes = [axis for axis in stage.axes if 1 < axis.extent <= MEMBERS_AT_MOST]
    if stage.combiner in (None, "fold") or not axes:
        return ()
    chosen: set[str] = set()
    used: set[str] = set()
    waiting = list(stage.bodies)
    while waiting:
        match waiting.pop():
            case Op(name="select", args=(Op(name="eq", args=(Var(name=name), Const())), yes, no)):
                chosen.add(name)
                waiting += [yes, no]
            case Op(args=args):
                waiting += args
            case Read(indices=indices):
                waiting += indices
            case Cast(arg=arg):
                waiting.append(arg)
            case Var(name=name):
                used.add(name)
            case _:
                pass
    return tuple(axis.name for axis in axes if axis.name in chosen - used)
