"""Rows that lie one behind another in one axis, read at i // 3 * 7 + j: tiles need whole rows, and as many as they cover."""

from __future__ import annotations

from random import Random

import pytest

from helpers.lowering.sketches import random_sketch, tiled
from helpers.lowering.truth import check_case
from tilesmith.codegen.lower import attached
from tilesmith.common.errors import InternalError
from tilesmith.schedules.boxes import BoxAxis, box_axes
from tilesmith.schedules.steps import stages
from tilesmith.targets.target import parse_target
from tilesmith.tensor.text.canonical import canonical
from tilesmith.tensor.text.parse import parse

TARGET = parse_target("x86:avx2")
THIRDS = """
    input x: f32[5, 7]
    a[t: 35] = x[t // 7, t % 7] * 2 + f32(t)
    b[i: 13, j: 7] = a[i // 3 * 7 + j] + f32(i)
    return b
    """
HALVES = """
    input x: f32[45, 3]
    a[t: 45, k: 3] = x[t, k] * 2
    b[t: 45, k: 2] = a[t, k] + a[t, k + 1]
    c[i: 5, j: 18, k: 2] = b[i * 9 + j // 2, k] + f32(j)
    return c
    """
IMAGES = """
    input x: f32[3, 40]
    a[n: 3, t: 40] = x[n, t] + f32(t)
    b[n: 3, p: 15, q: 9] = a[n, p // 2 * 5 + q // 2] * 2
    return b
    """
CASES = [
    (THIRDS, (3, 7), {"t0": (7,)}),
    (THIRDS, (6, 7), {"t0": (14,)}),
    (THIRDS, (6, 2), {"t0": (14,)}),
    (HALVES, (2, 18, 2), {"t0": (18, 3), "t1": (18, 2)}),
    (IMAGES, (2, 4, 9), {"t0": (2, 10)}),
]


@pytest.mark.parametrize(("text", "sizes", "points"), CASES)
def test_tiles_need_so_many_points(text: str, sizes: tuple[int, ...], points: dict[str, tuple[int, ...]]) -> None:
    program = canonical(parse(text))
    sketch = tiled(program, sizes)
    tree = sketch.apply(program, TARGET, {})
    assert {s.stage: tuple(s.box.values()) for s in tree.stages if s.at is not None} == points
    assert check_case(program, sketch, TARGET, Random(0), largest=100_000)


def test_what_reaches_into_the_next_row_needs_all() -> None:
    """There j goes one point beyond."""
    program = canonical(
        parse("""
        input x: f32[36]
        a[t: 36] = x[t] * 2
        b[i: 13, j: 8] = a[i // 3 * 7 + j] + f32(i)
        return b
        """)
    )
    box = box_axes(tiled(program, (3, 8)).apply(program, TARGET, {}), "t0", ("t1", "t1.a1.p0"))
    assert box["a0"] == BoxAxis((), 0, 35)


@pytest.mark.parametrize("seed", range(18))
def test_any_schedule_is_counted_and_right(seed: int) -> None:
    random = Random(seed)
    program = canonical(parse((THIRDS, HALVES, IMAGES)[seed % 3]))
    check_case(program, random_sketch(program, random), TARGET, random, largest=20_000)


def _a_row_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        BoxAxis, "extent", lambda self, sizes, right=BoxAxis.extent: right(self, sizes) - (self.times > 1) * self.times
    )


def _from_the_first_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        attached, "times", lambda expr, factor, right=attached.times: right(expr, 0 if factor == 7 else factor)
    )


def _anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "aligned_with", lambda *args: [])


@pytest.mark.parametrize(
    ("plant", "sizes"), [(_a_row_short, (6, 7)), (_from_the_first_row, (3, 7)), (_anywhere, (5, 7))]
)
def test_a_wrong_box_is_caught(plant, sizes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    program = canonical(parse(THIRDS))
    plant(monkeypatch)
    with pytest.raises((AssertionError, InternalError)):
        check_case(program, tiled(program, sizes), TARGET, Random(0), largest=100_000)
