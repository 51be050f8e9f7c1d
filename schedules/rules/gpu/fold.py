"""The rule for folds on GPUs: one thread walks the ordered axis; the axes around it, which all tensors keep, are shared out."""

from __future__ import annotations

from ....tensor.program import Program, Stage
from ...schedule import Schedule
from ..rule import Decided, Rule
from .binding import bind_blocks, bind_threads, threads_factor


def _matches(program: Program, stage: Stage, decided: Decided) -> str | None:
    return stage.name if stage.fold is not None else None


def _apply(s: Schedule, root: str, anchor: str, decided: Decided) -> set[str]:
    stage = s.stage(root)
    definition = stage.definition
    assert definition.fold is not None
    common = min(len(kept) for kept in definition.fold.tensor_axes)
    if common:
        outer = stage.loops[:common]
        threads = threads_factor(s, f"{root}.threads", outer[-1].extent, default=2 * s.gpu.warp)
        pieces = s.split(outer[-1], threads)
        bind_blocks(s, *outer[:-1], pieces[0])
        bind_threads(s, pieces[1])
    return {root}


FOLD = Rule("fold", matches=_matches, apply=_apply)
