"""Rows and columns of an image as the rows of one product: so tiles are filled where no tile divides a row of it.

    Y[p, q, o] = sum[r, s, c](i32(X[p + r, q + s, c]) * i32(W[r, s, c, o]))
    ->  X_columns[p q, r, s, c], Y[p q, o] = sum[r, s, c](i32(X_columns[p q, r, s, c]) * i32(W[r, s, c, o]))

7 x 7 points are 4 tiles of rows, and 7 where each row of the image begins one. Words are made of X_columns, which is written
into them: they are copied once for each point of the window, which is the price.

Where windows move one point at a time, all rows of a padded image may be those of one product instead (window_rows): words are
copied once, and what is computed between the rows of the image, as many points as its border is wide, is the price.
"""

from __future__ import annotations

from functools import lru_cache

from .....common.errors import ProgramError
from .....tensor.expr import Cast, reads, variables
from .....tensor.program import Program, Stage
from .....tensor.rewrites.pad_reads import can_pad_reads, guarded_reads
from .....tensor.rewrites.registry import apply_rewrite
from .....tensor.stage_edits import factors
from .....tensor.text.canonical import canonical
from ....access import depends, identity_read

RewriteCall = tuple[str, dict[str, object]]


@lru_cache(maxsize=64)  # each combination of variants asks again
def steps_to_merged(program: Program, name: str, tile: int) -> tuple[RewriteCall, ...]:
    """Returns the rewrites that merge the rows of a sum of products of narrow elements, and of what finishes it; none where
    that fills no more of a tile's rows, of which there are `tile`."""
    stage = program.stage(name)
    axes = _rows(stage)
    extents = [stage.axis(axis).extent for axis in axes]
    if len(axes) < 2 or -(-extents[0] * extents[1] // tile) >= extents[0] * -(-extents[1] // tile):
        return ()
    steps: list[RewriteCall] = []
    place = [axis.name for axis in stage.axes].index(axes[0])
    finished = _finished(program, name)
    order = [number for number, each in enumerate(program.stages) if each.name in finished]
    for number in order:  # stages keep their places, not their names
        here = program.stages[number]
        steps.append(("merge_axes", {"stage": here.name, "axes": [axis.name for axis in here.axes[place : place + 2]]}))
        try:
            program = canonical(apply_rewrite(program, *steps[-1]))
        except ProgramError:
            return ()
    merged = program.stages[order[0]]
    data = [read.tensor for read in merged.reads() if depends(read, merged.axes[place].name)]
    steps.append(("im2col", {"stage": merged.name, "tensor": data[0], "narrow": True}))
    try:
        apply_rewrite(program, *steps[-1])
    except ProgramError:
        return ()
    return tuple(steps)


@lru_cache(maxsize=64)
def steps_to_windows(program: Program, name: str) -> tuple[RewriteCall, ...]:
    """Returns the rewrites by which windows of a sum of products of narrow elements slide along all rows of an image; none
    where it has no windows that move one point at a time."""
    stage = program.stage(name)
    axes, place = _rows(stage), program.stages.index(stage)
    data = [read for read in stage.reads() if axes and depends(read, axes[0])]
    if not data or max(len(variables(index)) for index in data[0].indices) < 2:
        return ()
    numbers = [number for number, axis in enumerate(stage.axes) if axis.name in axes]
    steps: list[RewriteCall] = []
    if guarded_reads(stage, data[0].tensor):
        if not can_pad_reads(program, stage, data[0].tensor):
            return ()
        steps.append(("pad_reads", {"stage": name, "tensor": data[0].tensor}))
        program, place = canonical(apply_rewrite(program, *steps[0])), place + 1
        stage = program.stages[place]
    rows, columns = (stage.axes[number].name for number in numbers)
    tensor = next(read.tensor for read in stage.reads() if depends(read, rows))
    steps.append(("window_rows", {"stage": stage.name, "tensor": tensor, "rows": rows, "columns": columns}))
    try:
        apply_rewrite(program, *steps[-1])
    except ProgramError:
        return ()
    return tuple(steps)


def _rows(stage: Stage) -> list[str]:
    """Returns two neighbouring spatial axes along which the data of a product move, and the other operand does not."""
    parts = factors(stage.bodies[0]) if stage.combiner == "sum" and len(stage.bodies) == 1 else []
    if len(parts) != 2 or not all(isinstance(part, Cast) for part in parts):
        return []
    found = [{variable for read in reads(part) for variable in variables(read)} for part in parts]
    for first, second in zip(stage.axes, stage.axes[1:], strict=False):
        moved = [[axis.name in used for axis in (first, second)] for used in found]
        if sorted(moved) == [[False, False], [True, True]]:
            return [first.name, second.name]
    return []


def _finished(program: Program, name: str) -> set[str]:
    """Returns a stage, and the pointwise ones that have their points from its own, perhaps by others such between."""
    found = {name}
    for stage in program.stages:
        reads_ = (read for read in stage.reads() if read.tensor in found)
        if stage.combiner is None and len(stage.tensors) == 1 and any(identity_read(read, stage) for read in reads_):
            found.add(stage.name)
    return found
