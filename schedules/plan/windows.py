"""Reads at places that data say, where these lie within two vectors: as of bins, cells of a grid, small tables.

The stretch is loaded as it lies, and instructions that permute lanes pick from it, where a processor has them. Elsewhere, and
where the stretch is longer, each lane is read by itself.
"""

from __future__ import annotations

from ...targets.target import Target
from ...tensor.dtype import DType
from ...tensor.expr import Const, Expr, Op, Read, Var, reads, variables
from ...tensor.indices.affine import affine
from ...tensor.indices.intervals import interval
from ...tensor.program import Program

VECTORS = 2  # that a stretch may be long


def permutes(target: Target, dtype: DType, lanes: int) -> bool:
    """Says whether one instruction gives each lane of a vector the element that an integer in it says."""
    feature = {256: "avx2", 512: "avx512f"}.get(dtype.bits * lanes)
    return feature in target.features and dtype.bits in ((32,) if feature == "avx2" else (32, 64))


def permutations(target: Target, program: Program, read: Read, axis: str, dtype: DType) -> int:
    """Instructions that pick a vector along an axis from the stretch that it may lie in; 0 where lanes are read one by one.
    `dtype`: that of which the vector has as many lanes as fit."""
    lanes = target.lanes(dtype)
    length = _stretch(program, read, axis, lanes) if permutes(target, read.dtype, lanes) else None
    if length is None or not 2 <= length <= VECTORS * lanes:
        return 0
    return 1 if length <= lanes else 2 * VECTORS - 1  # and a choice between two


def _stretch(program: Program, read: Read, axis: str, lanes: int) -> int | None:
    """Elements from the first to the last that lanes along an axis can read where data say which; None if that is not known.
    Vectors are taken to begin at multiples of their lanes."""
    length, step, data = 1, 1, False
    for index, extent in zip(reversed(read.indices), reversed(program.tensors[read.tensor].shape), strict=True):
        for atom, times in affine(index).terms:
            if axis in variables(atom):
                reach = _reach(atom, lanes)
                if reach is None:
                    return None
                length += reach * abs(times) * step
                data = data or bool(reads(atom))
        step *= extent
    return length if data else None


def _reach(atom: Expr, lanes: int) -> int | None:
    """The distance that lanes can be apart in a part of an index."""
    match atom:
        case Var():
            return lanes - 1
        case Op(name="floordiv", args=(Var(), Const(value=divisor))):
            return 0 if divisor % lanes == 0 else int((lanes + divisor - 2) // divisor)
    low, high = interval(atom, {})
    return high - low if high - low < VECTORS * lanes else None
