"""The share of the busiest thread is what counting its points gives."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from helpers.modelling.programs import TARGET, program
from tilesmith.cost_model.analytic import predict
from tilesmith.cost_model.cpu.analysis import analyse
from tilesmith.cost_model.cpu.balance import largest_share, pieces_written
from tilesmith.cost_model.levels import levels
from tilesmith.schedules.plan.stage import plan_of
from tilesmith.schedules.schedule import Schedule, trace
from tilesmith.schedules.space import config
from tilesmith.schedules.task import Task
from tilesmith.targets.ceilings import default_ceilings
from tilesmith.tensor.text.parse import parse

TEXT = "input x: f32[{rows}, {columns}]\nz[j: {columns}, i: {rows}] = x[i, j] * 2 + x[0, j]\nreturn z"


def blocks(s: Schedule) -> None:
    """Blocks of both axes, in parallel."""
    i, j = s.stage("t0").loops
    outer = [s.split(loop, s.factor(name, loop.extent, default=1)) for loop, name in ((i, "rows"), (j, "columns"))]
    s.reorder(outer[0][0], outer[1][0], outer[0][1], outer[1][1])
    s.parallel(outer[0][0], outer[1][0])


def counted(sizes: tuple[int, int], steps: tuple[int, int], chunk: int) -> float:
    """The largest share of any thread, point by point."""
    starts = [range(0, size, step) for size, step in zip(sizes, steps, strict=True)]
    work = [
        np.prod([min(step, size - start) for size, step, start in zip(sizes, steps, at, strict=True)])
        for at in product(*starts)
    ]
    return max(sum(work[first : first + chunk]) for first in range(0, len(work), chunk)) / np.prod(sizes)


@pytest.mark.parametrize("threads", [1, 2, 3, 4])
@pytest.mark.parametrize("sizes", [(112, 5), (7, 12), (16, 1)])
def test_the_share_is_that_of_the_points(sizes: tuple[int, int], threads: int) -> None:
    body = program(TEXT.format(rows=sizes[1], columns=sizes[0]))
    (sketch,) = trace(blocks, body)
    config_space = sketch.config_space(body, TARGET)
    rows = np.array(list(np.ndindex(*(len(p.values) for p in config_space.parameters))), np.int32)[::7]
    for row in rows:
        values = dict(config(config_space, row))
        tree = sketch.apply(body, TARGET, values)
        root = levels(tree, plan_of(tree, False)).roots[-1]
        steps = tuple(int(values[name]) for name in ("rows", "columns"))
        trips = np.prod([-(-size // step) for size, step in zip(sizes, steps, strict=True)])
        chunk = int(np.ceil(trips / min(trips, threads)))
        assert largest_share(root, float(chunk)) == pytest.approx(counted(sizes, steps, chunk)), (values, chunk)


def test_a_last_block_with_little_to_do_leaves_a_thread_idle() -> None:
    """Of 112 rows in blocks of 96 the first thread of two has 96."""
    task = Task.of(parse(TEXT.format(rows=4096, columns=112)), TARGET, 2)
    (sketch,) = trace(blocks, task.body)
    ceilings = default_ceilings(TARGET, 2)
    seconds = [
        predict(sketch.apply(task.body, TARGET, {"rows": rows, "columns": 4096}), TARGET, 2, ceilings, 1)[0]
        for rows in (56, 96, 112)
    ]
    assert seconds[1] == pytest.approx(seconds[0] * 96 / 56, rel=0.05)
    assert seconds[2] == pytest.approx(seconds[0] * 2, rel=0.05)


def test_pieces_of_rows_count_where_threads_divide_them() -> None:
    """Half of each row for each of two threads is a piece a row and thread, however many blocks; rows are one."""
    body = program(TEXT.format(rows=64, columns=100))

    def pieces(rows: int, columns: int, threads: int = 2) -> float:
        (sketch,) = trace(blocks, body)
        tree = sketch.apply(body, TARGET, {"rows": rows, "columns": columns})
        return float(pieces_written(levels(tree, plan_of(tree, False)).roots[-1], threads))

    assert pieces(rows=50, columns=64) == 2  # whole rows
    assert pieces(rows=100, columns=32) == 200  # halves of rows
    assert pieces(rows=100, columns=16) == 200  # each thread's blocks follow each other
    assert pieces(rows=25, columns=32) == 2  # each thread has both halves of its rows
    assert pieces(rows=100, columns=32, threads=1) == 0


@pytest.mark.parametrize(("along", "shared"), [("rows", "b"), ("columns", "a")])
def test_what_all_threads_read_is_what_none_of_them_divides(along: str, shared: str) -> None:
    """Threads that share the rows of a product all read the right operand, and those that share its columns the left one."""

    def share(s: Schedule) -> None:
        i, j, k = s.stage("t0").loops
        outer, inner = s.split(i if along == "rows" else j, 16)
        s.reorder(outer, *([inner, j, k] if along == "rows" else [i, inner, k]))
        s.parallel(outer)

    body = program(
        "input a: f32[96, 512]\ninput b: f32[512, 2048]\nz[i: 96, j: 2048] = sum[k: 512](a[i, k] * b[k, j])\nreturn z"
    )
    (sketch,) = trace(share, body)
    (nest,) = analyse(sketch.apply(body, TARGET, {}), TARGET, 2).nests
    bytes_of = {"a": 96 * 512 * 4, "b": 512 * 2048 * 4}
    names = dict(zip(bytes_of, (t.name for t in body.dynamic_inputs), strict=True))
    assert nest.together == nest.traffic.moved[names[shared], False][1] >= bytes_of[shared]
    assert analyse(sketch.apply(body, TARGET, {}), TARGET, 1).nests[0].together == 0


@pytest.mark.parametrize(("made", "read", "elsewhere"), [("i", "i", (0, 0)), ("j", "i", (1, 0)), ("i", "j", (0, 1))])
def test_what_a_thread_made_of_anothers_rows_is_elsewhere(made: str, read: str, elsewhere: tuple[int, int]) -> None:
    """Threads that share columns of rows write, or read, half of what they do in rows that the other one reads, or has written.

    A tensor of 8 MB is in no second cache; one thread has all in its own.
    """

    def handed(rows: int, columns: int, threads: int = 2) -> tuple[float, ...]:
        body = program(
            f"input x: f32[{rows}, {columns}]\ny[i: {rows}, j: {columns}] = x[i, j] * 2\n"
            f"z[i: {rows}, j: {columns}] = y[i, j] + y[i, 0]\nreturn z"
        )

        def share(s: Schedule) -> None:
            for name, axis in (("t0", made), ("t1", read)):
                i, j = s.stage(name).loops
                loop = i if axis == "i" else j
                outer, inner = s.split(loop, loop.extent // 2)
                s.reorder(outer, *((inner, j) if axis == "i" else (i, inner)))
                s.parallel(outer)

        (sketch,) = trace(share, body)
        return tuple(float(nest.elsewhere) for nest in analyse(sketch.apply(body, TARGET, {}), TARGET, threads).nests)

    written, fetched = handed(64, 256)
    half = 64 * 256 * 4 // 4  # of a thread's half of the columns, those in the other one's rows
    assert written == elsewhere[0] * half
    assert elsewhere[1] * half <= fetched <= elsewhere[1] * (half + 64 * 64)  # and lines of the first column
    assert handed(64, 256, threads=1) == (0, 0)
    assert handed(1024, 2048) == (0, 0)
