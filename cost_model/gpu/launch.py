"""A launch in numbers: its blocks, what each of their threads holds, and what all of them together do to the machine.

From one walk over a loop tree to which a config or a population has been applied; totals are over the whole launch, counted
in instructions of warps, cycles of the units that all warps of a multiprocessor share, and bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...schedules.extents import Extent
from ...schedules.loops import LoopTree
from ...schedules.plan.stage import Plan
from ...schedules.plan.threads import GRID, blocks_of, threads_of, width_of
from ...targets.backend import Multiprocessor
from ...targets.target import Cache, Target
from ..footprint import Value, real
from ..levels import Levels, StageLevels, levels
from ..populations import one_plan
from ..traffic import TrafficWalk, survives
from .lanes import SECTOR
from .places import placement, shared_bytes
from .registers import registers_at_most, registers_needed
from .stage import StageCost, StageCounter


@dataclass(frozen=True, slots=True, eq=False)
class LaunchCost:
    """One root with all that runs inside of it. `ahead`: stages of the software pipeline (1: none).

    `grid` blocks of `width` threads are started; `blocks` of them have something to do, in `threads` of theirs.
    """

    root: StageLevels
    blocks: Value
    grid: Value
    threads: Value
    width: Value
    registers: Value
    pressure: Value  # registers that a thread would take, over those that it can have
    shared_bytes: Value
    resident: Value  # blocks of a multiprocessor at a time
    ahead: Value
    stages: tuple[StageCost, ...]
    l2_bytes: Value  # between the multiprocessors and the L2
    dram_bytes: Value
    touched: Value  # bytes of all tensors, each counted once


def launches(tree: LoopTree, target: Target, plan: Plan | None = None) -> tuple[LaunchCost, ...]:
    """All launches of a call, in order, for candidates that have one plan. TypeError while extents are symbolic."""
    counted = levels(tree, plan=one_plan(tree, gpu=True) if plan is None else plan)
    return tuple(_LaunchCount(counted, root, target).launch() for root in counted.roots)


def resident_blocks(gpu: Multiprocessor, threads: Value, registers: Value, shared: Value) -> Value:
    """Says how many blocks a multiprocessor holds at a time: by threads, registers, memory. Source: CUDA C++ best practices
    guide, "Occupancy", and the occupancy calculator that NVIDIA ships with its profiler."""
    warps, grain, schedulers = np.ceil(threads / gpu.warp), float(gpu.register_grain), float(gpu.schedulers)
    by_threads = np.floor(gpu.threads / (warps * gpu.warp))
    of_warp = np.maximum(np.ceil(registers * gpu.warp / grain) * grain, grain)
    by_registers = np.floor(np.floor(gpu.registers / schedulers / of_warp) * schedulers / warps)
    by_shared = np.floor(gpu.shared / np.maximum(shared + gpu.reserved, 1.0))
    return np.minimum(np.minimum(np.minimum(by_threads, by_registers), by_shared), float(gpu.blocks))


class _LaunchCount:
    """Counts one launch."""

    def __init__(self, counted: Levels, root: StageLevels, target: Target) -> None:
        self.counted, self.root, self.target = counted, root, target
        self.tree = counted.tree
        self.gpu = target.gpu
        self.members = [s for s in counted.stages.values() if s is root or self._inside(s)]
        depth = 0
        while depth < len(root.loops.loops) and root.loops.loops[depth].kind in GRID:
            depth += 1
        self.depth = depth
        self.blocks: Value = root.trips[depth]
        self.grid: Value = real(blocks_of(root.loops))
        self.places = {s.name: placement(s.plan) for s in self.members}
        threads = threads_of(self.tree, self.tree.by_stage[root.name], self.gpu)
        self.threads: Value = real(threads)
        self.whole: Extent = width_of(threads, self.gpu)
        self.width: Value = real(self.whole)

    def _inside(self, stage: StageLevels) -> bool:
        return any(outer.stage == self.root.name for outer, _ in self.tree.chain(stage.name))

    def launch(self) -> LaunchCost:
        """Works out all numbers of the launch."""
        counter = StageCounter(self.counted, self.places, self.threads, self.blocks, self.gpu.warp)
        stages = tuple(counter.cost(s) for s in self.members)
        ahead: Value = 1.0
        shared: Value = 0.0
        for stage in self.members:
            for storage in stage.plan.storage:
                ahead = np.maximum(ahead, real(storage.slots))
        for stage in self.members:
            shared = shared + shared_bytes(self.tree, stage.plan, self.whole, self.gpu.warp)
        needed = registers_needed(self.tree, self.members, self.places, self.width)
        most = registers_at_most(self.width, self.gpu)
        registers = np.minimum(needed, most)
        resident = np.maximum(resident_blocks(self.gpu, self.width, registers, shared), 0.0)
        l2, dram, touched = self._bytes(shared * np.maximum(resident, 1.0))
        return LaunchCost(
            self.root, self.blocks, self.grid, self.threads, self.width, registers, needed / most, shared, resident, ahead,
            stages, l2, dram, touched,
        )  # fmt: skip

    # ---- bytes ---------------------------------------------------------------------------------------------------------

    def _bytes(self, shared: Value) -> tuple[Value, Value, Value]:
        """(bytes between multiprocessors and L2, bytes of DRAM, bytes of all tensors once)."""
        l1, l2 = self.target.caches[0], self.target.caches[1]
        walk = TrafficWalk(self.counted, (Cache(l1.bytes, SECTOR, 1), Cache(l2.bytes, SECTOR, l2.shared_by)))
        out = {t.name for t in self.root.definition.tensors}
        inside = {t.name for s in self.members if s is not self.root for t in s.definition.tensors}
        each: list[dict[str, Value]] = []
        for level in range(self.depth + 1):
            boxes = walk.boxes(self.root, level)
            each.append({name: box.moved for name, box in boxes.items() if name not in inside or name in out})
        once = _total(each[0])
        block = _total(each[-1])
        # what a block reads again comes from its L1 if it fits beside the shared memory
        room = np.maximum(float(self.gpu.shared) - shared, 16.0 * 1024.0)
        repeats = self._repeats()
        stays = survives(block / room)
        traffic = self.blocks * block * (stays + (1.0 - stays) * repeats)
        dram = np.minimum(traffic, self.blocks * block)
        for level in range(self.depth + 1):
            fits = survives(_total(each[level]) / float(l2.bytes))
            bound = np.minimum(self.root.trips[level] * _total(each[level]), dram)
            dram = dram - fits * (dram - bound)
        # what runs at the same time shares the L2, in whatever order
        wave = np.minimum(self.blocks, float(self.target.cores))
        shared_by = self._wave_bytes(each, wave)
        dram = np.minimum(dram, np.maximum(self.blocks / wave * shared_by, once))
        return traffic, np.maximum(dram, np.minimum(once, dram)), once

    def _wave_bytes(self, each: list[dict[str, Value]], wave: Value) -> Value:
        """Bytes that `wave` neighbouring blocks touch together: between the levels of the block loops, on a log scale."""
        found = _total(each[-1]) * wave
        for level in range(self.depth, 0, -1):
            inner = self.blocks / np.maximum(self.root.trips[level], 1.0)
            outer = self.blocks / np.maximum(self.root.trips[level - 1], 1.0)
            share = np.log(np.maximum(wave / inner, 1.0)) / np.log(np.maximum(outer / inner, 1.0 + 1e-9))
            low, high = _total(each[level]), _total(each[level - 1])
            between = low * (high / np.maximum(low, 1.0)) ** np.minimum(share, 1.0)
            found = np.where((wave >= inner) & (wave <= outer), np.minimum(found, between), found)
        return found

    def _repeats(self) -> Value:
        """Says how many times a block goes over its memory: stages that walk over the same tensor one after another."""
        times: dict[str, int] = {}
        for stage in self.members:
            for tensor in dict.fromkeys(r.tensor for r in stage.definition.reads()):
                times[tensor] = times.get(tensor, 0) + 1
        return float(max([n for t, n in times.items() if self._is_global(t)], default=1))

    def _is_global(self, tensor: str) -> bool:
        producer = self.tree.program.producers.get(tensor)
        return producer is None or self.places.get(producer.name, "global") == "global"


def _total(bytes_: dict[str, Value]) -> Value:
    total: Value = 0.0
    for value in bytes_.values():
        total = total + value
    return total
