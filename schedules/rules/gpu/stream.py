"""The streaming rules on GPUs: everything without reuse to tile for. Neighbouring threads touch neighbouring memory.

points      a thread makes some vectors of the result
rows        a reduction along memory: the threads of a warp or of a block share a row and combine what they have
columns     a reduction across memory: each thread goes down its own columns
row groups  producers whose values belong to one row of the root run inside of its row, on the same threads
"""

from __future__ import annotations

from ....tensor.dtype import DType
from ....tensor.expr import Var
from ....tensor.program import Program, Stage
from ...access import contiguous_axis, output_stride
from ...extents import Extent, ceildiv
from ...schedule import LoopHandle, Schedule, StageHandle
from ..cpu.transpose import crossing
from ..row_groups import inside_rows, row_group
from ..rule import Decided, Rule
from .binding import bind_blocks, bind_threads, lanes_factor, require_threads, threads_factor
from .transpose import transpose

ITEMS_AT_MOST = 8  # vectors of a thread
ROWS_AT_MOST = 16  # rows that the warps of a block share
SHORT = 64  # terms of a sum that one thread adds alone
BLOCK = 256  # threads of a block to begin with
KEPT = 64  # elements of a row that a thread can keep in registers


def _matches(program: Program, stage: Stage, decided: Decided) -> str | None:
    return stage.name


def _apply(s: Schedule, root: str, anchor: str, decided: Decided) -> set[str]:
    """Schedules a root and what runs inside of its rows."""
    group, shared = row_group(s.program, s.program.stage(root), decided.taken)
    stage = s.stage(root)
    across = None if group else crossing(s.program, stage.definition)
    if group:
        _row_group(s, stage, group, shared)
    elif across is not None:
        transpose(s, stage, across)
    elif not stage.definition.reduction:
        _points(s, stage)
    elif lane_axis(s.program, stage.definition) in {a.name for a in stage.definition.reduction}:
        _rows(s, stage)
    else:
        _columns(s, stage)
    return {root, *group}


def lane_axis(program: Program, stage: Stage) -> str | None:
    """Returns the axis along which lanes lie: the contiguous one, else the last; for a single value, one of the reduction."""
    axis = contiguous_axis(program, stage)
    if axis is None and stage.all_axes:
        return (stage.axes or stage.reduction)[-1].name
    return axis


# ---- points ------------------------------------------------------------------------------------------------------------


def _points(s: Schedule, stage: StageHandle) -> None:
    """Shares points out. One axis: each thread has items of a block's width. More: it has some rows, which reuse broadcasts."""
    definition, name = stage.definition, stage.name
    axis = lane_axis(s.program, definition)
    if axis is None:
        return
    loops = {a.name: loop for a, loop in zip(definition.axes, stage.loops, strict=True)}
    vector = lanes_factor(s, f"{name}.vector", definition.tensors[0].dtype)
    threads = threads_factor(s, f"{name}.threads", loops[axis].extent, default=BLOCK)
    others = [a.name for a in definition.axes if a.name != axis]
    if not others:
        items = s.factor(f"{name}.items", loops[axis].extent, at_most=ITEMS_AT_MOST, default=2)
        require_threads(s, threads)
        pieces = s.split(loops[axis], items, threads, vector)
        bind_blocks(s, pieces[0])
        s.unroll(pieces[1])
        bind_threads(s, pieces[2])
        s.vectorize(pieces[3])
        return
    row = max(others, key=lambda a: (definition.axes[[x.name for x in definition.axes].index(a)].extent, a))
    rest = [loops[a] for a in others if a != row]
    teams = s.factor(f"{name}.teams", loops[row].extent, at_most=BLOCK, default=1)
    rows = s.factor(f"{name}.rows", loops[row].extent, at_most=ITEMS_AT_MOST, default=4)
    require_threads(s, threads, teams)
    down = s.split(loops[row], teams, rows)
    right = s.split(loops[axis], threads, vector)
    s.reorder(*rest, down[0], right[0], down[1], right[1], down[2], right[2])
    bind_blocks(s, *rest, down[0], right[0])
    bind_threads(s, down[1], right[1])
    s.unroll(down[2])
    s.vectorize(right[2])


# ---- reductions --------------------------------------------------------------------------------------------------------


def _rows(s: Schedule, stage: StageHandle) -> None:
    """Gives each row to a thread, a warp or a block."""
    definition = stage.definition
    along = lane_axis(s.program, definition)
    length = next(a.extent for a in definition.reduction if a.name == along)
    spatial = list(stage.axes)
    if not spatial:
        _shared_row(s, stage, [], along, "block")
        return
    half = s.gpu.warp // 2
    options = ["thread"] if length <= half else ["thread", "warp"] if length <= SHORT else ["warp", "block"]
    by = s.variant(f"{stage.name} a row by a", options) if len(options) > 1 else options[0]
    if by == "thread":
        _row_by_thread(s, stage, along)
    else:
        _shared_row(s, stage, spatial, along, by)


