"""Schedules for GPUs as a person would write them, one for each way of using blocks, warps and threads."""

from __future__ import annotations

from collections.abc import Callable

from tilesmith.schedules.schedule import Schedule, StageHandle

Template = Callable[[Schedule], None]


def pointwise(s: Schedule) -> None:
    """Vectors of 4, two to a thread, over the only axis."""
    (loop,) = s.stage(s.program.stages[-1].name).axes
    block, items, thread, lanes = s.split(loop, 2, 32, 4)
    s.bind("block", 0, block)
    s.unroll(items)
    s.bind("thread", 0, thread)
    s.vectorize(lanes)


def rows_by_blocks(s: Schedule) -> None:
    """A block a row: every thread sums a part of it."""
    stage = s.stage("t0")
    (row,), (k,) = stage.axes, stage.reduction
    _, thread, lanes = s.split(k, 64, 4)
    s.bind("block", 0, row)
    s.bind("thread", 0, thread)
    s.vectorize(lanes)


def rows_by_warps(s: Schedule) -> None:
    """A warp a row, four rows a block."""
    stage = s.stage("t0")
    (row,), (k,) = stage.axes, stage.reduction
    block, warp = s.split(row, 4)
    _, thread, lanes = s.split(k, 32, 4)
    s.bind("block", 0, block)
    s.bind("warp", 0, warp)
    s.bind("thread", 0, thread)
    s.vectorize(lanes)


def columns_by_threads(s: Schedule) -> None:
    """Threads along the columns and, eight deep, along the rows that they sum."""
    stage = s.stage("t0")
    (column,), (k,) = stage.axes, stage.reduction
    block, thread, lanes = s.split(column, 8, 4)
    outer, deep = s.split(k, 8)
    s.reorder(block, outer, deep, thread, lanes)
    s.bind("block", 0, block)
    s.bind("thread", 0, deep, thread)
    s.vectorize(lanes)


def softmax(s: Schedule) -> None:
    """A block a row: what all of a row need is in registers, the exponentials are in shared memory."""
    names = [stage.name for stage in s.program.stages]
    row, _ = s.stage(names[-1]).axes
    s.bind("block", 0, row)
    _in_threads(s, s.stage(names[-1]), 1)
    for name in reversed(names[:-1]):
        stage = s.compute_at(name, row)
        if len(stage.loops) > 1:
            _in_threads(s, stage, 1)


def _in_threads(s: Schedule, stage: StageHandle, position: int) -> None:
    _, thread, lanes = s.split(stage.loops[position], 32, 4)
    s.bind("thread", 0, thread)
    s.vectorize(lanes)


def matmul(stages: int = 1, swizzle: int = 0, pad: int = 0, rows: int = 4, staged: int = 0, lanes: int = 4) -> Template:
    """Tiles in shared memory, copied `stages` - 1 trips ahead; accumulators in registers, with an epilogue if there is one.

    staged: what is copied goes through registers. lanes: how much of it at a time.
    """

    def template(s: Schedule) -> None:
        first, last = s.program.stages[0].name, s.program.stages[-1].name
        for stage in s.program.stages[1:-1]:
            s.inline(stage.name)
        last = s.program.stages[-1].name
        outer = s.stage(last)
        i0, i1, i2 = s.split(outer.axes[0], 16, rows)
        j0, j1, j2, j3 = s.split(outer.axes[1], 2, 16, 4)
        if first == last:
            (k,) = outer.reduction
            k0, k1, k2 = s.split(k, 2, 4)
            s.reorder(i0, j0, k0, i1, k1, k2, i2, j1, j2, j3)
            s.unroll(k2)
        else:
            s.reorder(i0, j0, i1, i2, j1, j2, j3)
        s.bind("block", 0, i0, j0)
        s.bind("thread", 0, i1, j2)
        s.unroll(i2, j1)
        s.vectorize(j3)
        if first != last:
            inner = s.compute_at(first, j0)
            i1, i2 = s.split(inner.axes[0], rows)
            j1, j2, j3 = s.split(inner.axes[1], 16, 4)
            k0, k1, k2 = s.split(inner.reduction[0], 2, 4)
            s.reorder(k0, i1, k1, k2, i2, j1, j2, j3)
            s.bind("thread", 0, i1, j2)
            s.unroll(k2, i2, j1)
            s.vectorize(j3)
        a, b = s.copy("x0", first, "shared"), s.copy("x1", first, "shared")
        a, b = s.compute_at(a.name, k0), s.compute_at(b.name, k0)
        deep, wide = s.split(a.loops[1], lanes)
        s.reorder(deep, a.loops[0], wide)
        s.bind("thread", 1, a.loops[0])
        s.bind("thread", 0, deep)
        s.vectorize(wide)
        along, wide = s.split(b.loops[1], lanes)
        s.bind("thread", 0, b.loops[0], along)
        s.vectorize(wide)
        if swizzle:
            s.swizzle(b.name, swizzle)
        if pad:
            s.pad_layout(b.name, pad)
        if stages > 1:
            s.pipeline(k0, stages, staged)

    return template


def transpose(s: Schedule) -> None:
    """A tile goes through padded shared memory."""
    outer, inner = s.stage("t0").axes
    i0, i1 = s.split(outer, 16)
    j0, j1 = s.split(inner, 16)
    s.reorder(i0, j0, i1, j1)
    s.bind("block", 0, i0, j0)
    s.bind("thread", 0, i1, j1)
    copy = s.copy("x0", "t0", "shared")
    s.pad_layout(copy.name, 1)
    copy = s.compute_at(copy.name, j0)
    s.bind("thread", 0, *copy.loops)


def private(s: Schedule) -> None:
    """Each thread makes a row's sum for itself."""
    names = [stage.name for stage in s.program.stages]
    row, _ = s.stage(names[-1]).axes
    block, thread = s.split(row, 32)
    s.bind("block", 0, block)
    s.bind("thread", 0, thread)
    for name in reversed(names[:-1]):
        s.compute_at(name, thread)


def one_thread_of_many(s: Schedule) -> None:
    """The root has no threads, what it reads has: one of them makes the root's points."""
    names = [stage.name for stage in s.program.stages]
    row, _ = s.stage(names[-1]).axes
    s.bind("block", 0, row)
    for name in reversed(names[:-1]):
        stage = s.compute_at(name, row)
        if stage.reduction:
            s.bind("thread", 0, stage.loops[-1])
