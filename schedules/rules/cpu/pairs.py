"""The rule of pairs: what takes the maximum of many elements perhaps reads maxima of two, where many elements lie as far apart.

A disc of 53 columns has rows of neighbours of which each is read beside the next one: each two are compared once, in a stage of
their own (tensor/rewrites/shared_extrema.py), and not for each point of the result whose disc they lie in.
"""

from __future__ import annotations

from ....tensor.program import Program
from ....tensor.rewrites.shared_extrema import LEAST_SAVED, can_share_extrema, is_of_pairs
from ...access import reads_of
from ...schedule import Schedule
from ..rule import Rule, keeping, rewriting


def _rewrite(s: Schedule) -> None:
    """Rewrites one stage after another, as often as it saves enough, or none."""
    found = _next(s.program)
    if found is None or not s.allows("shared_extrema") or not s.variant(f"{found} pairs", [True, False]):
        return
    while found is not None:
        s.rewrite("shared_extrema", stage=found)
        found = _next(s.program)


def _next(program: Program) -> str | None:
    return next((stage.name for stage in program.stages if can_share_extrema(stage)), None)


def _pairs(program: Program) -> frozenset[str]:
    """Returns the stages of pairs that some stage reads in many places: written there, they would be computed in each."""
    return frozenset(
        stage.name
        for stage in program.stages
        if is_of_pairs(stage)
        and any(len(reads_of(reader, stage.name)) >= LEAST_SAVED for reader in program.consumers[stage.name])
    )


PAIRS = Rule("pairs", rewriting(_rewrite))
PAIRS_APART = Rule("pairs apart", keeping(_pairs))
