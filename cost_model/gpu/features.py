"""Named features of a whole population of GPU candidates: what a learned model sees of them.

As in features.py they are ratios, mostly logarithmic, so that they carry over between shapes and machines. Counts are summed
over launches; properties of a launch are means, each weighed by the seconds that the analytic model gives it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from ...schedules.loops import LoopTree
from ...schedules.plan.stage import Plan
from ...targets.ceilings import Ceilings, default_ceilings
from ...targets.target import Target
from ..footprint import Value, log_ratio, total_of
from ..populations import for_each_plan
from .analytic import launch_seconds, processor_cycles, sector_waste, unit_cycles
from .launch import LaunchCost, launches
from .stage import StageCost

GPU_FEATURE_NAMES: tuple[str, ...] = (
    "arithmetic_bound", "issue_bound", "shared_bound", "access_bound", "waiting", "memory_bound", "l2_bound",
    "occupancy", "warps", "blocks", "waves", "last_wave", "registers", "register_limit", "shared_memory",
    "bank_conflicts", "sector_waste", "dram_reuse", "l2_reuse", "idle_lanes", "points_waste", "chains", "combines",
    "pipeline", "steps", "loads_per_operation", "copy_share", "launches",
)  # fmt: skip


def gpu_features(tree: LoopTree, target: Target, count: int) -> NDArray[np.float32]:
    """float32[count, len(GPU_FEATURE_NAMES)], all finite, for a tree to which `count` configs (or one) have been applied."""

    def walk(part: LoopTree, plan: Plan, rows: int) -> NDArray[np.float32]:
        return _table(launches(part, target, plan), target, rows)

    return for_each_plan(tree, True, count, walk)


def _table(found: tuple[LaunchCost, ...], target: Target, count: int) -> NDArray[np.float32]:
    ceilings = default_ceilings(target, 1)
    table = np.empty((count, len(GPU_FEATURE_NAMES)), dtype=np.float32)
    seconds = [np.maximum(launch_seconds(x, target, ceilings), 1e-9) for x in found]
    whole = total_of(seconds)
    columns = [list(_of_launch(x, target, ceilings)) for x in found]
    for number in range(len(GPU_FEATURE_NAMES) - 1):
        weighed: list[Value] = [w * values[number] for w, values in zip(seconds, columns, strict=True)]
        table[:, number] = total_of(weighed) / whole
    table[:, -1] = len(found)
    return table


def _of_launch(launch: LaunchCost, target: Target, ceilings: Ceilings) -> Iterator[Value]:
    gpu = target.gpu
    arithmetic, issue, shared, lines = unit_cycles(launch, target)
    busiest, waiting = processor_cycles(launch, target)
    most = np.maximum(busiest * target.cores, 1.0)
    yield from (arithmetic / most, issue / most, shared / most, lines / most)
    yield log_ratio(waiting, busiest)
    clock = ceilings.flops["f32"] / (target.cores * target.vector_bits / 32 * target.fma_ports * 2)
    yield log_ratio(launch.dram_bytes / ceilings.bandwidth[-1][1] * clock, busiest)
    yield log_ratio(launch.l2_bytes / ceilings.bandwidth_at(target.caches[1].bytes * 0.5) * clock, busiest)
    warps = np.ceil(launch.threads / gpu.warp)
    yield launch.resident * warps / (gpu.threads / gpu.warp)
    yield np.log2(np.maximum(warps, 1.0))
    places = target.cores * np.maximum(launch.resident, 1.0)
    yield log_ratio(launch.blocks, float(target.cores))
    yield log_ratio(launch.blocks, places)
    full = np.ceil(launch.blocks / target.cores)
    yield launch.blocks / (full * target.cores)
    yield launch.registers / gpu.thread_registers
    yield np.where(launch.pressure > 1.0, 1.0, 0.0)
    yield launch.shared_bytes / gpu.shared
    yield np.log2(np.maximum(_mean(launch, lambda c: c.conflicts, lambda c: c.shared), 1.0))
    yield np.log2(np.maximum(sector_waste(launch), 1.0))
    yield log_ratio(launch.dram_bytes, launch.touched)
    yield log_ratio(launch.l2_bytes, launch.touched)
    yield 1.0 - launch.threads / (warps * gpu.warp)
    yield log_ratio(*_points(launch))
    yield np.log2(np.maximum(_mean(launch, lambda c: c.chains, lambda c: c.arithmetic), 1.0))
    yield np.log2(1.0 + total_of([cost.combines for cost in launch.stages]))
    yield launch.ahead
    yield np.log2(1.0 + total_of([cost.steps for cost in launch.stages]))
    yield log_ratio(total_of([cost.weight + cost.shared for cost in launch.stages]), arithmetic)
    copies = [cost.instructions for cost in launch.stages if cost.stage.loops.copies is not None]
    yield total_of(copies) / np.maximum(total_of([cost.instructions for cost in launch.stages]), 1.0)


def _points(launch: LaunchCost) -> tuple[Value, Value]:
    """(evaluations of the bodies of all stages, those that the program asks for); copies are left out."""
    done: Value = 0.0
    asked: Value = 0.0
    for cost in launch.stages:
        if cost.stage.loops.copies is None:
            done = done + cost.stage.trips[-1]
            asked = asked + cost.stage.asked
    return done, asked


def _mean(launch: LaunchCost, of: Callable[[StageCost], Value], weight: Callable[[StageCost], Value]) -> Value:
    """A property of the stages, each weighed by something that it does."""
    total: Value = 0.0
    weights: Value = 0.0
    for cost in launch.stages:
        total = total + of(cost) * weight(cost)
        weights = weights + weight(cost)
    return total / np.maximum(weights, 1.0)
