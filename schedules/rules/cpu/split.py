"""The splitting rule: a reduction several times longer than its result has points.

Parts of it are independent, so that threads share them, and a second stage combines what they give (`split_k` in
tensor/rewrites/axes.py).
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ....tensor.exceptional import exceptional_condition
from ....tensor.program import Stage
from ...schedule import Schedule
from ..rule import Decided, Rule

PARTS = (8, 64)  # for a few threads, and for many
LONG = 4  # how many times longer than the result a reduction is split
SHORTEST_PART = 1024  # terms: what is shorter is done before a second stage has begun


def _prepare(s: Schedule, decided: Decided) -> Decided:
    """Splits the only long reduction with a small result: its other axes give threads too little to share."""
    found = [stage for stage in s.program.stages if _is_long(stage)]
    if len(found) != 1:
        return decided
    longest = max(found[0].reduction, key=lambda a: a.extent)
    options = [1, *(parts for parts in PARTS if longest.extent >= parts * SHORTEST_PART)]
    parts = s.variant(f"split {found[0].name}", options) if len(options) > 1 else 1
    if parts == 1:
        return decided
    s.rewrite("split_k", stage=found[0].name, axis=longest.name, parts=parts)
    return replace(decided, few=True)


def _is_long(stage: Stage) -> bool:
    if stage.combiner in (None, "fold") or exceptional_condition(stage) is not None:
        return False
    points = prod(a.extent for a in stage.axes)
    return prod(a.extent for a in stage.reduction) >= LONG * points


SPLIT = Rule("split", prepare=_prepare)
