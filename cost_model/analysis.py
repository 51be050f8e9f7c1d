"""Everything that the features and the closed-form estimate are made of, from one walk over a loop tree.

The extents of the tree are ints (one config) or int64 arrays (a population); so all numbers here are floats or float64 arrays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..schedules.loops import LoopTree
from ..targets.target import Cache, Target
from .footprint import PAGE, Value
from .levels import PARALLEL, Levels, StageLevels, levels
from .traffic import NestTraffic, TrafficWalk, survives
from .work import StageWork, Work

LEVELS = 3  # caches that features tell apart
# A page whose neighbours' lines compete with its own for the same places costs as much as so many others (Zen 4: 7 cycles
# for a line of 64 bytes out of each row of 4 KiB, and nothing that could be seen for rows of 6,000 bytes).
ALIASED = 7.0
# Addresses of pages that a core has at hand: 64 to 96 in all cores of the last ten years. No operating system tells.
TRANSLATIONS = Cache(64 * int(PAGE), int(PAGE), 1)


@dataclass(frozen=True, slots=True)
class Nest:
    """One nest. `trips`: of its parallel loops; `threads`: how many of them work; `balance`: the longest share of a thread
    over the mean share of all threads, so that 1 is perfect. `moved`: bytes that enter or leave each cache;
    `translations`: how often the address of a page must be looked up.
    """

    root: StageLevels
    trips: Value
    threads: Value
    balance: Value
    work: tuple[tuple[StageLevels, Work], ...]
    moved: tuple[Value, ...]
    translations: Value
    traffic: NestTraffic


@dataclass(frozen=True, slots=True)
class Analysis:
    """All nests of a tree. `touched`: bytes of all tensors of the program together, each counted once."""

    nests: tuple[Nest, ...]
    caches: tuple[Cache, ...]
    touched: Value
    real_points: dict[str, float]


def analyse(tree: LoopTree, target: Target, threads: int) -> Analysis:
    """The walk. `threads`: what the kernel runs with; the numbers of the tree must be known (TypeError if they are not)."""
    counted = levels(tree)
    caches = target.caches[:LEVELS]
    walk = TrafficWalk(counted, (*caches, TRANSLATIONS))
    begun = [_begin(counted, root, walk, threads) for root in counted.roots]
    largest: dict[str, Value] = {}
    for _, _, traffic in begun:
        for tensor, box in traffic.boxes.items():
            largest[tensor] = np.maximum(largest[tensor], box.moved) if tensor in largest else box.moved
    touched = sum(largest.values(), 0.0)
    nests = []
    for root, (trips, used, traffic) in zip(counted.roots, begun, strict=True):
        balance = np.ceil(trips / used) * float(threads) / np.maximum(trips, 1.0)
        work = tuple((s, StageWork(tree, s, target).work()) for s in members(counted, root))
        moved = tuple(
            _moved(traffic, cache, n, n == len(caches) - 1, used, touched) for n, cache in enumerate(walk.caches)
        )
        nests.append(Nest(root, trips, used, balance, work, moved[:-1], moved[-1] / PAGE, traffic))
    points = {s.name: float(np.prod([float(a.extent) for a in s.definition.all_axes])) for s in counted.stages.values()}
    return Analysis(tuple(nests), caches, touched, points)


def members(counted: Levels, stage: StageLevels) -> list[StageLevels]:
    """A stage and all that runs inside of it."""
    found = [stage]
    for level in range(1, len(stage.loops.loops) + 1):
        for inner in counted.attached(stage, level):
            found += members(counted, inner)
    return found


def _begin(counted: Levels, root: StageLevels, walk: TrafficWalk, threads: int) -> tuple[Value, Value, NestTraffic]:
    """(trips of the parallel loops, threads that work, traffic) of a nest."""
    outermost = 0
    while outermost < len(root.full) and root.loops.loops[outermost].kind in PARALLEL:
        outermost += 1
    trips = root.trips[outermost] if outermost else 1.0
    used = np.minimum(trips, float(threads))
    return trips, used, walk.nest(root, members(counted, root), used)


def _moved(traffic: NestTraffic, cache: Cache, number: int, last: bool, threads: Value, touched: Value) -> Value:
    """Bytes in and out of a cache in one of many runs: what is still there from the run before does not move.

    A line that is written comes in before and goes out after; one that is streamed only goes out, to memory.
    """
    room = cache.bytes * np.ceil(threads / cache.shared_by)
    fetched = 1.0 - survives(touched / room)
    total: Value = 0.0
    for (tensor, leaves), moved in traffic.moved.items():
        if leaves and cache.line == PAGE:
            continue
        bytes_ = moved[number] * fetched
        if (tensor, True) in traffic.moved and tensor in traffic.streamed:
            past = traffic.streamed[tensor]
            stored = traffic.boxes[tensor].moved if last and leaves else 0.0
            bytes_ = (1.0 - past) * bytes_ + past * stored
        if cache.line == PAGE and tensor in traffic.aliased:
            bytes_ = ALIASED * bytes_
        total = total + bytes_
    return total
