"""How much the analytic model drafts in tests: most of them do not ask what is picked, and a draft of all structures takes a
second."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tilesmith.schedules.sketch import Sketch
from tilesmith.tuner.apply import tiers
from tilesmith.tuner.apply.tiers import AnalyticModel
from tilesmith.tuner.effort import EFFORTS, UNTUNED, Draft

SMALL = Draft(population=600, generations=1, children=200)
STRUCTURES = 4  # that a compile drafts
_WHOLE = dict(EFFORTS)
_best_of = AnalyticModel._best_of


def _best_of_few(model: AnalyticModel, sketches: Sequence[Sketch]) -> Any:
    """Every so many-th of the structures."""
    return _best_of(model, sketches[:: -(-len(sketches) // STRUCTURES)] if sketches else sketches)


def draft_little() -> None:
    """In this process a compile without records, and a search, look at few candidates from here on."""
    tiers.UNTUNED = SMALL
    AnalyticModel._best_of = _best_of_few  # type: ignore[method-assign]
    for name, effort in _WHOLE.items():
        less = replace(effort.draft, population=3000, children=256, generations=1, keep=512, variants=512)
        EFFORTS[name] = replace(effort, draft=less)


def drafts_little() -> bool:
    """Whether it is so."""
    return tiers.UNTUNED == SMALL


def draft_all(patch: pytest.MonkeyPatch) -> None:
    """Takes it back for a test."""
    patch.setattr(tiers, "UNTUNED", UNTUNED)
    patch.setattr(AnalyticModel, "_best_of", _best_of)
    for name, effort in _WHOLE.items():
        patch.setitem(EFFORTS, name, effort)
