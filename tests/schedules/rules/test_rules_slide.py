"""The sketches that the slide rule derives: their structure, and their code at sizes that nothing divides."""

from __future__ import annotations

from random import Random

import pytest

from helpers.emission.loops import HOST
from helpers.lowering.derived import assert_runs, body_of, some_configs
from helpers.lowering.truth import check_case
from tilesmith.schedules.auto import derive
from tilesmith.schedules.loops import LoopKind
from tilesmith.schedules.rules.cpu.slide import slide_of
from tilesmith.targets.target import parse_target
from tilesmith.tensor import ops
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.parse import parse

NARROW = parse_target("x86:avx512;vector=128")

PROGRAMS: dict[str, Program] = {
    "depthwise nchw": ops.depthwise_conv2d(1, 3, 6, 7, padding=1, constants=("W",)),
    "depthwise nhwc": ops.depthwise_conv2d(1, 5, 6, 7, padding=1, layout="nhwc", constants=("W",)),
    "depthwise strided": ops.depthwise_conv2d(2, 2, 9, 11, kernel=5, stride=2, padding=2),
    "depthwise strided nhwc": ops.depthwise_conv2d(1, 18, 7, 6, stride=2, padding=1, layout="nhwc"),
    "depthwise by channels": parse(
        """
input x: f32[9, 8, 19]
constant w: f32[19, 3, 3]
input b: f32[19]
y[p: 7, q: 6, c: 19] = sum[r: 3, s: 3](x[p + r, q + s, c] * w[c, r, s])
z[p: 7, q: 6, c: 19] = max(y[p, q, c] + b[c], 0)
return z"""
    ),
    "coefficients of a call": parse(
        """
input x: f32[9, 8, 19]
input w: f32[19, 3, 3]
y[p: 7, q: 6, c: 19] = sum[r: 3, s: 3](x[p + r, q + s, c] * w[c, r, s])
return y"""
    ),
    "max": ops.max_pool2d(1, 3, 9, 12, kernel=3, stride=2, padding=1),
    "mean": ops.avg_pool2d(1, 4, 6, 10, kernel=2),
    "mean over three": ops.avg_pool1d(2, 3, 40, kernel=3, stride=3),
    "stencil": parse(
        "input x: f32[9, 37]\ny[i: 7, j: 35] = sum[r: 3, s: 3](x[i + r, j + s] * x[i + 1, j + 1])\nreturn y"
    ),
    "one line": parse("input x: f32[50]\ny[i: 45] = max[r: 6](x[i + r])\nreturn y"),
    "four apart": parse("input x: f32[3, 200]\ny[i: 3, j: 49] = sum[s: 5](x[i, 4 * j + s])\nreturn y"),
}


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_windows_are_counted_and_run(name: str) -> None:
    program = body_of(PROGRAMS[name])
    sketches = derive(program)[1:]
    assert 1 <= len(sketches) <= 3
    for number, sketch in enumerate(sketches):
        assert any(check_case(program, sketch, NARROW, Random(seed), 9000) for seed in range(8)), sketch.title
        for values in some_configs(program, sketch, 2):
            assert_runs(program, sketch.apply(program, HOST, values), number)


def test_a_window_with_reuse_along_another_axis_is_no_slide() -> None:
    for program in (ops.conv2d(1, 4, 6, 6, 8), ops.matmul(4, 4, 4), ops.row_sum(4, 4)):
        body = body_of(program)
        assert all(slide_of(body, stage) is None for stage in body.stages)


def test_a_border_is_written_or_asked_for() -> None:
    program = body_of(PROGRAMS["depthwise nchw"])
    written, asked = derive(program)[1:]
    assert [len(sketch.rewritten(program).stages) for sketch in (written, asked)] == [2, 1]


@pytest.mark.parametrize("name", ["depthwise by channels", "coefficients of a call"])
def test_coefficients_lie_in_the_order_in_which_vectors_read_them(name: str) -> None:
    program = body_of(PROGRAMS[name])
    for sketch in derive(program)[1:]:
        tree = sketch.apply(program, HOST, some_configs(program, sketch, 1)[0])
        copies = [stage for stage in tree.program.stages if any(read.tensor == "x1" for read in stage.reads())]
        assert len(copies) == 1 and copies[0].combiner is None
        assert tree.by_stage[copies[0].name].loops[-1].kind is LoopKind.VECTOR


def test_where_vectors_do_not_slide_memory_is_read_as_it_lies() -> None:
    """Lines and rows are around the vectors then, and neighbouring lines are in one register tile."""
    program = body_of(PROGRAMS["depthwise by channels"])
    in_order, strewn = derive(program)[1:]
    values = {"t0.rows": 2, "t0.vectors": 1, "t0.lines": 2}
    found = []
    for sketch, more in ((in_order, {"t0.together": 2}), (strewn, {})):
        loops = sketch.apply(program, HOST, {**values, **more}).stages[-1].loops
        found.append([loop.axis for loop in loops if loop.kind is not LoopKind.UNROLL])
    lines, rows, channels = "a0", "a1", "a2"
    assert found == [[lines, lines, rows, channels, channels], [lines, channels, lines, rows, channels]]
    tile = in_order.apply(program, HOST, {**values, "t0.together": 2}).stages[-1]
    unrolled = [(loop.axis, loop.extent) for loop in tile.loops if loop.kind is LoopKind.UNROLL]
    assert unrolled == [(lines, 2), (rows, 2), (channels, 1)]


def test_coefficients_that_vectors_read_as_they_lie_are_read_there() -> None:
    program = body_of(PROGRAMS["depthwise nhwc"])
    for sketch in derive(program)[1:]:
        assert all(step.op != "copy" for step in sketch.steps)
