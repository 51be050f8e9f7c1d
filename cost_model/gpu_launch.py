"""A launch in numbers: its blocks, what each of their threads holds, and what all of them together do to the machine.

From one walk over a loop tree to which a config or a population has been applied; totals are over the whole launch, counted
in instructions of warps, cycles of the units that all warps of a multiprocessor share, and bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..schedules import regions
from ..schedules.loops import Loop, LoopKind, LoopTree, Scope, StageLoops
from ..targets.isa import Multiprocessor
from ..targets.target import Cache, Target
from ..tensor.expr import Read, variables
from .footprint import Value, real
from .gpu_lanes import LANES, SECTOR
from .gpu_patterns import (
    WRITTEN_OUT,
    Pattern,
    global_pattern,
    global_width,
    note,
    own_width,
    shared_read,
    shared_width,
    shared_write,
)
from .levels import Levels, StageLevels, levels
from .operations import slots
from .traffic import TrafficWalk, survives

OVERHEAD = 28.0  # registers of a thread for addresses and counters
LOOP = 3.0  # instructions of a loop that runs in the code
L1_RESERVED = 1024.0  # bytes of shared memory that each block costs beside its own


@dataclass(frozen=True, slots=True, eq=False)
class StageCost:
    """One stage of a launch; totals over all blocks.

    arithmetic: warp instructions of the arithmetic units. shared, lines: cycles of shared memory, and of the units that take
    global accesses. instructions: all that warps issue. steps: global accesses that follow each other in one block.
    chains: independent sums of a thread. waste: sectors that its accesses touch over those that they need.
    conflicts: cycles of its shared accesses over those without conflicts.
    """

    stage: StageLevels
    arithmetic: Value
    shared: Value
    lines: Value
    instructions: Value
    steps: Value
    combines: Value
    chains: Value
    waste: Value
    conflicts: Value
    weight: Value  # global accesses of warps, by which `waste` counts


@dataclass(frozen=True, slots=True, eq=False)
class Launch:
    """One root with all that runs inside of it. `ahead`: stages of the software pipeline (1: none); `reuse`: see below."""

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
        own = _wanted(self.root.loops)
        if any(x.kind in (LoopKind.THREAD, LoopKind.WARP) for x in self.root.loops.loops):
            return own
        most: Value = 1.0
        for stage in self.members:
            most = np.maximum(most, _wanted(stage.loops))
        return np.minimum(most, float(self.gpu.block_threads))

    def launch(self) -> Launch:
        """All numbers."""
        stages = tuple(self._stage(s) for s in self.members)
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
            own = _copies(stage.loops, frozenset(a.name for a in definition.axes)) * words
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
                operands = operands + ahead * _copies(stage.loops, spatial) * max(1.0, read.dtype.bytes / 4.0)
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

    # ---- stages --------------------------------------------------------------------------------------------------------

    def _stage(self, stage: StageLevels) -> StageCost:
        definition, loops = stage.definition, stage.loops
        warps = self._warps_per_thread(stage)
        everything = frozenset(a.name for a in definition.all_axes)
        arithmetic: Value = 0.0
        for axes, cost in slots(definition, True).items():
            arithmetic = arithmetic + cost * executed(stage, axes) * warps
        shared: Value = 0.0
        free: Value = 0.0
        lines: Value = 0.0
        needed: Value = 0.0
        touched: Value = 0.0
        accesses: Value = 0.0
        reaches_memory = False
        for read in dict.fromkeys(definition.reads()):
            producer = self.tree.program.producers.get(read.tensor)
            place = self.places.get(producer.name, "global") if producer is not None else "global"
            if place == "register":
                continue
            axes = frozenset().union(*(variables(index) for index in read.indices))
            if place == "shared" and producer is not None:
                made = self.tree.by_stage[producer.name]
                count = executed(stage, axes) * warps / shared_width(self.tree, loops, read, made)
                pattern = shared_read(self.tree, loops, read, made)
                shared, free = _add_shared(shared, free, count, pattern)
            else:
                reaches_memory = True
                count = executed(stage, axes) * warps / global_width(self.tree, loops, read)
                pattern = global_pattern(self.tree, loops, read)
                lines, touched, needed = _add_global(lines, touched, needed, count, pattern)
            accesses = accesses + count
        place = self.places[stage.name]
        if place != "register":
            spatial = frozenset(a.name for a in definition.axes)
            times = executed(stage, spatial, store=True) * warps * len(definition.tensors)
            if place == "shared":
                count = times / own_width(loops, definition)
                shared, free = _add_shared(shared, free, count, shared_write(self.tree, loops))
            else:
                written = Read(
                    definition.tensors[0].name, tuple(a.var for a in definition.axes_of(0)), definition.tensors[0].dtype
                )
                count = times / global_width(self.tree, loops, written)
                lines, touched, needed = _add_global(
                    lines, touched, needed, count, global_pattern(self.tree, loops, written)
                )
            accesses = accesses + count
        combines = self._combines(stage)
        control = LOOP * self._iterations(stage) * warps
        steps = self._steps(stage) if reaches_memory else 0.0
        return StageCost(
            stage=stage,
            arithmetic=arithmetic,
            shared=shared,
            lines=lines,
            instructions=arithmetic + 1.25 * accesses + control + 12.0 * combines * self.threads / LANES,
            steps=steps,
            combines=combines / np.maximum(self.blocks, 1.0),
            chains=_copies(loops, everything) if definition.reduction else 8.0,
            waste=touched / np.maximum(needed, 1.0),
            conflicts=shared / np.maximum(free, 1.0),
            weight=lines,
        )

    def _warps_per_thread(self, stage: StageLevels) -> Value:
        """Warp instructions for each instruction of a thread: 1/32 where all lanes work, and more where some idle."""
        lanes: Value = 1.0
        for loop in stage.loops.loops:
            if loop.kind is LoopKind.THREAD:
                lanes = lanes * real(loop.extent)
        alone = any(
            x.kind is LoopKind.THREAD for outer, depth in self.tree.chain(stage.name) for x in outer.loops[:depth]
        )
        if alone:  # inside of the threads of the root
            lanes = self.threads
        elif not any(x.kind in (LoopKind.THREAD, LoopKind.WARP) for x in stage.loops.loops):
            return np.ceil(self.threads / LANES)  # every thread does the same
        return np.ceil(lanes / LANES) / lanes

    def _combines(self, stage: StageLevels) -> Value:
        """How often the threads of a team put their parts of a reduction together, over the whole launch."""
        reduction = {a.name for a in stage.definition.reduction}
        bound = [x for x in stage.loops.loops if x.kind is LoopKind.THREAD and x.axis in reduction]
        if not bound:
            return 0.0
        first = min(stage.loops.position(x.name) for x in stage.loops.loops if x.axis in reduction)
        return stage.trips[first]

    def _iterations(self, stage: StageLevels) -> Value:
        """Iterations of loops in the code, of all threads."""
        total: Value = 0.0
        for level, loop in enumerate(stage.loops.loops):
            if loop.kind is LoopKind.SERIAL:
                ratio = stage.trips[level + 1] / np.maximum(stage.trips[level], 1.0)
                inside = _bound_inside(stage.loops.loops[level + 1 :])
                total = total + np.where(ratio > 1.0, stage.trips[level + 1] * inside, 0.0)
        return total

    def _steps(self, stage: StageLevels) -> Value:
        """Trips of the loops in the code around the accesses of a stage, for one block."""
        total = _serial_trips(stage, len(stage.loops.loops))
        for outer, depth in self.tree.chain(stage.name):
            total = total * _serial_trips(self.counted.stages[outer.stage], depth)
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
            for tensor in {r.tensor for r in stage.definition.reads()}:
                times[tensor] = times.get(tensor, 0) + 1
        return float(max([n for t, n in times.items() if self._is_global(t)], default=1))

    def _is_global(self, tensor: str) -> bool:
        producer = self.tree.program.producers.get(tensor)
        return producer is None or self.places.get(producer.name, "global") == "global"


# ---- counting ----------------------------------------------------------------------------------------------------------


def placement(tree: LoopTree, stage: StageLoops) -> str:
    """Where the values of a stage live: "global", "shared" or "register"."""
    if stage.at is None or any(t.name in tree.program.outputs for t in tree.definition(stage.stage).tensors):
        return "global"
    if stage.scope is Scope.SHARED:
        return "shared"
    around = [x.kind for outer, depth in tree.chain(stage.stage) for x in outer.loops[:depth]]
    bound = [x for x in stage.loops if x.kind in (LoopKind.THREAD, LoopKind.WARP)]
    axes = {a.name for a in tree.definition(stage.stage).axes}
    if LoopKind.THREAD in around or not any(x.axis in axes for x in bound):
        return "register"
    readers = [tree.by_stage[c.name] for c in tree.program.consumers[stage.stage]]
    return "register" if all(_alike(stage, reader) for reader in readers) else "shared"


def _alike(stage: StageLoops, reader: StageLoops) -> bool:
    """Whether a reader is bound as a stage is, and both write out the rest, so that each thread reads what it made."""
    kinds = (LoopKind.THREAD, *WRITTEN_OUT)
    mine, theirs = ([x for x in s.loops if x.kind is LoopKind.THREAD] for s in (stage, reader))
    serial = [x for x in stage.loops if x.kind not in kinds and x.axis in {y.axis for y in mine}]
    reduced = [x for x in serial if not (isinstance(x.extent, int) and x.extent == 1)]
    pairs = zip(mine, theirs, strict=False)
    same = len(mine) == len(theirs) and all(
        np.array_equal(np.asarray(a.extent), np.asarray(b.extent))
        and np.array_equal(np.asarray(a.stride), np.asarray(b.stride))
        for a, b in pairs
    )
    return same and not reduced


def executed(stage: StageLevels, axes: frozenset[str], store: bool = False) -> Value:
    """How often all threads together execute what depends on these axes: it stands where the last of its loops opens.

    store: of a reduction, what is done with each finished value; its loops do not count, nor what is bound of them.
    """
    loops = stage.loops.loops
    level = 0
    for position, loop in enumerate(loops, 1):
        moves = loop.axis in axes
        if loop.kind in WRITTEN_OUT:
            continue
        if moves or (loop.kind in (LoopKind.THREAD, LoopKind.WARP, LoopKind.BLOCK) and not store):
            level = position
    total = stage.trips[level]
    if store:
        reduced: Value = 1.0
        for loop, before, after in zip(loops[:level], stage.trips[:level], stage.trips[1 : level + 1], strict=True):
            if loop.axis not in axes:
                reduced = reduced * after / np.maximum(before, 1.0)
        total = total / reduced
    for loop in loops[level:]:
        if loop.kind in WRITTEN_OUT and loop.axis in axes:
            total = total * real(loop.extent)
    return total


def _copies(stage: StageLoops, axes: frozenset[str]) -> Value:
    """How many values of what depends on these axes a thread has at a time."""
    total: Value = 1.0
    for loop in stage.loops:
        if loop.kind in WRITTEN_OUT and loop.axis in axes:
            total = total * real(loop.extent)
    return total


def _wanted(stage: StageLoops) -> Value:
    threads: Value = 1.0
    warps: Value = 0.0
    for loop in stage.loops:
        if loop.kind is LoopKind.THREAD:
            threads = threads * real(loop.extent)
        elif loop.kind is LoopKind.WARP:
            warps = np.maximum(warps, 1.0) * real(loop.extent)
    return np.where(np.asarray(warps) > 0.0, warps * LANES, threads)


def _bound_inside(loops: tuple[Loop, ...]) -> Value:
    total: Value = 1.0
    for loop in loops:
        if loop.kind in (LoopKind.THREAD, LoopKind.WARP):
            total = total * real(loop.extent)
    return total


def _serial_trips(stage: StageLevels, depth: int) -> Value:
    """Trips of the serial loops among the first `depth`, one inside of the other."""
    total: Value = 1.0
    for level, loop in enumerate(stage.loops.loops[:depth]):
        if loop.kind is LoopKind.SERIAL:
            total = total * np.maximum(stage.trips[level + 1] / np.maximum(stage.trips[level], 1.0), 1.0)
    return total


def _add_shared(shared: Value, free: Value, count: Value, pattern: Pattern) -> tuple[Value, Value]:
    """(cycles, cycles without conflicts) with one more access."""
    least = np.maximum(pattern.width * LANES / 128.0, 1.0)
    cycles = pattern.shared_cycles()
    return shared + count * cycles, free + count * np.minimum(least, cycles)


def _add_global(
    lines: Value, touched: Value, needed: Value, count: Value, pattern: Pattern
) -> tuple[Value, Value, Value]:
    """(lines, sectors touched, sectors needed) with one more access."""
    at_once, sectors = pattern.lines_and_sectors()
    least = np.minimum(np.maximum(pattern.width * LANES / SECTOR, 1.0), sectors)
    return lines + count * at_once, touched + count * sectors, needed + count * least


def _total(bytes_: dict[str, Value]) -> Value:
    total: Value = 0.0
    for value in bytes_.values():
        total = total + value
    return total
