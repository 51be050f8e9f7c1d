"""The sketches that the window rule derives: their structure, and their code at sizes that nothing divides."""

from __future__ import annotations

from random import Random

import pytest

from helpers.emission.loops import HOST
from helpers.lowering.derived import assert_runs, body_of, some_configs
from helpers.lowering.truth import check_case
from tilesmith.schedules.auto import derive
from tilesmith.schedules.loops import Scope
from tilesmith.schedules.plan.stage import plan_of
from tilesmith.schedules.rules.cpu import window
from tilesmith.schedules.space import config
from tilesmith.targets.target import parse_target
from tilesmith.tensor import ops
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.parse import parse

NARROW = parse_target("x86:avx512;vector=128")

BIAS_RELU = """
input x: f32[2, 5, 6]
constant w: f32[9, 2, 3, 3]
input bias: f32[9]
input z: f32[9, 5, 6]
y[o: 9, p: 5, q: 6] = sum[c: 2, r: 3, s: 3](
    select(p + r >= 1 and p + r < 6 and q + s >= 1 and q + s < 7, x[c, p + r - 1, q + s - 1], 0) * w[o, c, r, s])
v[o: 9, p: 5, q: 6] = max(y[o, p, q] + bias[o] + z[o, p, q], 0)
return v
"""
NHWC_BIAS = """
input x: f32[5, 6, 2]
constant w: f32[3, 3, 2, 9]
input bias: f32[9]
y[p: 5, q: 6, o: 9] = sum[r: 3, s: 3, c: 2](
    select(p + r >= 1 and p + r < 6 and q + s >= 1 and q + s < 7, x[p + r - 1, q + s - 1, c], 0) * w[r, s, c, o])
v[p: 5, q: 6, o: 9] = max(y[p, q, o] + bias[o], 0)
return v
"""
PROGRAMS: dict[str, Program] = {
    "nchw": ops.conv2d(1, 2, 5, 6, 9, padding=1, constants=("W",)),
    "nhwc": ops.conv2d(1, 2, 5, 6, 9, padding=1, layout="nhwc", constants=("W",)),
    "batch": ops.conv2d(2, 1, 4, 5, 9, padding=1),
    "strided": ops.conv2d(1, 1, 6, 7, 8, kernel=5, padding=2, stride=2, constants=("W",)),
    "dilated": ops.conv2d(1, 1, 6, 5, 11, padding=2, dilation=2, layout="nhwc"),
    "unpadded": ops.conv2d(1, 2, 5, 6, 9, constants=("W",)),
    "one by one": ops.conv2d(1, 5, 7, 9, 10, kernel=1, stride=2, constants=("W",)),
    "one line": parse(
        "input x: f32[3, 20]\nconstant w: f32[9, 3, 3]\n"
        "y[o: 9, q: 18] = sum[c: 3, s: 3](x[c, q + s] * w[o, c, s])\nreturn y"
    ),
    "finished": parse(BIAS_RELU.replace("\n    ", " ")),
    "finished in registers": parse(NHWC_BIAS.replace("\n    ", " ")),
}  # fmt: skip


@pytest.mark.parametrize(
    "line",
    [
        "y[h: 3, i: 40, d: 16] = sum[j: 40](a[h, i, j] * b[j, d + h * 16])",  # columns of a head
        "y[h: 3, i: 40, j: 40] = sum[d: 16](c[i, d + h * 16] * k[h, j, d])",  # depth of a head
    ],
)
def test_heads_that_lie_side_by_side_are_no_windows(line: str) -> None:
    """Each head has operands of its own, so nothing slides: to the rule, it would be an image 16 wide."""
    program = parse(
        f"input a: f32[3, 40, 40]\ninput b: f32[40, 48]\ninput c: f32[40, 48]\ninput k: f32[3, 40, 16]\n{line}\nreturn y"
    )
    assert window.window_of(program, program.stage("y")) is None


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_windows_are_counted_and_run(name: str) -> None:
    program = body_of(PROGRAMS[name])
    sketches = derive(program)[1:]
    assert 1 <= len(sketches) <= 8
    for number, sketch in enumerate(sketches):
        assert any(check_case(program, sketch, NARROW, Random(seed), 9000) for seed in range(8)), sketch.title
        for values in some_configs(program, sketch, 1):
            assert_runs(program, sketch.apply(program, HOST, values), number)


def orders_of_weights(channels: int) -> dict[str, list[str]]:
    """By where the windows are: the axes of the packed weights from the outermost loop in."""
    program = body_of(ops.conv2d(1, channels, 7, 7, channels, padding=1, constants=("W",)))
    found = {}
    for sketch in derive(program):
        if "windows innermost" in sketch.title:
            config_space = sketch.config_space(program, HOST)
            tree = sketch.apply(program, HOST, config(config_space, config_space.default))
            (copy,) = [s for s in tree.stages if s.copies is not None and len(s.loops) == 6]
            found[sketch.title.partition("innermost=")[2].rstrip(")")] = [loop.axis for loop in copy.loops]
    return found


def test_weights_from_afar_lie_in_the_order_of_reading() -> None:
    near, far = orders_of_weights(64), orders_of_weights(384)
    usual, reading = ["a0", "a1", "a2", "a3", "a0", "a0"], ["a0", "a2", "a3", "a1", "a0", "a0"]
    assert near == {"false": usual, "true": usual}
    assert far == {"false": reading, "true": usual}


@pytest.mark.parametrize("constants", [("W",), ()])
def test_weights_in_the_order_of_reading_run(constants: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window, "BEYOND", 0)
    for layout in ("nchw", "nhwc"):
        program = body_of(ops.conv2d(1, 3, 5, 7, 11, padding=1, layout=layout, constants=constants))
        for number, sketch in enumerate(derive(program)[1:]):
            for values in some_configs(program, sketch, 1):
                assert_runs(program, sketch.apply(program, HOST, values), number)


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_no_inner_loop_asks_for_the_border(layout: str) -> None:
    program = body_of(ops.conv2d(1, 64, 56, 56, 64, padding=1, layout=layout, constants=("W",)))
    direct = [sketch for sketch in derive(program)[1:] if "fast=0" in sketch.title]
    assert direct
    for sketch in direct:
        rewritten = sketch.rewritten(program)
        for stage in rewritten.stages:
            if stage.reduction:
                assert "select" not in str(stage.bodies[0]), sketch.title


def test_a_finished_tile_stays_in_registers_where_it_is_stored_along_its_vectors() -> None:
    program = body_of(PROGRAMS["finished in registers"])
    for sketch in derive(program)[1:]:
        config_space = sketch.config_space(program, HOST)
        tree = sketch.apply(program, HOST, config(config_space, config_space.default))
        (anchor,) = [s.stage for s in tree.stages if tree.definition(s.stage).reduction]
        assert plan_of(tree, gpu=False).storage(anchor).scope is Scope.REGISTER


def test_the_rule_reads_no_names() -> None:
    """The same accesses under other names and another order of axes give the same structure."""
    one = derive(body_of(PROGRAMS["one line"]))
    text = (
        "input data: f32[3, 20]\nconstant taps: f32[9, 3, 3]\n"
        "out[k: 9, t: 18] = sum[u: 3, j: 3](data[u, t + j] * taps[k, u, j])\nreturn out"
    )
    other = derive(body_of(parse(text)))
    assert [sketch.key for sketch in one] == [sketch.key for sketch in other]
