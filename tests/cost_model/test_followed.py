"""What a core sees coming by itself is not asked for, and what jumps from line to line comes late."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tilesmith.cost_model.analytic import predict
from tilesmith.cost_model.cpu.ahead import slower_asked
from tilesmith.schedules.task import Task
from tilesmith.targets.ceilings import Ceilings, default_ceilings
from tilesmith.targets.target import Target, parse_target
from tilesmith.tensor.text.parse import parse

NARROW = parse_target("x86:avx2;vector=256;fma=2;load=2;store=1;cores=2;l1=32K/64/1;l2=512K/64/1;l3=32M/64/2")
WIDE = parse_target("x86:avx512;vector=512;fma=2;load=2;store=1;cores=2;l1=48K/64/1;l2=2M/64/1;l3=32M/64/2")
ROW = "input x: f32[4096]\nconstant w: f32[4096, 4096]\ny[j: 4096] = sum[k: 4096](x[k] * w[k, j])\nreturn y"
WAY = "columns outside=true, t0 rows innermost=true, t0 block depth=false, t0 pack rows="


def with_curves(target: Target, read: float, asked: float) -> Ceilings:
    curves = {"read": ((1 << 30, read),), "read_ahead": ((1 << 30, asked),)}
    return replace(default_ceilings(target, 1), streams=curves)


def seconds(text: str, target: Target, title: str, changes: dict[str, int]) -> float:
    task = Task.of(parse(text), target, 1)
    sketch = next(one for one in task.sketches if one.steps and title in one.title)
    config = {tunable.name: changes.get(tunable.name.split(".")[-1], tunable.default) for tunable in sketch.tunables}
    tree = sketch.apply(task.body, target, config)
    return float(predict(tree, target, 1, default_ceilings(target, 1), 1)[0])


def test_a_packed_constant_is_asked_for_ahead_where_that_is_no_slower() -> None:
    def asked(target: Target, ahead: int) -> float:
        return seconds(ROW, target, "", {"ahead": ahead})

    assert asked(NARROW, 0) < asked(NARROW, 8192)
    assert asked(WIDE, 8192) <= asked(WIDE, 0)


@pytest.mark.parametrize("target", [NARROW, WIDE])
def test_what_was_measured_says_how_much_slower(target: Target) -> None:
    assert slower_asked(target, with_curves(target, 2e10, 1.6e10)) == pytest.approx(1.25)
    assert slower_asked(target, with_curves(target, 1.6e10, 2e10)) == 1.0


@pytest.mark.parametrize(("rows", "depth", "packed"), [(169, 128, False), (784, 256, True), (3136, 64, True)])
def test_rows_whose_points_lie_apart_along_the_depth_are_packed_where_they_are_many(
    rows: int, depth: int, packed: bool
) -> None:
    text = (
        f"input x: f32[{depth}, {rows}]\nconstant w: f32[{depth}, 256]\n"
        f"t[i: {rows}, j: 256] = sum[k: {depth}](x[k, i] * w[k, j])\ny[i: {rows}, j: 256] = max(t[i, j], 0)\nreturn y"
    )
    ways = [seconds(text, NARROW, WAY + way, {"rows": 4, "vectors": 3, "bring": 1}) for way in ("false", "true")]
    assert (ways[1] < ways[0]) == packed
