"""What a stage reads, and what is read for it: by stages that run inside of its nest, right before it."""

from __future__ import annotations

from dataclasses import replace

from ..tensor.expr import Read, substitute
from .loops import LoopTree


def reads_inside(tree: LoopTree, stage: str, tensor: str) -> tuple[Read, ...]:
    """Returns the reads of a tensor by a stage, or else those by what runs inside of its loops and makes what it reads: at the
    points that it reads, on its own axes."""
    reads = tree.definition(stage).reads()
    own = tuple(read for read in reads if read.tensor == tensor)
    return own or tuple(dict.fromkeys(found for read in reads for found in _reads_for(tree, stage, read, tensor)))


def _reads_for(tree: LoopTree, stage: str, read: Read, tensor: str) -> tuple[Read, ...]:
    """Returns the reads of a tensor by what makes one point of another, where that runs inside of a stage."""
    producer = tree.program.producers.get(read.tensor)
    at = None if producer is None else tree.by_stage[producer.name].at
    if producer is None or at is None or at[0] != stage or producer.reduction:
        return ()
    points = {axis.name: index for axis, index in zip(producer.axes, read.indices, strict=True)}
    found = (one for one in producer.reads() if one.tensor == tensor)
    return tuple(replace(one, indices=tuple(substitute(index, points) for index in one.indices)) for one in found)
