"""How many registers a thread of a launch takes, as ptxas allots them.

ptxas gives a kernel what its values need, what is on its way from memory, and more where it can begin loads earlier; never
more than the threads of a block leave each other. The forms below were fitted to what ptxas 13.0 made of a thousand random and
good candidates of thirty programs for sm_80 and sm_90a; tests/whole/gpu/test_registers.py holds them to it.

    shared tiles    accumulators, operands of the terms that are written out, copies of a step and their addresses
    streams         the elements that one trip of the innermost loop loads, or a row that is kept
"""

from __future__ import annotations

import numpy as np

from ...schedules.hints import Pipeline
from ...schedules.loops import WRITTEN_OUT, LoopKind, LoopTree
from ...targets.backend import Multiprocessor
from ...tensor.expr import Read, variables
from ...tensor.program import Stage
from ..footprint import Value, real
from ..levels import StageLevels
from ..operations import slots
from .patterns import own_width

FEWEST = 16.0  # registers of a thread
# shared tiles
TILE, ACCUMULATOR, OPERAND = 8.2, 1.2, 0.73
OPERANDS_AT_MOST = 64.0  # further ones are loaded when there is room for them again
COPY, FIRST_COPIES = 2.2, 5.2  # of an access of a copy, of each of the first four beside that
HELD = 1.65  # of an element that is held
RAGGED, RAGGED_COPY = 5.2, 1.05  # where some loop has fewer trips at its end: more, and more of each access of a copy
COMPUTED, WINDOW = 20.0, 25.0  # of copies whose place is computed, of a copy of a window (along four axes)
WINDOW_AXES = 4
COPIES_AT_MOST, FIRST = 16.0, 4.0
# streams
STREAM, OPERATION, OPERATIONS_AT_MOST = 13.7, 0.36, 60.0
INTERLEAVED = 8.0  # operations of an element from which on its loads do not all come first
UNROLLED = 60.0  # elements up to which ptxas unrolls a loop in which nothing is written out
DIVIDED, FEW = (2.0, 1.75), 16.0  # of an element in a loop over a row that threads share: its mask, its address ahead


def registers_at_most(threads: Value, gpu: Multiprocessor) -> Value:
    """Returns what a thread can have in a block of so many: each scheduler has as many of the warps, give or take one."""
    grain = gpu.register_grain / gpu.warp
    warps = np.maximum(np.ceil(np.ceil(threads / gpu.warp) / gpu.schedulers) * gpu.schedulers, 1.0)
    share: Value = np.floor(gpu.registers / gpu.warp / warps / grain) * grain
    return np.minimum(share, float(gpu.thread_registers))


def registers_needed(tree: LoopTree, members: list[StageLevels], places: dict[str, str], threads: Value) -> Value:
    """Returns what a thread would have if it could have any number; above `registers_at_most` some of it is spilled."""
    copied = [s for s in members if s.loops.copies is not None and places[s.name] == "shared"]
    others = [s for s in members if s not in copied]
    need = _tile(tree, copied, others, places, threads) if copied else _stream(tree, others, places)
    return np.maximum(need, FEWEST)


def _tile(
    tree: LoopTree, copied: list[StageLevels], others: list[StageLevels], places: dict[str, str], threads: Value
) -> Value:
    accumulators: Value = 0.0
    operands: Value = 0.0
    held: Value = 0.0
    accesses: Value = 0.0
    elements: Value = 0.0
    for stage in others:
        if stage.definition.reduction:
            accumulators = np.maximum(accumulators, _kept(stage))
        operands = np.maximum(operands, _loaded(tree, stage, places))
        for pipeline in stage.loops.hints.of(Pipeline):
            held = np.maximum(held, real(pipeline.in_registers))
    for stage in copied:
        each = stage.trips[-1] / np.maximum(stage.trips[0], 1.0) / threads
        elements = elements + each * _words(stage)
        accesses = accesses + np.maximum(np.ceil(each / own_width(stage.loops, stage.definition)), 1.0)
    computed = any(sum(slots(stage.definition, True).values()) for stage in copied)
    windows = sum(len(stage.definition.axes) >= WINDOW_AXES for stage in copied)
    ragged = np.zeros(1, dtype=np.bool_)
    for stage in (*copied, *others):
        ragged = ragged | _is_ragged(stage)
    return (
        TILE
        + ACCUMULATOR * accumulators
        + OPERAND * np.minimum(operands, OPERANDS_AT_MOST)
        + COPY * np.minimum(accesses, COPIES_AT_MOST)
        + FIRST_COPIES * np.minimum(accesses, FIRST)
        + HELD * held * elements
        + ragged * (RAGGED + RAGGED_COPY * np.minimum(accesses, COPIES_AT_MOST))
        + COMPUTED * computed
        + WINDOW * windows
    )


