"""The transposing rule on GPUs: what is contiguous along another axis goes through a tile in shared memory.

y[j, i] = x[i, j]      lanes of y lie along i, those of x along j

A block copies a tile of x as it lies, whole lines at a time, and reads it in the other direction: each thread a vector along j
of its own i, which it stores to as many rows of y. The tile is swizzled or padded, so that neighbouring threads meet
different banks.
"""

from __future__ import annotations

from ...access import plain_dimension
from ...schedule import Schedule, StageHandle
from ..cpu.transpose import Crossing
from .binding import bind_blocks, bind_threads, lanes_factor, require_threads

ROWS = 8  # threads along the axis across memory, by default


def transpose(s: Schedule, stage: StageHandle, found: Crossing) -> None:
    """Schedules a stage as a transpose by tiles of both axes, one tile for each block."""
    name, dtype = stage.name, stage.definition.tensors[0].dtype
    loops = {a.name: loop for a, loop in zip(stage.definition.axes, stage.loops, strict=True)}
    along, across = loops[found.vector], loops[found.across]
    vector, warp = lanes_factor(s, f"{name}.vector", dtype), s.gpu.warp
    columns = s.factor(f"{name}.columns", along.extent, at_most=4 * warp, default=warp)
    rows = s.factor(f"{name}.rows", across.extent, at_most=warp, default=ROWS)
    require_threads(s, rows, columns)
    down = s.split(across, rows, vector)
    right = s.split(along, columns)
    others = [loops[a.name] for a in stage.definition.axes if a.name not in (found.vector, found.across)]
    s.reorder(*others, down[0], right[0], down[1], right[1], down[2])
    bind_blocks(s, *others, down[0], right[0])
    bind_threads(s, down[1], right[1])
    s.vectorize(down[2])
    padded = s.variant(f"{name} tile", ["swizzled", "padded"]) == "padded"
    for tensor in found.tensors:
        read = next(r for r in stage.definition.reads() if r.tensor == tensor)
        dimension = plain_dimension(read, found.across)
        assert dimension is not None
        copy = s.copy(tensor, name, "shared")
        if padded:
            s.pad_layout(copy.name, s.choice(f"{copy.name}.pad", [1, vector_pad(dtype.bytes)], default=1))
        else:
            s.swizzle(copy.name, s.choice(f"{copy.name}.swizzle", [0, 1, 2, 3], default=3))
        copy = s.compute_at(copy.name, right[0])
        rest = [loop for n, loop in enumerate(copy.loops) if n != dimension]
        if padded:
            s.reorder(*rest, copy.loops[dimension])
            bind_threads(s, *rest, copy.loops[dimension])
        else:
            pieces = s.split(copy.loops[dimension], vector)
            s.reorder(*rest, *pieces)
            bind_threads(s, *rest, pieces[0])
            s.vectorize(pieces[1])


def vector_pad(element: int) -> int:
    """Returns how many elements keep rows at multiples of 16 bytes."""
    return max(1, 16 // element)
