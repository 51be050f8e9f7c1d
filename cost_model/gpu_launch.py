"""A launch in numbers: its blocks, what each of their threads holds, and what all of them together do to the machine.

From one walk over a loop tree to which a config or a population has been applied; totals are over the whole launch, counted
in instructions of warps, cycles of the units that all warps of a multiprocessor share, and bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..schedules import regions
from ..schedules.loops import LoopKind, LoopTree
from ..targets.isa import Multiprocessor
from ..targets.target import Cache, Target
from ..tensor.expr import variables
from .footprint import Value, real
from .gpu_lanes import LANES, SECTOR
from .gpu_patterns import note
from .gpu_stage import StageCost, StageCounter, copies, placement, wanted_threads
from .levels import Levels, StageLevels, levels
from .traffic import TrafficWalk, survives

OVERHEAD = 28.0  # registers of a thread for addresses and counters
L1_RESERVED = 1024.0  # bytes of shared memory that each block costs beside its own


@dataclass(frozen=True, slots=True, eq=False)
class Launch:
    """One root with all that runs inside of it. `ahead`: stages of the software pipeline (1: none)."""

    root: StageLevels
    blocks: Value
    threads: Value
    registers: Value
    shared_bytes: Value
    resident: Value  # blocks of a multiprocessor at a time
    ahead: Value
    stages: tuple[StageCost, ...]
    l2_bytes: Value  # between the multiprocessors and the L2
    dram_bytes: Value
    touched: Value  # bytes of all tensors, each counted once


def launches(tree: LoopTree, target: Target) -> tuple[Launch, ...]:
    """All launches of a call, in order. TypeError for a tree whose extents are still symbolic."""
    counted = levels(tree)
    return tuple(_LaunchCount(counted, root, target).launch() for root in counted.roots)


def resident_blocks(gpu: Multiprocessor, threads: Value, registers: Value, shared: Value) -> Value:
    """How many blocks a multiprocessor holds at a time: by threads, registers (given out in eights to whole warps), memory."""
    warps = np.ceil(threads / LANES)
    by_threads = np.floor(gpu.threads / (warps * LANES))
    by_registers = np.floor(gpu.registers / (np.ceil(registers / 8.0) * 8.0 * warps * LANES))
    by_shared = np.floor(gpu.shared / (shared + L1_RESERVED))
    return np.minimum(np.minimum(np.minimum(by_threads, by_registers), by_shared), float(gpu.blocks))


class _LaunchCount:
    """Counts one launch."""

    def __init__(self, counted: Levels, root: StageLevels, target: Target) -> None:
        self.counted, self.root, self.target = counted, root, target
        self.tree = counted.tree
        assert target.isa.gpu is not None
        self.gpu = target.isa.gpu
        self.members = [s for s in counted.stages.values() if s is root or self._inside(s)]
        depth = 0
        while depth < len(root.loops.loops) and root.loops.loops[depth].kind is LoopKind.BLOCK:
            depth += 1
        self.depth = depth
        self.blocks: Value = root.trips[depth]
        self.places = {s.name: placement(self.tree, s.loops) for s in self.members}
        self.threads = self._threads()

    def _inside(self, stage: StageLevels) -> bool:
        return any(outer is self.root.loops for outer, _ in self.tree.chain(stage.name))

    def _threads(self) -> Value:
        own = wanted_threads(self.root.loops)
        if any(x.kind in (LoopKind.THREAD, LoopKind.WARP) for x in self.root.loops.loops):
            return own
        most: Value = 1.0
        for stage in self.members:
            most = np.maximum(most, wanted_threads(stage.loops))
        return np.minimum(most, float(self.gpu.block_threads))

    def launch(self) -> Launch:
        """All numbers."""
        counter = StageCounter(self.counted, self.places, self.threads, self.blocks)
        stages = tuple(counter.cost(s) for s in self.members)
        ahead: Value = 1.0
        shared: Value = 0.0
        held: NDArray[np.bool_] = np.asarray(False)  # what is copied, on its way through registers
        for stage in self.members:
            depth = note(stage.loops, "pipeline")
            held = held | (np.asarray(note(stage.loops, "staged")) > 0)
            if not (isinstance(depth, int) and depth == 0):
                ahead = np.maximum(ahead, real(depth))
        for stage in self.members:
            if self.places[stage.name] == "shared":
                shared = shared + real(regions.storage_bytes(self.tree, stage.loops)) * (
                    ahead if stage.loops.copies is not None else 1.0
                )
        registers = self._registers() + self._staged((np.asarray(ahead) <= 1) | held)
        resident = np.maximum(resident_blocks(self.gpu, self.threads, registers, shared), 0.0)
        l2, dram, touched = self._bytes(shared * np.maximum(resident, 1.0))
        return Launch(
            self.root, self.blocks, self.threads, registers, shared, resident, ahead, stages, l2, dram, touched
        )

    # ---- registers -----------------------------------------------------------------------------------------------------

    def _registers(self) -> Value:
        """What the busiest stage needs beside the tiles that stay in registers from stage to stage."""
        held: Value = 0.0
        most: Value = 0.0
        for stage in self.members:
            definition = stage.definition
            words = max(1.0, max(t.dtype.bytes for t in definition.tensors) / 4.0)
            own = copies(stage.loops, frozenset(a.name for a in definition.axes)) * words
            operands: Value = 0.0
            for read in definition.reads():
                spatial = frozenset().union(*(variables(i) for i in read.indices))
                producer = self.tree.program.producers.get(read.tensor)
                if producer is not None and self.places.get(producer.name) == "register":
                    continue
                if definition.reduction:
                    spatial &= {a.name for a in definition.axes}
                # those of the next term are on their way while this one's are used
                ahead = 2.0 if definition.reduction else 1.0
                operands = operands + ahead * copies(stage.loops, spatial) * max(1.0, read.dtype.bytes / 4.0)
            if self.places[stage.name] == "register" and stage is not self.root:
                held = held + own
                most = np.maximum(most, operands)
            else:
                most = np.maximum(most, operands + (own if definition.reduction else 0.0))
        return OVERHEAD + held + most

    def _staged(self, held: NDArray[np.bool_]) -> Value:
        """Registers for what a thread copies at a time: the elements where they are held in some, and addresses."""
        total: Value = 0.0
        for stage in self.members:
            if stage.loops.copies is None or self.places[stage.name] != "shared":
                continue
            words = max(1.0, stage.definition.tensors[0].dtype.bytes / 4.0)
            elements = stage.trips[-1] / np.maximum(stage.trips[0], 1.0) / self.threads
            total = total + elements * np.where(held, words + 0.5, 0.5)
        return total

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
        """How many times a block goes over its memory: stages that walk over the same tensor one after another."""
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
