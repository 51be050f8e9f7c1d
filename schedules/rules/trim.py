"""The rule of terms that are left out: windows that reach beyond an image at all points lose what they find there, and axes
of which each point sees one place their loops.

One place of a window may be all that is left: a dilation of 24 on 14 x 14 points leaves one of nine. Such a convolution is a
product of matrices, which the normal form makes of it. What is left of a constant is cut out once, for code that packs a
constant packs all of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...tensor.rewrites.pin_reductions import can_pin_reductions
from ...tensor.rewrites.trim_reductions import can_trim_reductions, is_cut
from ..schedule import Schedule
from .rule import Decided, Rule

_REWRITES = {"trim_reductions": can_trim_reductions, "pin_reductions": can_pin_reductions}


@dataclass(frozen=True, slots=True)
class Trimmed:
    """Notes that terms were left out, so that parts of constants are stages."""


def _trim(s: Schedule, decided: Decided) -> Decided:
    for name, applies in _REWRITES.items():
        if s.allows(name) and applies(s.program):
            s.rewrite(name)
            s.rewrite("normalise")
            decided = decided.noting(Trimmed())
    return decided


def _keep_cut(s: Schedule, decided: Decided) -> Decided:
    if decided.fact(Trimmed) is None:
        return decided
    return decided.with_nests(frozenset(stage.name for stage in s.program.stages if is_cut(s.program, stage)))


TRIM = Rule("trim", _trim)
CUT = Rule("cut", _keep_cut)
