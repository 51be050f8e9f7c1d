"""In which numbers a fast convolution computes: floats of one type, or integers whose ranges are known.

    4 y = A^T [ (2 G g 2 G^T) * (B^T d B) ] A            F(2x2, 3x3): 2 G, B and A hold whole numbers

Of bytes, transformed data are at most 4 times, transformed filters 9 times as large as these, and fit in halves. Sums of their
products may go round modulo 2^32 on the way, and those of A too: 4 y is right modulo 2^32 whatever happens before, so it is
right where it fits. That is all that the quotient needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import lcm, prod

from ..dtype import DType, i16, i32
from ..expr import Expr
from ..indices.operator_ranges import range_of
from ..program import Program, Stage
from ..stage_edits import refuse
from .toom_cook import Filtering, Matrix
from .word_ranges import range_of_parts


@dataclass(frozen=True, slots=True)
class Numbers:
    """The types of transformed data and filters, and of sums of their products; and what the filter's matrix is multiplied by
    in each direction."""

    parts: DType
    sums: DType
    scale: int = 1


def floats(dtype: DType) -> Numbers:
    """All in one type, fractions and all."""
    return Numbers(dtype, dtype)


def integers(program: Program, stage: Stage, data: Expr, filters: Expr, matrices: Filtering) -> Numbers:
    """Halves, and sums in i32.

    `data` and `filters` are the factors of a term of the stage. Errors: ProgramError where they may be too large.
    """
    fractions = [value for row in matrices.filter for value in row]
    scale = lcm(*(value.denominator for value in fractions))
    most = [max(map(abs, range_of_parts(program, (part,)))) for part in (data, filters)]
    grown = [_growth(matrices.data), _growth(matrices.filter) * scale]
    found = int(max(size * by**2 for size, by in zip(most, grown, strict=True)))
    if found > range_of(i16)[1]:
        raise refuse(stage, f"transformed data or filters are up to {found}", expected="at most 16 bits")
    result = scale**2 * prod(most) * prod(axis.extent for axis in stage.reduction)
    if result > range_of(i32)[1]:
        raise refuse(stage, f"{scale**2} times the sums are up to {result}", expected="at most 32 bits")
    return Numbers(i16, i32, scale)


def _growth(matrix: Matrix) -> Fraction:
    """How many times as large a transform in one direction makes numbers at most."""
    return max(sum(map(abs, row), Fraction(0)) for row in matrix)
