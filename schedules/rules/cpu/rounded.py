"""The rule of rounded operands: what a product rounds to a narrow type at each use is rounded once.

    C[i, j] = sum[k](f32(bf16(x[i, k])) * f32(w[k, j]))
    ->  x_columns[i, k] = bf16(x[i, k]), C[i, j] = sum[k](f32(x_columns[i, k]) * f32(w[k, j]))

A partition writes such a cast into the product, as it writes all that is cheap. Instructions for narrow elements need it apart:
words are made of x_columns, which is written into them.
"""

from __future__ import annotations

from ....tensor.expr import Cast, Read, reads, variables
from ....tensor.program import Program, Stage
from ....tensor.stage_edits import factors
from ...access import is_anchor, uses_of
from ...schedule import Schedule
from ..rule import Rule, rewriting

LEAST_USES = 8  # of an element that is rounded


def _rewrite(s: Schedule) -> None:
    while s.allows("im2col") and (found := _next(s.program)) is not None:
        s.rewrite("im2col", stage=found[0], tensor=found[1], narrow=True)


def _next(program: Program) -> tuple[str, str] | None:
    """Returns the next stage to rewrite, and what it reads and rounds."""
    found = ((stage.name, _rounded(stage)) for stage in program.stages)
    return next(((name, tensor) for name, tensor in found if tensor is not None), None)


def _rounded(stage: Stage) -> str | None:
    """Returns what a sum with reuse reads, and rounds before it multiplies. An element that slides is rounded for each of its
    places: such a sum is left as it is."""
    if stage.combiner != "sum" or len(stage.bodies) != 1 or not is_anchor(stage):
        return None
    for part in factors(stage.bodies[0]):
        match part:
            case Cast(arg=Cast(arg=Read() as read, dtype=narrow)) if narrow.bytes < read.dtype.bytes:
                plain = all(len(variables(index)) <= 1 for index in read.indices)
                alone = sum(other.tensor == read.tensor for other in reads(stage.bodies[0])) == 1
                if plain and alone and uses_of(stage, read) >= LEAST_USES:
                    return read.tensor
    return None


ROUNDED = Rule("rounded", rewriting(_rewrite))
