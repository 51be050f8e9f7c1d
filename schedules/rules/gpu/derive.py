"""Rules that derive GPU sketches for any program; as in auto.py, no rule reads an operator's name or its origin.

columns     a sliding window is written as a matrix of columns, so that its reduction becomes a matrix product; what only moves
            data for a product is written into the copies that its blocks make (implicit GEMM)
split       a reduction with too few results to fill the machine: parts of it in blocks of their own, a second launch adds
inline      as on any target                                                          (rules/inline.py)
then, from the outputs back, each stage that is not taken yet becomes a launch, and takes in what it can:
tile        a reduction with reuse along two axes, with its epilogue                  (tile.py)
transpose   a pointwise stage that reads across its lanes                             (transpose.py)
stream      anything else                                                             (stream.py)
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

from ....common.errors import ProgramError
from ....tensor.expr import Read, variables
from ....tensor.indices.affine import affine
from ....tensor.program import Program, Stage
from ....tensor.rewrites.registry import apply_rewrite
from ....tensor.text.canonical import canonical
from ...access import is_anchor, moves_data_only
from ...inlining import can_inline
from ...schedule import Schedule
from ..cpu.tile import epilogue_of
from ..inline import inline_cheap
from .stream import fold, lane_axis, stream_group
from .tile import can_tile, copied, tile

# Points of a result that give every multiprocessor enough threads: where each thread makes a few of them, where a warp or a
# block makes one, where a block makes a tile.
BUSY, ROWS_BUSY, TILES_BUSY = 1 << 18, 1 << 10, 1 << 20
PARTS = (8, 64, 512)
TILE_PARTS = (4, 16)
SHORTEST_PART = 64  # terms of a part
TILE_SHORTEST_PART = 256


def gpu_automatic(s: Schedule) -> None:
    """The template behind `derive` on GPUs."""
    _columns(s)
    _split(s)
    moved = _moved_by_copies(s.program)
    inline_cheap(s, moved)
    taken = set(moved)
    few = sum(is_anchor(stage) for stage in s.program.stages) > 1
    for stage in reversed(s.program.stages):
        if stage.name in taken:
            continue
        if stage.fold is not None:
            taken.add(stage.name)
            fold(s, stage.name)
            continue
        anchor = epilogue_of(s.program, stage, taken, can_tile)
        if anchor is not None:
            taken |= {stage.name, anchor.name}
            tile(s, stage.name, anchor.name, few)
        elif can_tile(s.program, stage, stage):
            taken.add(stage.name)
            tile(s, stage.name, stage.name, few)
        else:
            taken |= stream_group(s, stage.name, taken)


# ---- columns -----------------------------------------------------------------------------------------------------------


def _columns(s: Schedule) -> None:
    """The only sliding product as a matrix product: its window axes merged, its spatial axes merged where they lie together."""
    steps = _steps_to_columns(s.program)
    if steps and s.variant("columns", [True, False]):
        for name, arguments in steps:
            s.rewrite(name, **arguments)


@lru_cache(maxsize=64)  # each combination of variants asks again
def _steps_to_columns(program: Program) -> list[tuple[str, dict[str, object]]]:
    """The rewrites, with their arguments; none where there is no such product, or where a rewrite does not apply."""
    steps: list[tuple[str, dict[str, object]]] = []
    found = [(stage, read) for stage in program.stages for read in _sliding(stage)]
    spatial = _slid_axes(*found[0]) if len(found) == 1 else []
    while len(found) == 1:
        stage, read = found[0]
        if len(spatial) > 1:
            steps.append(("merge_axes", {"stage": stage.name, "axes": spatial}))
            spatial = []
        elif len(stage.reduction) > 1:
            steps.append(("merge_axes", {"stage": stage.name, "axes": [a.name for a in stage.reduction]}))
        else:
            steps.append(("im2col", {"stage": stage.name, "tensor": read.tensor}))
        try:
            program = canonical(apply_rewrite(program, *steps[-1]))
        except ProgramError:
            return []
        if steps[-1][0] == "im2col":
            return steps
        found = [(stage, read) for stage in program.stages for read in _sliding(stage)]  # canonical names have changed
    return []


def _sliding(stage: Stage) -> list[Read]:
    """The reads of a sum with reuse that walk over a tensor by a spatial and a reduction axis in one index."""
    if not is_anchor(stage) or stage.combiner != "sum" or len(stage.tensors) > 1:
        return []
    spatial, reduction = {a.name for a in stage.axes}, {a.name for a in stage.reduction}
    found = []
    for read in stage.reads():
        used = [variables(index) for index in read.indices]
        if any(names & spatial and names & reduction for names in used) and _is_partial(stage, read):
            found.append(read)
    return found


def _is_partial(stage: Stage, read: Read) -> bool:
    """im2col makes a matrix only of what does not use every axis."""
    used = frozenset().union(*(variables(index) for index in read.indices))
    return any(a.name not in used for a in stage.all_axes)


def _slid_axes(stage: Stage, read: Read) -> list[str]:
    """The longest run of neighbouring spatial axes, up to the last one, that move the read and slide over it."""
    reduction = {a.name for a in stage.reduction}
    slides = {
        name
        for index in read.indices
        if variables(index) & reduction and affine(index).terms
        for name in variables(index)
    }
    run: list[str] = []
    for axis in reversed(stage.axes):
        if axis.name not in slides:
            break
        run.insert(0, axis.name)
    return run


def _moves_for(program: Program, stage: Stage) -> Stage | None:
    """The product whose copies can make a stage that only moves data, point by point, as they are filled."""
    consumers = program.consumers[stage.name]
    if len(consumers) != 1 or not can_inline(program, stage) or not moves_data_only(stage):
        return None
    product = consumers[0]
    return product if stage.name in copied(program, product) else None


def _moved_by_copies(program: Program) -> frozenset[str]:
    return frozenset(stage.name for stage in program.stages if _moves_for(program, stage) is not None)


# ---- splitting ---------------------------------------------------------------------------------------------------------


def _split(s: Schedule) -> None:
    """Parts of the only long reduction whose result has too few points to keep the machine busy."""
    found = [stage for stage in s.program.stages if _parts(s.program, stage)]
    if len(found) != 1:
        return
    stage = found[0]
    longest = max(stage.reduction, key=lambda a: a.extent)
    parts = s.variant(f"split {stage.name}", [1, *_parts(s.program, stage)])
    if parts > 1:
        s.rewrite("split_k", stage=stage.name, axis=longest.name, parts=parts)


def _parts(program: Program, stage: Stage) -> list[int]:
    """In how many parts a reduction is worth splitting: all parts together should not do more than fill the machine."""
    if stage.combiner in (None, "fold"):
        return []
    points = prod(a.extent for a in stage.axes)
    longest = max((a.extent for a in stage.reduction), default=1)
    options: tuple[int, ...]
    busy, options, shortest = BUSY, PARTS, SHORTEST_PART
    if can_tile(program, stage, stage):
        busy, options, shortest = TILES_BUSY, TILE_PARTS, TILE_SHORTEST_PART
    elif lane_axis(program, stage) in {a.name for a in stage.reduction}:
        busy = ROWS_BUSY
    return [p for p in options if points * p <= 4 * busy and points <= busy and longest >= p * shortest]