def _row_by_thread(s: Schedule, stage: StageHandle, along: str | None) -> None:
    definition, name = stage.definition, stage.name
    loops = {a.name: loop for a, loop in zip(definition.all_axes, stage.loops, strict=True)}
    threads = threads_factor(s, f"{name}.threads", stage.axes[-1].extent, default=BLOCK)
    vector = lanes_factor(s, f"{name}.vector", definition.tensors[0].dtype)
    pieces = s.split(stage.axes[-1], threads)
    depth = s.split(loops[str(along)], vector)
    rest = [loops[a.name] for a in definition.reduction if a.name != along]
    s.reorder(*stage.axes[:-1], *pieces, *rest, *depth)
    bind_blocks(s, *stage.axes[:-1], pieces[0])
    bind_threads(s, pieces[1])
    s.vectorize(depth[-1])


def _shared_row(s: Schedule, stage: StageHandle, spatial: list[LoopHandle], along: str | None, by: str) -> None:
    """Shares a row among the threads of a warp, with several rows a block, or among those of a whole block."""
    name = stage.name
    if by == "warp":
        warps = s.factor(f"{name}.warps", spatial[-1].extent, at_most=ROWS_AT_MOST, default=8)
        pieces = s.split(spatial[-1], warps)
        threads = threads_factor(s, f"{name}.threads", s.gpu.warp, default=s.gpu.warp, at_most=s.gpu.warp)
        bind_blocks(s, *spatial[:-1], pieces[0])
        s.bind("warp", 0, pieces[1])
        require_threads(s, warps, s.gpu.warp)
    else:
        threads = threads_factor(s, f"{name}.threads", _loop(stage, along).extent, default=BLOCK)
        bind_blocks(s, *spatial)
        require_threads(s, threads)
    vector = lanes_factor(s, f"{name}.vector", _narrowest(stage))
    _along(
        s, stage, along, threads, vector, s.factor(f"{name}.items", _loop(stage, along).extent, at_most=8, default=2)
    )


def _along(
    s: Schedule, stage: StageHandle, along: str | None, threads: Extent, vector: Extent, items: Extent | None
) -> None:
    """Cuts the loops of a stage inside of its row: neighbouring threads have neighbouring vectors, `items` of them in flight.

    Without `items` the whole row is written out, so that what a thread makes of it can stay in its registers.
    """
    stage = s.stage(stage.name)
    names = [a.name for a in stage.definition.all_axes]
    own = {loop.name: name for name in names for loop in stage.loops if loop.name == f"{stage.name}.{name}"}
    rest = [loop for loop in stage.loops if own.get(loop.name, along) != along and _is_serial(s, loop)]
    (lane_loop,) = [loop for loop in stage.loops if own.get(loop.name) == along]
    pieces = s.split(lane_loop, threads, vector) if items is None else s.split(lane_loop, items, threads, vector)
    if rest:
        s.reorder(*rest, *pieces)
    s.unroll(pieces[-3])
    bind_threads(s, pieces[-2])
    s.vectorize(pieces[-1])


def _is_serial(s: Schedule, loop: LoopHandle) -> bool:
    return s.tree.owner(loop.name).loop(loop.name).kind == "serial"


def _loop(stage: StageHandle, axis: str | None) -> LoopHandle:
    """Returns the unsplit loop of an axis."""
    return next(loop for loop in stage.loops if loop.name == f"{stage.name}.{axis}")


def _narrowest(stage: StageHandle) -> DType:
    """Returns the narrowest type that a stage reads; that of its result, where it reads nothing."""
    definition = stage.definition
    return min((r.dtype for r in definition.reads()), key=lambda d: d.bytes, default=definition.tensors[0].dtype)


def _columns(s: Schedule, stage: StageHandle) -> None:
    """Puts lanes along the contiguous axis; each thread reduces its own columns, some terms in flight."""
    definition, name = stage.definition, stage.name
    axis = lane_axis(s.program, definition)
    loops = {a.name: loop for a, loop in zip(definition.all_axes, stage.loops, strict=True)}
    vector = lanes_factor(s, f"{name}.vector", definition.tensors[0].dtype)
    threads = threads_factor(s, f"{name}.threads", loops[str(axis)].extent, default=2 * s.gpu.warp)
    down = max(definition.reduction, key=lambda a: a.extent).name
    terms = s.factor(f"{name}.terms", loops[down].extent, at_most=16, default=8)
    require_threads(s, threads)
    others = [loops[a.name] for a in definition.axes if a.name != axis]
    rest = [loops[a.name] for a in definition.reduction if a.name != down]
    right = s.split(loops[str(axis)], threads, vector)
    depth = s.split(loops[down], terms)
    s.reorder(*others, right[0], right[1], *rest, *depth, right[2])
    bind_blocks(s, *others, right[0])
    bind_threads(s, right[1])
    s.unroll(depth[1])
    s.vectorize(right[2])