def _stream(tree: LoopTree, members: list[StageLevels], places: dict[str, str]) -> Value:
    kept: Value = 0.0
    most: Value = 0.0
    operations = 0.0
    for stage in members:
        definition = stage.definition
        flying = _flying(tree, stage, places)
        own = _kept(stage)
        if definition.reduction:
            flying = flying + np.where(np.asarray(own) > 1.0, own, 0.0)
        elif places[stage.name] == "register":
            kept = kept + own
        most = np.maximum(most, flying)
        operations += sum(slots(definition, True).values())
    return STREAM + np.maximum(most, kept) + OPERATION * min(operations, OPERATIONS_AT_MOST)


def _flying(tree: LoopTree, stage: StageLevels, places: dict[str, str]) -> Value:
    """Registers for what a stage loads at a time, with what it takes to load it."""
    loaded = _loaded(tree, stage, places)
    definition, loops = stage.definition, stage.loops.loops
    if definition.fold is not None:
        return loaded + 4.0
    trips: Value = 1.0  # of the innermost loop that runs in the code
    written: Value = 1.0
    for level, loop in enumerate(loops):
        if loop.kind is LoopKind.SERIAL:
            ratio = stage.trips[level + 1] / np.maximum(stage.trips[level], 1.0)
            trips = np.where(ratio > 1.001, ratio, trips)
        elif loop.kind is LoopKind.UNROLL:
            written = np.maximum(written, real(loop.extent))
    reduced = {a.name for a in definition.reduction}
    divided = any(x.kind in (LoopKind.THREAD, LoopKind.WARP) and x.axis in reduced for x in loops)
    first, more = DIVIDED if divided else (1.0, 1.0)
    in_loop = first * np.minimum(loaded, FEW) + more * np.maximum(loaded - FEW, 0.0)
    in_loop = np.where(np.asarray(written) > 1.0, in_loop, np.minimum(trips * loaded, UNROLLED))
    if not definition.reduction and sum(slots(definition, True).values()) > INTERLEAVED:
        loaded = loaded * 0.5
    return np.where(np.asarray(trips) > 1.0, in_loop, loaded)


def _loaded(tree: LoopTree, stage: StageLevels, places: dict[str, str]) -> Value:
    """Registers for the operands of all that is written out."""
    total: Value = 0.0
    for read in stage.definition.reads():
        producer = tree.program.producers.get(read.tensor)
        if producer is None or places.get(producer.name, "global") != "register":
            total = total + _copies(stage, _axes(read)) * max(1.0, read.dtype.bytes / 4.0)
    return total


def _kept(stage: StageLevels) -> Value:
    """Registers for the values that a thread has of a stage."""
    return _copies(stage, frozenset(a.name for a in stage.definition.axes)) * _words(stage)


def _words(stage: StageLevels) -> float:
    return max(1.0, _widest(stage.definition) / 4.0)


def _widest(definition: Stage) -> int:
    return max(t.dtype.bytes for t in definition.tensors)


def _axes(read: Read) -> frozenset[str]:
    return frozenset().union(*(variables(index) for index in read.indices))


def _copies(stage: StageLevels, axes: frozenset[str]) -> Value:
    total: Value = 1.0
    for loop in stage.loops.loops:
        if loop.kind in WRITTEN_OUT and loop.axis in axes:
            total = total * real(loop.extent)
    return total


def _is_ragged(stage: StageLevels) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Says whether some loop has fewer trips at its end."""
    found = np.zeros(1, dtype=np.bool_)
    for level, loop in enumerate(stage.loops.loops):
        ratio = stage.trips[level + 1] / np.maximum(stage.trips[level], 1.0)
        found = found | (np.abs(np.asarray(ratio - real(loop.extent))) > 1e-6)
    return found
