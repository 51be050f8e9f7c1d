"""The rule of few structures: of several stages with reuse, only the usual ones of each are tried, because they multiply."""

from __future__ import annotations

from dataclasses import replace

from ..access import is_anchor
from ..schedule import Schedule
from .rule import Decided, Rule


def _prepare(s: Schedule, decided: Decided) -> Decided:
    several = sum(is_anchor(stage) for stage in s.program.stages) > 1
    return replace(decided, few=decided.few or several)


FEW = Rule("few", prepare=_prepare)
