"""Seconds of a GPU candidate without any measurement: a closed form over its launches and the ceilings of a machine.

    launch   = (multiprocessors (+) L2 (+) memory) + start of a launch
    multiprocessors = what the busiest of them has to do  (whole blocks, so the last wave is rarely full)
                  (+) waves * the time of one block that is alone: what follows in order, latencies included

What a multiprocessor has to do is bounded by its arithmetic units, its schedulers, its shared memory and its load and store
units, as in Hong and Kim, "An analytical model for a GPU architecture with memory-level and thread-level parallelism
awareness" (ISCA 2009), and Volkov, "Understanding latency hiding on GPUs" (2016).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...schedules.loops import LoopKind, LoopTree
from ...schedules.plan.stage import Plan
from ...targets.backend import Multiprocessor
from ...targets.ceilings import Ceilings
from ...targets.target import Target
from ..footprint import Value
from ..populations import for_each_plan
from .launch import LaunchCost, launches

NORM = 3.0  # of the terms of a launch: 1 would be their sum, infinity the largest
OVERLAP = 3.0  # the same for work and waiting on a multiprocessor, which other blocks fill only in part
START = 2.5e-6  # seconds from one launch to the next of a stream
MEMORY_LATENCY = 700.0  # cycles from a load that misses the caches to its value
BARRIER = 40.0  # cycles that a block waits at a barrier
FIRST_USE = 60.0  # cycles from a barrier to the first arithmetic on what was copied
COMBINE = 160.0  # cycles to reduce over the lanes of a warp and its block
BLOCK_START = 600.0  # cycles until the first warp of a block works
ARITHMETIC_LATENCY = 4.0
LINES = 1.0  # lines of 128 bytes of a global access, per cycle and multiprocessor
TIGHT = 0.9  # of its registers: what needs more is expected to keep some of it in memory
SPILL = 20.0  # slowdown of a thread whose values do not fit in its registers
RAGGED = (
    1.04  # slowdown where tiles do not divide the result, or warps the block: masks, registers for them, idle lanes
)
RAGGED_STEPS = 1.1  # the same where the steps of a loop do not divide what it walks along: each of them asks
CANNOT_RUN = 1.0  # seconds, for a block that no multiprocessor holds: never chosen


def predict_gpu(tree: LoopTree, target: Target, ceilings: Ceilings, count: int) -> NDArray[np.float64]:
    """float64[count]: predicted seconds of one run, for a tree to which `count` configs (or one) have been applied."""

    def walk(part: LoopTree, plan: Plan, rows: int) -> NDArray[np.float64]:
        return gpu_seconds(launches(part, target, plan), target, ceilings, rows)

    return for_each_plan(tree, True, count, walk)


def gpu_seconds(found: tuple[LaunchCost, ...], target: Target, ceilings: Ceilings, count: int) -> NDArray[np.float64]:
    """Works as `predict_gpu`, from launches that are counted already."""
    total: Value = 0.0
    for launch in found:
        total = total + launch_seconds(launch, target, ceilings)
    return np.broadcast_to(np.maximum(np.asarray(total, dtype=np.float64), START), (count,)).copy()


def launch_seconds(launch: LaunchCost, target: Target, ceilings: Ceilings) -> Value:
    """Seconds of one launch."""
    clock = gpu_clock(target, ceilings)
    busiest, waiting = processor_cycles(launch, target)
    processors = (busiest**OVERLAP + waiting**OVERLAP) ** (1.0 / OVERLAP) / clock
    memory = launch.dram_bytes / ceilings.bandwidth[-1][1]
    l2 = launch.l2_bytes * sector_waste(launch) / ceilings.bandwidth_at(target.caches[1].bytes * 0.5)
    total: Value = (processors**NORM + memory**NORM + l2**NORM) ** (1.0 / NORM)
    total = total * np.where(launch.pressure > TIGHT, SPILL * launch.pressure, 1.0)
    ragged = _is_ragged(launch, LoopKind.BLOCK) | (np.asarray(launch.threads) % target.gpu.warp != 0)
    total = total * np.where(ragged, RAGGED, 1.0)
    total = total * np.where(_is_ragged(launch, LoopKind.SERIAL), RAGGED_STEPS, 1.0)
    return np.where(launch.resident < 1.0, CANNOT_RUN, total + START)


def _is_ragged(launch: LaunchCost, kind: LoopKind) -> NDArray[np.bool_]:
    """Says whether blocks at the edge, or the last steps of a loop in the code, do less than a whole one, so that all of them
    ask where they are."""
    found: NDArray[np.bool_] = np.zeros(1, dtype=np.bool_)
    for cost in launch.stages:
        loops = cost.stage.loops
        for axis, extent in loops.box.items():
            steps = [x for x in loops.pieces(axis) if x.kind is kind]
            # groups of blocks may be smaller at the end: no block is
            for step in steps[-1:] if kind is LoopKind.BLOCK else steps:
                found = found | np.asarray(np.asarray(extent) % np.asarray(step.stride) != 0)
    return found


def processor_cycles(launch: LaunchCost, target: Target) -> tuple[Value, Value]:
    """(cycles of the busiest multiprocessor's units, cycles of all waves of blocks that wait for what they need)."""
    blocks = np.maximum(launch.blocks, 1.0)
    arithmetic, issue, shared, lines = (value / blocks for value in unit_cycles(launch, target))
    block = np.maximum(np.maximum(arithmetic, issue), np.maximum(shared, lines))
    # blocks that are started and find nothing to do take the places of others
    busiest = np.ceil(launch.grid / target.cores) * block
    waves = np.ceil(launch.grid / (target.cores * np.maximum(launch.resident, 1.0)))
    return busiest, waves * (BLOCK_START + _alone(launch, block, target.gpu))


def unit_cycles(launch: LaunchCost, target: Target) -> tuple[Value, Value, Value, Value]:
    """Cycles, of all multiprocessors together, that a launch keeps busy: arithmetic, schedulers, shared memory, accesses."""
    arithmetic: Value = 0.0
    issue: Value = 0.0
    shared: Value = 0.0
    lines: Value = 0.0
    for cost in launch.stages:
        arithmetic = arithmetic + cost.arithmetic
        issue = issue + cost.instructions
        shared = shared + cost.shared
        lines = lines + cost.lines
    return arithmetic / target.fma_ports, issue / target.gpu.schedulers, shared, lines / LINES


def _alone(launch: LaunchCost, block: Value, gpu: Multiprocessor) -> Value:
    """Cycles from the start to the end of one block, when it has a multiprocessor to itself."""
    warps = np.maximum(np.ceil(launch.threads / gpu.warp), 1.0)
    schedulers = float(gpu.schedulers)
    waiting: Value = 0.0
    working: Value = block * np.maximum(schedulers / warps, 1.0)
    for cost in launch.stages:
        per_scheduler = np.maximum(warps / schedulers, 1.0)
        slow = np.maximum(ARITHMETIC_LATENCY / (per_scheduler * np.maximum(cost.chains, 1.0)), 1.0)
        alone = cost.arithmetic / np.maximum(launch.blocks, 1.0) / schedulers * np.maximum(schedulers / warps, 1.0)
        working = np.maximum(working, alone * slow)
        waiting = waiting + cost.combines * COMBINE
        if cost.stage.loops.copies is not None:
            step = working / np.maximum(cost.steps, 1.0)
            hidden = (launch.ahead - 1.0) * np.maximum(step, BARRIER)
            waiting = waiting + cost.steps * (np.maximum(MEMORY_LATENCY - hidden, 0.0) * 0.5 + BARRIER + FIRST_USE)
        else:
            waiting = waiting + cost.steps * MEMORY_LATENCY
    return working + waiting


def sector_waste(launch: LaunchCost) -> Value:
    """Sectors that the accesses of a launch touch over those that they need, as far as no cache line is used again."""
    total: Value = 0.0
    weight: Value = 0.0
    for cost in launch.stages:
        total = total + cost.waste * cost.weight
        weight = weight + cost.weight
    waste = total / np.maximum(weight, 1.0)
    return np.maximum(1.0 + (waste - 1.0) * 0.25, 1.0)


def gpu_clock(target: Target, ceilings: Ceilings) -> float:
    """Cycles per second, from the fastest arithmetic that was seen."""
    lanes = target.vector_bits / 32 * target.fma_ports * 2
    return ceilings.flops["f32"] / (target.cores * lanes)
