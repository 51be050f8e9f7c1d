"""What one stage of a launch asks of the units that execute it; see launch.py for the whole."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...schedules.loops import WRITTEN_OUT, Loop, LoopKind, StageLoops
from ...tensor.expr import Read, variables
from ..footprint import Value, real
from ..levels import Levels, StageLevels
from ..operations import slots
from .lanes import SECTOR
from .patterns import Pattern, global_pattern, global_width, own_width, shared_read, shared_width, shared_write

LOOP = 3.0  # instructions of a loop that runs in the code
ACCESS = 1.25  # instructions of an access, with those of its address
COMBINE = 12.0  # of putting two parts of a reduction together


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


class _Accesses:
    """The accesses of a stage to shared and to global memory, as they add up."""

    def __init__(self, warp: int) -> None:
        self.warp = warp
        self.count: Value = 0.0
        self.shared: Value = 0.0
        self.free: Value = 0.0  # cycles of shared memory, if nothing were in conflict
        self.lines: Value = 0.0
        self.touched: Value = 0.0
        self.needed: Value = 0.0
        self.reach_memory = False

    def add_shared(self, count: Value, pattern: Pattern) -> None:
        """Adds so many accesses of warps to shared memory."""
        least = np.maximum(pattern.width * self.warp / 128.0, 1.0)
        cycles = pattern.shared_cycles(self.warp)
        self.count = self.count + count
        self.shared = self.shared + count * cycles
        self.free = self.free + count * np.minimum(least, cycles)

    def add_global(self, count: Value, pattern: Pattern) -> None:
        """Adds so many accesses of warps to global memory."""
        at_once, sectors = pattern.lines_and_sectors(self.warp)
        least = np.minimum(np.maximum(pattern.width * self.warp / SECTOR, 1.0), sectors)
        self.count = self.count + count
        self.lines = self.lines + count * at_once
        self.touched = self.touched + count * sectors
        self.needed = self.needed + count * least


class StageCounter:
    """Counts the stages of one launch. `places`: of each stage, as places.py says; `threads`: of a block; `warp`: of a warp."""

    def __init__(self, counted: Levels, places: dict[str, str], threads: Value, blocks: Value, warp: int) -> None:
        self.counted, self.places, self.threads, self.blocks = counted, places, threads, blocks
        self.tree, self.warp = counted.tree, warp

    def cost(self, stage: StageLevels) -> StageCost:
        """Works out all numbers of a stage."""
        definition, loops = stage.definition, stage.loops
        warps = self._warps_per_thread(stage)
        arithmetic: Value = 0.0
        for axes, cost in slots(definition, True).items():
            arithmetic = arithmetic + cost * executed(stage, axes) * warps
        accesses = _Accesses(self.warp)
        self._reads(stage, warps, accesses)
        steps = self._steps(stage) if accesses.reach_memory else 0.0
        self._writes(stage, warps, accesses)
        combines = self._combines(stage)
        control = LOOP * self._iterations(stage) * warps
        everything = frozenset(a.name for a in definition.all_axes)
        return StageCost(
            stage=stage,
            arithmetic=arithmetic,
            shared=accesses.shared,
            lines=accesses.lines,
            instructions=arithmetic + ACCESS * accesses.count + control + COMBINE * combines * self.threads / self.warp,
            steps=steps,
            combines=combines / np.maximum(self.blocks, 1.0),
            chains=copies(loops, everything) if definition.reduction else 8.0,
            waste=accesses.touched / np.maximum(accesses.needed, 1.0),
            conflicts=accesses.shared / np.maximum(accesses.free, 1.0),
            weight=accesses.lines,
        )

    def _reads(self, stage: StageLevels, warps: Value, accesses: _Accesses) -> None:
        for read in dict.fromkeys(stage.definition.reads()):
            producer = self.tree.program.producers.get(read.tensor)
            place = self.places.get(producer.name, "global") if producer is not None else "global"
            if place == "register":
                continue
            count = executed(stage, frozenset().union(*(variables(index) for index in read.indices))) * warps
            if place == "shared" and producer is not None:
                made = self.tree.by_stage[producer.name]
                shape = self.counted.plan.stages[producer.name].storage[0].shape
                width = shared_width(self.tree, stage.loops, read, made, shape)
                accesses.add_shared(count / width, shared_read(self.tree, stage.loops, read, made, shape))
            else:
                accesses.reach_memory = True
                width = global_width(self.tree, stage.loops, read)
                accesses.add_global(count / width, global_pattern(self.tree, stage.loops, read))

    def _writes(self, stage: StageLevels, warps: Value, accesses: _Accesses) -> None:
        definition, place = stage.definition, self.places[stage.name]
        if place == "register":
            return
        spatial = frozenset(a.name for a in definition.axes)
        count = executed(stage, spatial, store=True) * warps * sum(not a.each_step for a in stage.writes)
        for access in stage.writes:
            if access.each_step:
                count = count + executed(stage, access.axes) * warps
        if place == "shared":
            pattern = shared_write(self.tree, stage.loops, stage.plan.storage[0].shape)
            accesses.add_shared(count / own_width(stage.loops, definition), pattern)
            return
        tensor = definition.tensors[0]
        written = Read(tensor.name, tuple(a.var for a in definition.axes_of(0)), tensor.dtype)
        width = global_width(self.tree, stage.loops, written)
        accesses.add_global(count / width, global_pattern(self.tree, stage.loops, written))

    def _warps_per_thread(self, stage: StageLevels) -> Value:
        """Warp instructions for each instruction of a thread: one in so many where all lanes work, and more where some idle."""
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
            return np.ceil(self.threads / self.warp)  # every thread does the same
        return np.ceil(lanes / self.warp) / lanes

    def _combines(self, stage: StageLevels) -> Value:
        """Counts how often the threads of a team combine their parts of a reduction, over the whole launch."""
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


def executed(stage: StageLevels, axes: frozenset[str], store: bool = False) -> Value:
    """Says how often all threads together execute what depends on these axes: it stands where the last of its loops opens.

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


def copies(stage: StageLoops, axes: frozenset[str]) -> Value:
    """Says how many values of what depends on these axes a thread has at a time."""
    total: Value = 1.0
    for loop in stage.loops:
        if loop.kind in WRITTEN_OUT and loop.axis in axes:
            total = total * real(loop.extent)
    return total


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
