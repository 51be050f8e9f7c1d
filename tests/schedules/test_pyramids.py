"""Pyramids: what is read at x // 2 runs inside of tiles, over exactly the points that a tile needs; also up after down."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from helpers.lowering.sketches import random_sketch, tiled
from helpers.lowering.truth import check_case
from helpers.pipeline.candidates import complaint, random_config
from tilesmith.common.errors import InternalError
from tilesmith.schedules.boxes import BoxAxis, box_axes
from tilesmith.schedules.schedule import Schedule, trace
from tilesmith.schedules.sketch import valid
from tilesmith.schedules.steps import stages
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor.text.canonical import canonical
from tilesmith.tensor.text.parse import parse

TARGET = parse_target("x86:avx2")
UP = """
    input x: f32[13, 17]
    a[i: 12, j: 16] = x[i, j] * 2 + x[i + 1, j + 1]
    b[i: 24, j: 32] = a[i // 2, j // 2] + f32(j)
    return b
    """
UP_AND_DOWN = """
    input x: f32[48, 64]
    d[i: 24, j: 32] = (x[2 * i, 2 * j] + x[2 * i + 1, 2 * j + 1]) * 0.5
    e[i: 12, j: 16] = (d[2 * i, 2 * j] + d[2 * i + 1, 2 * j]) * 0.5
    u[i: 24, j: 32] = e[i // 2, j // 2] + d[i, j]
    v[i: 48, j: 64] = u[i // 2, j // 2] * 0.5 - x[i, j]
    return v
    """
LINEAR = """
    input x: f32[15, 20]
    a[i: 15, j: 20] = exp(x[i, j])
    b[i: 29, j: 40] = a[min(max((i - 1) // 2, 0), 14), min(max((j + 1) // 2, 0), 19)] + a[i // 2, j // 2]
    return b
    """
THIRDS = """
    input x: f32[45]
    a[i: 45] = exp(x[i])
    b[i: 130] = a[i // 3] + a[i // 3 + 1]
    c[i: 64] = b[2 * i + 1] - b[2 * i]
    return c
    """
CASES = [
    (UP, (4, 8), {"t0": (2, 4)}),
    (UP, (6, 6), {"t0": (3, 3)}),
    (UP_AND_DOWN, (8, 16), {"t0": (5, 8), "t1": (2, 4), "t2": (4, 8)}),
    (LINEAR, (6, 10), {"t0": (5, 7)}),
    (THIRDS, (6,), {"t0": (5,), "t1": (12,)}),
]


@pytest.mark.parametrize(("text", "sizes", "points"), CASES)
def test_tiles_need_so_many_points(text: str, sizes: tuple[int, ...], points: dict[str, tuple[int, ...]]) -> None:
    program = canonical(parse(text))
    sketch = tiled(program, sizes)
    tree = sketch.apply(program, TARGET, {})
    assert {s.stage: tuple(s.box.values()) for s in tree.stages if s.at is not None} == points
    assert check_case(program, sketch, TARGET, Random(0), largest=100_000)


@pytest.mark.parametrize(("text", "sizes"), [(UP, (4, 7)), (UP_AND_DOWN, (8, 6)), (THIRDS, (5,))])
def test_tiles_that_cut_a_pair_are_none(text: str, sizes: tuple[int, ...]) -> None:
    program = canonical(parse(text))
    sketch = tiled(program, sizes)
    space = sketch.config_space(program, TARGET)
    assert not valid(sketch.apply_population(program, TARGET, space, np.zeros((1, 0), np.int32)), 1).any()


def test_a_row_at_a_time_needs_all_rows() -> None:
    """There a trip begins at any row: half of them in the middle of a pair."""
    program = canonical(parse(UP))

    def by_rows(s: Schedule) -> None:
        s.compute_at("t0", s.stage("t1").loops[0])

    (sketch,) = trace(by_rows, program, "rows")
    tree = sketch.apply(program, TARGET, {})
    assert box_axes(tree, "t0", ("t1", "t1.a0"))["a0"] == BoxAxis((), 0, 11)
    assert check_case(program, sketch, TARGET, Random(0), largest=100_000)


@pytest.mark.parametrize("seed", range(16))
def test_any_schedule_is_counted_and_right(seed: int) -> None:
    random = Random(seed)
    program = canonical(parse((UP, UP_AND_DOWN, LINEAR, THIRDS)[seed % 4]))
    check_case(program, random_sketch(program, random), TARGET, random, largest=20_000)


def test_levels_of_a_pyramid_join_in_tiles() -> None:
    program = parse("""
        input x: f32[48, 64]
        r[i: 48, j: 32] = x[i, 2 * j] * 0.25 + x[i, 2 * j + 1] * 0.5 + x[i, min(2 * j + 2, 63)] * 0.25
        d[i: 24, j: 32] = r[2 * i, j] * 0.25 + r[2 * i + 1, j] * 0.5 + r[min(2 * i + 2, 47), j] * 0.25
        u[i: 48, j: 32] = d[i // 2, j] * 0.5 + d[min((i + 1) // 2, 23), j] * 0.5
        v[i: 48, j: 64] = x[i, j] - (u[i, j // 2] * 0.5 + u[i, min((j + 1) // 2, 31)] * 0.5) * 0.9
        return v
        """)
    task = Task.of(program, parse_target("host"), 2)
    rng = np.random.default_rng(0)
    found = [sketch for sketch in task.sketches if "compute_at(t0" in sketch.text]
    assert found
    for sketch in found:
        values = random_config(task, sketch, rng)
        assert values is not None and complaint(task, sketch, values, 3) is None


def _one_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        BoxAxis, "extent", lambda self, sizes, right=BoxAxis.extent: right(self, sizes) - (self.divisor > 1)
    )


def _anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "aligned_with", lambda *args: [])


@pytest.mark.parametrize(("plant", "sizes"), [(_one_short, (6,)), (_anywhere, (7,))])
def test_a_wrong_box_is_caught(plant, sizes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    program = canonical(parse(THIRDS))
    plant(monkeypatch)
    with pytest.raises((AssertionError, InternalError)):
        check_case(program, tiled(program, sizes), TARGET, Random(0), largest=100_000)
