"""The inlining rule: what is cheap, and what only moves data, is written where it is read."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from math import prod

from ...tensor.exceptional import exceptional_condition
from ...tensor.indices.affine import affine
from ...tensor.program import Program, Stage
from ..access import identity_read, is_anchor, is_expensive, moves_data_only, reads_of, visits
from ..inlining import Inlining
from ..prepared import constant_tensors
from ..schedule import Schedule
from .rule import Decided, Rule

NODES, DEPTH = 2048, 256  # of an expression, after what it reads was written into it
LOOKED_UP = 1 << 20  # bytes that a lookup among constants may keep
REPEATED = 256  # nodes of one in which something is computed again: what is cheap once adds up from stage to stage


def _prepare(s: Schedule, decided: Decided) -> Decided:
    """Inlines from the outputs back, so that chains collapse into their last consumer. What rules keep is left alone."""
    now, found, constants = Inlining(s.program), [], constant_tensors(s.program)
    for name in [stage.name for stage in reversed(s.program.stages)]:
        stage = now.stage(name)
        if name in decided.kept or not now.can_inline(stage):
            continue
        consumers = now.consumers(name)
        if _chooses_elsewhere(s.program, stage, consumers):
            continue
        if name in constants and (
            _is_packed_ahead(s.program, stage, consumers) or _is_looked_up(stage, consumers, constants)
        ):
            continue
        if grows(now, stage, consumers):
            continue
        perhaps = not inlines_free(stage, consumers)
        if perhaps and not (_inlines_perhaps(stage, consumers) and s.variant(f"inline {name}", [False, True])):
            continue
        now.inline(name)
        found.append(name)
    s.inline(*found)
    return decided


def grows(now: Inlining, stage: Stage, consumers: Sequence[Stage]) -> bool:
    """Says whether some reader would become too large to be looked at again and again: what is read twice doubles at each
    stage."""
    most = NODES if moves_data_only(stage) or _repeats(stage, consumers) <= 1 else REPEATED
    nodes, depth = map(max, zip(*now.sizes(stage.name), strict=True))
    for consumer in consumers:
        for (own, levels), counts in zip(now.sizes(consumer.name), now.counts(consumer.name), strict=True):
            if own + counts[stage.name] * nodes > most or levels + depth > DEPTH:
                return True
    return False


def _chooses_elsewhere(program: Program, stage: Stage, consumers: Sequence[Stage]) -> bool:
    """Tells whether a stage takes values from a stand-in sum, which runs beside it (tensor/exceptional.py), and would lose it.

    That is so unless its readers are one pointwise stage in the same order, which the sum can run beside as well.
    """
    producers = [program.producers.get(read.tensor) for read in stage.reads()]
    if not any(producer is not None and exceptional_condition(producer) is not None for producer in producers):
        return False
    reader, *others = consumers
    return (
        bool(others)
        or reader.combiner is not None
        or not all(identity_read(read, reader) for read in reads_of(reader, stage.name))
    )


def _is_packed_ahead(program: Program, stage: Stage, consumers: Sequence[Stage]) -> bool:
    """Tells whether a stage of constants chooses among them, or takes a part of one: sums that read it can pack what was chosen
    when the kernel was made, but no choice at each use, and of a part not all that it was taken from."""
    if not moves_data_only(stage):
        return False
    if len(set(stage.reads())) > 1:
        return any(consumer.combiner is not None for consumer in consumers)
    size = prod(stage.tensors[0].shape)
    takes_part = any(size < prod(program.tensors[read.tensor].shape) for read in stage.reads())
    return takes_part and any(is_anchor(consumer) for consumer in consumers)


def _is_looked_up(stage: Stage, consumers: Sequence[Stage], constants: AbstractSet[str]) -> bool:
    """Tells whether a stage of constants looks them up, at places that constants or quotients say: once, when the kernel is
    made, not for each vector of what reads them (scores of a shifted window of swin_t with bias and mask: 107 to 71 us, two
    threads)."""
    tensor = stage.tensors[0]
    if stage.combiner is not None or tensor.dtype.bytes * prod(tensor.shape) > LOOKED_UP:
        return False
    if any(consumer.combiner is not None or consumer.name in constants for consumer in consumers):
        return False
    return any(not affine(index).is_linear for read in stage.reads() for index in read.indices)


def _repeats(stage: Stage, consumers: Sequence[Stage]) -> float:
    """Counts how often the body would be evaluated, for each time that it is now. Sums that are hardly ever run count 0."""
    size = max(1, prod(a.extent for a in stage.axes))
    total = 0.0
    for consumer in consumers:
        if exceptional_condition(consumer) is not None:
            continue
        total += sum(visits(read, consumer, size) for read in reads_of(consumer, stage.name)) / size
    return total


def inlines_free(stage: Stage, consumers: Sequence[Stage]) -> bool:
    """Says whether nothing is lost: it only moves data, it is not computed more often than now, or it is cheap."""
    if moves_data_only(stage):
        return True
    repeats = _repeats(stage, consumers)
    if repeats > 1 and any(is_anchor(c) for c in consumers):
        return False
    return repeats <= 1 or not is_expensive(stage)


def _inlines_perhaps(stage: Stage, consumers: Sequence[Stage]) -> bool:
    """Tells whether an expensive stage is read only a few times: computing it again may be cheaper than memory."""
    return _repeats(stage, consumers) <= 4


INLINE = Rule("inline", _prepare)
