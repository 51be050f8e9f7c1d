"""Rules that derive sketches for any program. No rule reads an operator's name, its origin or a fixed number of stages.

split       a reduction that is several times longer than its result has points: parts of it are independent, and
            a second stage combines them
inline      what is cheap, and what only moves data
then, from the outputs back, each stage that is not taken yet becomes a root, and takes in what it can:
tile        a reduction with reuse, or the pointwise consumer of one (its epilogue): multi-level tiling, register tiles,
            packed operands                                                          (rules_tile.py)
stream      anything else: contiguous axis in vectors, rows in parallel; producers whose values belong to one row run
            inside of it                                                             (rules_stream.py)
"""

from __future__ import annotations

from math import prod

from ..tensor.program import Program, Stage
from .access import identity_read, is_anchor, is_expensive, moves_data_only, points_of, reads_of
from .inlining import can_inline
from .rules_stream import stream_group
from .rules_tile import can_tile, tile
from .schedule import Schedule, trace
from .sketch import UNSCHEDULED, Sketch

PARTS = (8, 64)  # for a few threads, and for many
LONG = 4  # how many times longer than the result a reduction is split
SHORTEST_PART = 1024  # terms: what is shorter is done before a second stage has begun


def derive(program: Program) -> tuple[Sketch, ...]:
    """The sketches of a program in canonical, normalised form; the unscheduled nest comes first."""
    return (UNSCHEDULED, *trace(automatic, program, "auto"))


def automatic(s: Schedule) -> None:
    """The template behind `derive`."""
    split = _split_depth(s)
    _inline(s)
    taken: set[str] = set()
    few = split or sum(is_anchor(stage) for stage in s.program.stages) > 1
    for stage in reversed(s.program.stages):
        if stage.name in taken or stage.fold is not None:
            continue
        anchor = _epilogue_of(s.program, stage, taken)
        if anchor is not None:
            taken |= {stage.name, anchor.name}
            tile(s, stage.name, anchor.name, few)
        elif can_tile(s.program, stage, stage):
            taken.add(stage.name)
            tile(s, stage.name, stage.name, few)
        else:
            taken |= stream_group(s, stage.name, taken)


def _split_depth(s: Schedule) -> bool:
    """Parts of the only long reduction with a small result: its other axes give threads too little to share.

    True if it has been split.
    """
    found = [stage for stage in s.program.stages if _is_long(stage)]
    if len(found) != 1:
        return False
    longest = max(found[0].reduction, key=lambda a: a.extent)
    options = [1, *(parts for parts in PARTS if longest.extent >= parts * SHORTEST_PART)]
    parts = s.variant(f"split {found[0].name}", options) if len(options) > 1 else 1
    if parts > 1:
        s.rewrite("split_k", stage=found[0].name, axis=longest.name, parts=parts)
    return parts > 1


def _is_long(stage: Stage) -> bool:
    if stage.combiner in (None, "fold"):
        return False
    points = prod(a.extent for a in stage.axes)
    return prod(a.extent for a in stage.reduction) >= LONG * points


def _inline(s: Schedule) -> None:
    """Inlines from the outputs back, so that chains collapse into their last consumer."""
    for name in [stage.name for stage in reversed(s.program.stages)]:
        stage = s.program.stage(name)
        if not can_inline(s.program, stage):
            continue
        perhaps = not _inlines_free(s.program, stage)
        if perhaps and not (_inlines_perhaps(s.program, stage) and s.variant(f"inline {name}", [False, True])):
            continue
        s.inline(name)


def _repeats(program: Program, stage: Stage) -> float:
    """How many times the body would be evaluated, for each time that it is now."""
    size = max(1, prod(a.extent for a in stage.axes))
    total = 0.0
    for consumer in program.consumers[stage.name]:
        total += points_of(consumer) * len(reads_of(consumer, stage.name)) / size
    return total


def _inlines_free(program: Program, stage: Stage) -> bool:
    if moves_data_only(stage):
        return True
    consumers = program.consumers[stage.name]
    if any(is_anchor(c) for c in consumers) and _repeats(program, stage) > 1:
        return False
    return _repeats(program, stage) <= 1 or not is_expensive(stage)


def _inlines_perhaps(program: Program, stage: Stage) -> bool:
    """Expensive, but read only a few times: computing it again may be cheaper than memory."""
    return _repeats(program, stage) <= 4


def _epilogue_of(program: Program, stage: Stage, taken: set[str]) -> Stage | None:
    """The reduction that can be tiled and whose values a pointwise stage finishes, point by point."""
    if stage.combiner is not None or len(stage.tensors) != 1:
        return None
    found = []
    for read in stage.reads():
        producer = program.producers.get(read.tensor)
        if producer is None or producer.name in taken or producer.name in program.outputs:
            continue
        if not can_tile(program, stage, producer):
            continue
        if identity_read(read, stage) and len(program.consumers[producer.name]) == 1:
            found.append(producer)
    return found[0] if len(found) == 1 else None
