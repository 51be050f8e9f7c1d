"""Where what the stages of a launch make is kept on a GPU, and what shared memory a block has, as planned (schedules/plan/).

A value is kept in "global" memory, in the "shared" memory of its block, or in the "register"s of a thread: one that every
thread knows, what a thread makes for itself, and fragments, of which each thread reads what it has made. A stage whose terms
are divided over threads beyond a warp has shared memory for their parts too.
"""

from __future__ import annotations

import numpy as np

from ...schedules.extents import Extent
from ...schedules.loops import LoopTree, Scope
from ...schedules.plan.partial import parts_of
from ...schedules.plan.stage import StagePlan
from ..footprint import Value, real
from ..populations import PRIVATE

ALIGNED = 128.0  # bytes: each buffer in shared memory begins at a multiple


def placement(plan: StagePlan) -> str:
    """Says where the values of a stage live: "global", "shared" or "register"."""
    scopes = {storage.scope for storage in plan.storage}
    if not scopes <= {*PRIVATE, Scope.SHARED}:
        return "global"
    return "shared" if Scope.SHARED in scopes else "register"


def shared_bytes(tree: LoopTree, plan: StagePlan, width: Extent, warp: int) -> Value:
    """Bytes of shared memory for a stage: its values, as often as they exist, and the parts of its sums. `width`: threads of
    a block; `warp`: of a warp."""
    total: Value = 0.0
    for storage in plan.storage:
        if storage.scope is Scope.SHARED:
            total = total + _aligned(real(storage.bytes))
    parts = real(parts_of(tree, plan.stage, width, warp))
    size = float(max(storage.tensor.dtype.bytes for storage in plan.storage))
    return total + np.where(np.asarray(parts) > 0.0, _aligned(parts * size), 0.0)


def _aligned(size: Value) -> Value:
    return np.ceil(np.maximum(size, 1.0) / ALIGNED) * ALIGNED
