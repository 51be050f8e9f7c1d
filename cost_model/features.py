"""Named features of a whole population: what a learned model sees of a candidate.

Features are ratios (to a cache, to the number of registers, to the threads, to the work that the program needs at least), most
on a logarithmic scale, so that what is learned on one shape or machine carries over to others. They are the same for every
sketch of every program: counts are summed over stages; properties of a loop nest are means over the stages, each weighed by
the cycles that it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from ..schedules.loops import LoopKind, LoopTree
from ..schedules.plan.stage import Plan
from ..targets.target import Target
from .analytic import REGION, resources, stage_cycles
from .cpu.analysis import LEVELS, Analysis, NestAnalysis, analyse
from .cpu.counts import LOOP_INSTRUCTIONS, InstructionCounts
from .cpu.work import LATENCY
from .footprint import Value, log_ratio, total_of
from .gpu.features import gpu_features
from .levels import StageLevels
from .populations import for_each_plan

_RESOURCES = ("arithmetic", "loads", "stores", "instructions", "chains", "matrix")
_PER_LEVEL = ("traffic", "reuse", "fill", "cycles")
_OF_STAGES = (
    "vector_fill", "independent_chains", "chain_length", "register_pressure", "spilled", "code_size", "points_waste",
    "loads_per_operation", "stores_per_operation", "gathered_share", "unaligned_share", "crowded_share",
    "loop_instructions", "loop_exits", "body_trips", "tile_loads_per_product",
)  # fmt: skip
_WHOLE = (
    "copy_share", "nests", "parallel_trips", "threads_idle", "imbalance", "touched_l1", "touched_l2", "touched_l3",
    "cycles_over_ideal", "collisions", "region_share", "streaming", "ahead",
)  # fmt: skip

FEATURE_NAMES: tuple[str, ...] = (
    *(f"{name}_bound" for name in _RESOURCES),
    *(f"l{level}_{name}" for level in range(1, LEVELS + 1) for name in _PER_LEVEL),
    *_OF_STAGES,
    *_WHOLE,
)


def features(tree: LoopTree, target: Target, threads: int, count: int) -> NDArray[np.float32]:
    """float32[count, f], all finite, for a tree to which `count` configs (or one) have been applied.

    Their names: FEATURE_NAMES, on a GPU GPU_FEATURE_NAMES (gpu/features.py).
    TypeError for a tree whose extents are still symbolic.
    """
    if target.is_gpu:
        return gpu_features(tree, target, count)

    def walk(part: LoopTree, plan: Plan, rows: int) -> NDArray[np.float32]:
        return feature_table(analyse(part, target, threads, plan), target, threads, rows)

    return for_each_plan(tree, False, count, walk)


def feature_table(analysis: Analysis, target: Target, threads: int, count: int) -> NDArray[np.float32]:
    """Works as `features`, from an analysis that exists already."""
    table = np.empty((count, len(FEATURE_NAMES)), dtype=np.float32)
    for number, value in enumerate(feature_values(analysis, target, threads)):
        table[:, number] = value
    return table


def feature_values(analysis: Analysis, target: Target, threads: int) -> Iterator[Value]:
    """The features in the order of their names, in whatever kind of number the analysis has."""
    stages = [(nest, stage, work) for nest in analysis.nests for stage, work in nest.work]
    cycles = [np.maximum(stage_cycles(work, target), 1.0) for _, _, work in stages]
    total = total_of(cycles)
    busy = [resources(work, target) for _, _, work in stages]
    for number in range(len(_RESOURCES)):
        yield total_of([of_stage[number] for of_stage in busy]) / total
    yield from _memory(analysis, total)

    def mean(property_: Callable[[StageLevels, InstructionCounts], Value]) -> Value:
        weighed = [w * property_(s, work) for w, (_, s, work) in zip(cycles, stages, strict=True)]
        return total_of(weighed) / total

    yield from _of_stages(analysis, target, [work for _, _, work in stages], mean)
    yield from _of_program(analysis, target, threads, total, [(s, work) for _, s, work in stages])


def _memory(analysis: Analysis, cycles: Value) -> Iterator[Value]:
    """Yields for each cache level: traffic over the bytes that are needed at least, accesses over traffic, working set,
    demand."""
    accessed = total_of([(w.loads + w.stores) * 64.0 * w.width for nest in analysis.nests for _, w in nest.work])
    for number in range(LEVELS):
        if number >= len(analysis.caches):
            yield from (0.0, 0.0, 0.0, 0.0)
            continue
        moved = total_of([nest.moved[number].total for nest in analysis.nests])
        yield log_ratio(moved, analysis.touched)
        yield log_ratio(accessed, moved)
        fill: Value = 0.0
        for nest in analysis.nests:
            fill = np.maximum(fill, nest.traffic.fill[number])
        yield fill
        yield moved / (analysis.caches[number].line * cycles)


def _of_stages(
    analysis: Analysis,
    target: Target,
    works: list[InstructionCounts],
    mean: Callable[[Callable[[StageLevels, InstructionCounts], Value]], Value],
) -> Iterator[Value]:
    operations = total_of([w.arithmetic for w in works]) + 1.0
    loads = total_of([w.loads for w in works])
    stores = total_of([w.stores for w in works])
    accesses = loads + stores + 1.0
    yield mean(lambda s, w: w.width)
    yield mean(lambda s, w: log_ratio(w.chains, LATENCY * target.fma_ports))
    yield mean(lambda s, w: np.log2(np.maximum(w.length, 1.0)))
    yield mean(lambda s, w: w.registers / target.vector_registers)
    yield mean(lambda s, w: np.where(w.registers > target.vector_registers, 1.0, 0.0))
    yield mean(lambda s, w: np.log2(w.code + 1.0))
    yield mean(lambda s, w: log_ratio(w.points, analysis.real_points[s.name]))
    yield log_ratio(loads, operations)
    yield log_ratio(stores, operations)
    yield total_of([w.gathered for w in works]) / accesses
    yield total_of([w.unaligned for w in works]) / accesses
    yield total_of([w.crowded for w in works]) / accesses
    yield total_of([w.loops for w in works]) * LOOP_INSTRUCTIONS / total_of([w.instructions for w in works])
    yield log_ratio(total_of([w.exits for w in works]) * 1000.0, operations)
    yield mean(lambda s, w: log_ratio(s.trips[s.body], s.trips[max(s.body - 1, 0)]))
    yield total_of([w.tile_loads for w in works]) / np.maximum(total_of([w.products for w in works]), 1.0)


def _of_program(
    analysis: Analysis, target: Target, threads: int, cycles: Value, stages: list[tuple[StageLevels, InstructionCounts]]
) -> Iterator[Value]:
    copies = [work.instructions for s, work in stages if s.loops.copies is not None]
    yield total_of(copies) / total_of([work.instructions for _, work in stages])
    yield float(len(analysis.nests))
    yield from _parallelism(analysis.nests, threads)
    for number in range(LEVELS):
        known = number < len(analysis.caches)
        yield log_ratio(analysis.touched, analysis.caches[number].bytes) if known else 0.0
    ideal = total_of([_least_operations(s, work, analysis.real_points[s.name], target) for s, work in stages])
    yield log_ratio(cycles, ideal)
    yield total_of([nest.traffic.collisions for nest in analysis.nests]) / cycles
    yield log_ratio(len(analysis.nests) * REGION * 3e9 * threads, cycles)
    streaming: Value = 0.0
    for nest in analysis.nests:
        for on in nest.traffic.streamed.values():
            streaming = np.maximum(streaming, on)
    yield streaming
    ahead: Value = 0.0
    for nest in analysis.nests:
        ahead = np.maximum(ahead, nest.ahead)
    yield np.log2(1.0 + ahead)


def _least_operations(stage: StageLevels, work: InstructionCounts, points: float, target: Target) -> Value:
    """Cycles of arithmetic for the points that a program asks for, in full vectors or tiles; 0 for copies."""
    if stage.loops.copies is not None:
        return 0.0
    if stage.loops.tensorized is not None:
        return work.arithmetic / np.maximum(work.points, 1.0) * points
    vectorized = any(loop.kind is LoopKind.VECTOR for loop in stage.straight)
    lanes = target.lanes(stage.definition.tensors[0].dtype)
    per_point = work.operations / np.maximum(work.points, 1.0) * (work.width * lanes if vectorized else 1.0)
    return per_point * points / (lanes * target.fma_ports)


def _parallelism(nests: tuple[NestAnalysis, ...], threads: int) -> Iterator[Value]:
    """Trips of parallel loops for each thread, threads without work, longest share over mean: each of the worst nest."""
    trips: Value = nests[0].trips
    used: Value = nests[0].threads
    balance: Value = nests[0].balance
    for nest in nests[1:]:
        trips = np.minimum(trips, nest.trips)
        used = np.minimum(used, nest.threads)
        balance = np.maximum(balance, nest.balance)
    yield log_ratio(trips, float(threads))
    yield 1.0 - used / threads
    yield balance
