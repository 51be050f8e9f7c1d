"""Seconds of a candidate without any measurement: a closed form over the analysis and the ceilings of a machine.

    nest     = (computing (+) caches (+) memory) * imbalance + start of a parallel region
    program  = sum over its nests

computing is the busiest of the arithmetic ports, the load ports, the store ports, the decoder and the chains of dependent
additions, stage by stage, as in the roofline and ECM models (Williams et al., CACM 2009; Stengel et al., ICS 2015). Where two
of the terms are close they get into each other's way, so (+) is a norm between the maximum and the sum. A nest of several
passes over its rows is their sum: while the later passes compute, nobody asks for the next row, unless prefetches do (softmax
of 1,024 columns, Sapphire Rapids: 1.16 ms without, 0.72 with them; 0.68 of computing, 0.57 of memory).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..schedules.loops import LoopTree
from ..targets.ceilings import Ceilings
from ..targets.target import Target
from .analysis import Analysis, Nest, analyse
from .footprint import Value
from .gpu_analytic import predict_gpu
from .work import LATENCY, SCALAR_PORTS, WINDOW, Work

ISSUE = 5.0  # instructions that a core takes in per cycle
EXIT = 12.0  # cycles lost where a loop ends: its last jump is mostly predicted wrongly
SPLIT = 0.75  # of a load more for a vector that lies across two lines
COLLISION = 8.0  # cycles to fetch a line whose places in the first cache are all taken (Zen 4)
NORM = 3.0  # of the terms of a nest: 1 would be their sum, infinity the largest
NORM_NEAR = (
    5.0  # where hints spread the traffic over the computing (49x512x4608, Sapphire Rapids: 265 instead of 233 GFLOP/s)
)
NORM_PORTS = 4.0  # of arithmetic and loads in one core
REGION = 1e-6  # seconds to start and join a parallel region of threads that are awake (0.55 us measured with two)
SMALL = 6000.0  # instructions of a nest up to which the code generator starts no threads for it


def predict(tree: LoopTree, target: Target, threads: int, ceilings: Ceilings, count: int) -> NDArray[np.float64]:
    """float64[count]: predicted seconds of one run, for a tree to which `count` configs (or one) have been applied.

    The ceilings must be for the same number of threads. TypeError for a tree whose extents are still symbolic.
    """
    if target.kind == "cuda":
        return predict_gpu(tree, target, ceilings, count)
    return seconds(analyse(tree, target, threads), target, threads, ceilings, count)


def seconds(analysis: Analysis, target: Target, threads: int, ceilings: Ceilings, count: int) -> NDArray[np.float64]:
    """As `predict`, from an analysis that exists already."""
    total: Value = 0.0
    for nest in analysis.nests:
        total = total + _nest_seconds(nest, analysis, target, threads, ceilings)
    return np.broadcast_to(np.asarray(total, dtype=np.float64), (count,)).copy()


def _nest_seconds(nest: Nest, analysis: Analysis, target: Target, threads: int, ceilings: Ceilings) -> Value:
    clock = clock_of(target, ceilings)
    cycles: Value = 0.0
    for _, work in nest.work:
        cycles = cycles + stage_cycles(work, target)
    terms = [cycles / (clock * threads)]
    speeds = level_speeds(target, ceilings)
    for moved, speed in zip(nest.moved, speeds, strict=True):
        terms.append(moved / speed)
    terms.append(nest.traffic.collisions * COLLISION / (clock * threads))
    total = np.where(np.asarray(nest.near) > 0.0, _norm(terms, NORM_NEAR), _norm(terms))
    if nest.passes:
        total = np.where(nest.ahead > 0.0, total, terms[0] + _norm(terms[1:]))
    if threads == 1:
        return total * nest.balance
    started = np.where(nest.trips > 1.0, REGION, 0.0)
    instructions = sum((work.instructions for _, work in nest.work), 0.0)
    return np.where(instructions < SMALL, total * threads, total * nest.balance + started)


def _norm(terms: list[Value], power: float = NORM) -> Value:
    """Between the maximum and the sum."""
    total: Value = 0.0
    for term in terms:
        total = total + term**power
    return np.asarray(total) ** (1.0 / power)


def stage_cycles(work: Work, target: Target) -> Value:
    """Cycles of one core for a whole stage, if all data lay in the first-level cache.

    Loads get into the way of arithmetic before they fill their own ports: multiply-adds on registers alone run at 219
    GFLOP/s on a core of a Sapphire Rapids, at 197 with one load of a vector for each four of them, at 172 with one for two.
    """
    arithmetic, loading, *others = resources(work, target)
    bound: Value = _norm([arithmetic, loading], NORM_PORTS)
    for resource in others:
        bound = np.maximum(bound, resource)
    return bound + EXIT * work.exits


def resources(work: Work, target: Target) -> tuple[Value, Value, Value, Value, Value]:
    """Cycles that a stage keeps each resource busy: arithmetic, loads, stores, instructions, chains of additions."""
    arithmetic = _per_cycle(target.fma_ports, work.width)
    loading = _per_cycle(target.load_ports, work.width)
    scalars = max(SCALAR_PORTS, float(target.load_ports))
    storing = float(target.store_ports)
    in_flight = work.instructions * work.length / np.maximum(work.steps, 1.0)
    overlap = 1.0 + WINDOW / np.maximum(in_flight, 1.0)
    return (
        work.operations / arithmetic,
        (work.loads - work.broadcasts + SPLIT * work.unaligned) / loading + work.broadcasts / scalars,
        work.stores / storing,
        work.instructions / ISSUE,
        work.steps * LATENCY / overlap,
    )


def _per_cycle(ports: int, width: Value) -> Value:
    """Instructions per cycle: a core that splits full vectors runs narrower ones at the full number of its ports."""
    return np.minimum(ports / width, max(SCALAR_PORTS, float(ports)))


def clock_of(target: Target, ceilings: Ceilings) -> float:
    """Cycles per second and core, from the fastest arithmetic that was seen."""
    fused = target.kind != "x86" or "fma" in target.features
    lanes = target.vector_bits / 32 * target.fma_ports * (2 if fused else 1)
    return ceilings.flops["f32"] / (ceilings.threads * lanes)


def level_speeds(target: Target, ceilings: Ceilings) -> list[float]:
    """Bytes per second, all threads together, that enter each cache from the level behind it."""
    sizes = [cache.bytes * -(-ceilings.threads // cache.shared_by) for cache in target.caches[:3]]
    speeds = [ceilings.bandwidth_at(size * 0.5) for size in sizes[1:]]
    return [*speeds, ceilings.bandwidth_at(sizes[-1] * 4.0)]
