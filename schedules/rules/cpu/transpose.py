"""The rule for stages that read across their vectors: what is contiguous along another axis goes through registers.

    y[j, i] = x[i, j]      vectors of y lie along i, those of x along j

A square of x, one vector high and wide, is copied to registers as it lies and read there in the other direction, so that all
of memory is touched in vectors. Squares are gathered in blocks that the caches hold, because the lines of one side of a
square lie far apart.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ....tensor.dtype import DType, f32
from ....tensor.expr import Read, Var
from ....tensor.indices.forms import affine
from ....tensor.program import Program, Stage
from ...access import element_stride, output_stride, plain_dimension
from ...extents import Extent, ceildiv
from ...schedule import LoopHandle, Schedule, StageHandle

BLOCK_AT_MOST = 256  # squares along one side of a block
NARROWEST = 4  # points along an axis that are worth a vector


@dataclass(frozen=True, slots=True)
class Crossing:
    """A stage that reads across its vectors. `vector`: the axis along which it is stored; `across`: that of `tensors`."""

    vector: str
    across: str
    tensors: tuple[str, ...]


def crossing(program: Program, stage: Stage) -> Crossing | None:
    """Returns what a pointwise stage reads across its vectors, or None if there is no such thing."""
    wide = [a.name for a in stage.axes if a.extent >= NARROWEST]
    vectors = [name for name in wide if output_stride(stage, name) == 1]
    if stage.combiner is not None or len(stage.tensors) > 1 or not vectors:
        return None
    across: dict[str, str] = {}
    times = Counter(read.tensor for read in stage.reads())
    for read in stage.reads():
        if times[read.tensor] > 1 or plain_dimension(read, vectors[0]) is None or not _is_placed(read):
            continue
        for name in wide:
            plain = name != vectors[0] and plain_dimension(read, name) is not None
            if plain and element_stride(program, read, name) == 1:
                across[read.tensor] = name
    if not across:
        return None
    most = Counter(across.values()).most_common(1)[0][0]
    return Crossing(vectors[0], most, tuple(tensor for tensor, name in across.items() if name == most))


def _is_placed(read: Read) -> bool:
    """Whether all indices are sums of axes. Where one is gathered, a quotient or a remainder, a square would hold all rows that
    it may read, and registers cannot be looked up by a number that is not known when the code is written."""
    return all(isinstance(term, Var) for index in read.indices for term, _ in affine(index).terms)


def transpose(s: Schedule, stage: StageHandle, found: Crossing, few: bool = False) -> list[LoopHandle]:
    """Goes through squares in blocks; returns the loops that are worth running in parallel, outermost first.

    `few`: squares row by row, with nothing to tune, for what is little beside other work: all candidates share its code.
    """
    loops = {a.name: loop for a, loop in zip(stage.definition.axes, stage.loops, strict=True)}
    side = square_side(s, stage.definition.tensors[0].dtype)
    down, along = (
        s.split(loops[axis], *([] if few else [_block(s, stage, part, loops[axis], side)]), side)
        for axis, part in ((found.across, "rows"), (found.vector, "vectors"))
    )
    columns_outside = few or s.variant(f"{stage.name} columns outside", [True, False])
    outer = [along[0], down[0]] if columns_outside else [down[0], along[0]]
    others = [loops[a.name] for a in stage.definition.axes if a.name not in (found.vector, found.across)]
    around = [*others, *outer, *down[1:-1], *along[1:-1]]
    s.reorder(*around, down[-1], along[-1])
    s.unroll(down[-1])
    s.vectorize(along[-1])
    for tensor in found.tensors:
        read = next(r for r in stage.definition.reads() if r.tensor == tensor)
        dimension = plain_dimension(read, found.across)
        assert dimension is not None
        square(s, tensor, stage.name, dimension, around[-1])
    return [*others, *outer]


def _block(s: Schedule, stage: StageHandle, part: str, loop: LoopHandle, side: Extent) -> Extent:
    """Returns the squares along one side of a block."""
    squares = ceildiv(loop.extent, side)
    return s.factor(f"{stage.name}.{part}", squares, at_most=BLOCK_AT_MOST, default=8)


def square(s: Schedule, tensor: str, reader: str, contiguous: int, at: LoopHandle) -> None:
    """Copies a square of a tensor to registers, in vectors along its contiguous dimension."""
    copy = s.compute_at(s.copy(tensor, reader, "register").name, at)
    rest = [loop for n, loop in enumerate(copy.loops) if n != contiguous]
    s.reorder(*rest, copy.loops[contiguous])
    s.unroll(*rest)
    s.vectorize(copy.loops[contiguous])


def contiguous_dimension(program: Program, tensor: str) -> int | None:
    """Returns the dimension along which the elements of a tensor lie side by side; None if it is too short for vectors."""
    shape = program.tensors[tensor].shape
    return len(shape) - 1 if shape and shape[-1] >= NARROWEST else None


def square_side(s: Schedule, dtype: DType) -> Extent:
    """Returns the lanes of a vector, at most those of floats: narrower types would need more registers than there are."""
    return s.lanes(dtype) if dtype.bytes > f32.bytes else s.lanes(f32)