# ---- row groups --------------------------------------------------------------------------------------------------------


def _row_group(s: Schedule, root: StageHandle, group: list[str], shared: int) -> None:
    """Lets all stages of a group go over their row with the same threads."""
    definition, name = root.definition, root.name
    rows = list(root.axes[:shared])
    long = [a for a in definition.axes[shared:] if a.extent > 1]
    along = next((a.name for a in long if output_stride(definition, a.name) == 1), None)
    if along is None or contiguous_axis(s.program, definition) in {a.name for a in definition.axes[:shared]}:
        _row_group_by_threads(s, root, group, rows)
        return
    length = next(a.extent for a in long if a.name == along)
    inside = inside_rows(s.program, definition, group, shared)
    kept = any(inside.values())  # members with more than one value a row, which their readers go over again
    simple = _in_registers(s.program, definition, along, inside)
    by = s.variant(f"{name} a row by a", ["warp", "block"]) if simple and length <= KEPT * s.gpu.warp else "block"
    extent = _loop(root, along).extent
    if by == "warp":
        warps = s.factor(f"{name}.warps", rows[-1].extent, at_most=ROWS_AT_MOST, default=4)
        pieces = s.split(rows[-1], warps)
        threads = threads_factor(s, f"{name}.threads", s.gpu.warp, default=s.gpu.warp, at_most=s.gpu.warp)
        bind_blocks(s, *rows[:-1], pieces[0])
        s.bind("warp", 0, pieces[1])
        require_threads(s, warps, s.gpu.warp)
        at = pieces[1]
    else:
        threads = threads_factor(s, f"{name}.threads", extent, default=BLOCK)
        require_threads(s, threads)
        bind_blocks(s, *rows)
        at = rows[-1]
    vector = lanes_factor(s, f"{name}.vector", definition.tensors[0].dtype)
    items: Extent | None = None
    places = (["registers"] if simple else []) + (["shared"] if by == "block" else [])
    if kept and s.variant(f"{name} row in", places) == "registers":
        held = ceildiv(extent, threads * vector) * vector
        s.require(held <= KEPT, "the row fits in the registers of its threads")
    else:
        items = s.factor(f"{name}.items", extent, at_most=ITEMS_AT_MOST, default=1)
    _along(s, root, along, threads, vector, items)
    for member in group:
        inner = s.compute_at(member, at)
        lane = _lane_inside(s.program, inner.definition, rows=inner)
        if lane is not None:
            _along(s, inner, lane, threads, vector, items)


def _in_registers(program: Program, root: Stage, along: str, inside: dict[str, tuple[str, ...]]) -> bool:
    """Tells whether the threads that need an element of a member are those that made it: all go along it by their lanes."""
    for member, axes in inside.items():
        stage = program.stage(member)
        if axes and (axes != (stage.axes[-1].name,) or stage.reduction):
            return False
        for reader in program.consumers[member] if axes else ():
            lane = along if reader.name == root.name else _reduced_lane(program, reader) or reader.axes[-1].name
            if any(read.tensor == member and read.indices[-1] != Var(lane) for read in reader.reads()):
                return False
    return True


def _reduced_lane(program: Program, stage: Stage) -> str | None:
    """Returns the axis of the reduction of a member that its threads share."""
    if not stage.reduction:
        return None
    axis = contiguous_axis(program, stage)
    names = [a.name for a in stage.reduction]
    return axis if axis in names else max(stage.reduction, key=lambda a: a.extent).name


def _lane_inside(program: Program, stage: Stage, rows: StageHandle) -> str | None:
    """Returns the axis of a member that its threads share; None for one value a row, which every thread computes."""
    if stage.reduction:
        return _reduced_lane(program, stage)
    last = stage.axes[-1].name if stage.axes else None
    if last is None:
        return None
    extent = _loop(rows, last).extent
    return None if isinstance(extent, int) and extent == 1 else last


def _row_group_by_threads(s: Schedule, root: StageHandle, group: list[str], rows: list[LoopHandle]) -> None:
    """Gives each row to a thread: rows lie side by side in memory."""
    threads = threads_factor(s, f"{root.name}.threads", rows[-1].extent, default=2 * s.gpu.warp)
    require_threads(s, threads)
    pieces = s.split(rows[-1], threads)
    bind_blocks(s, *rows[:-1], pieces[0])
    bind_threads(s, pieces[1])
    for member in group:
        s.compute_at(member, pieces[1])


STREAM = Rule("stream", matches=_matches, apply=_apply)
