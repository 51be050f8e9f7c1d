"""The sketches of fast convolutions: their structure, and their code at sizes that nothing divides."""

from __future__ import annotations

import pytest

from helpers.emission.loops import HOST
from helpers.lowering.derived import assert_runs, body_of, some_configs
from tilesmith.codegen.emit.cpu.module import emit
from tilesmith.codegen.pipeline import loop_ir
from tilesmith.schedules.auto import derive
from tilesmith.schedules.loops import Scope
from tilesmith.schedules.prepared import prepared_stages
from tilesmith.schedules.rules.cpu.fast_windows.transform import kept_transforms, transform_of
from tilesmith.schedules.space import config
from tilesmith.targets.target import parse_target
from tilesmith.tensor import ops
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.parse import parse

AVX512 = parse_target("x86:avx512")


def convolution(layout: str, n: int = 1, stride: int = 1, constants: tuple[str, ...] = ("W",)) -> Program:
    return ops.conv2d(n, 17, 6, 5, 18, padding=1, layout=layout, constants=constants, stride=stride)


@pytest.mark.parametrize(
    ("layout", "n", "stride"), [("nchw", 1, 1), ("nhwc", 1, 1), ("nchw", 2, 1), ("nchw", 1, 2), ("nhwc", 2, 2)]
)
def test_fast_convolutions_run(layout: str, n: int, stride: int) -> None:
    program = body_of(convolution(layout, n, stride))
    fast = [s for s in derive(program) if "winograd" in s.text]
    assert {dict(s.variants)["t0 fast"] for s in fast} == {2, 4}
    for number, sketch in enumerate(fast[:: len(fast) // 2]):
        for values in some_configs(program, sketch, 1):
            assert_runs(program, sketch.apply(program, HOST, values), number)


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_windows_with_gaps_are_fast_convolutions_of_images_of_every_second_pixel(layout: str) -> None:
    program = body_of(ops.conv2d(1, 17, 7, 8, 18, padding=2, dilation=2, layout=layout, constants=("W",)))
    fast = [s for s in derive(program) if "winograd" in s.text]
    assert fast and all("space_to_batch" in s.text for s in fast)
    assert {dict(s.variants)["t0 fast"] for s in fast} == {2, 4}
    for number, sketch in enumerate(fast[:: len(fast) // 2]):
        for values in some_configs(program, sketch, 1):
            assert_runs(program, sketch.apply(program, HOST, values), number)


@pytest.mark.parametrize("axis", ["o", "c"])  # the output's, and that of the gradient of the data
def test_filters_that_are_inputs_are_turned_by_squares(axis: str) -> None:
    """Along the last dimension there are three points alone, but nine, or all but the outermost, follow each other."""
    turned = {"o": "w[o, c, r, s]", "c": "w[c, o, 2 - r, 2 - s]"}[axis]
    shape = {"o": (18, 17), "c": (17, 18)}[axis]
    program = body_of(
        parse(f"""\
input x: f32[7, 8, 17]
input w: f32[{shape[0]}, {shape[1]}, 3, 3]
y[p: 5, q: 6, o: 18] = sum[c: 17, r: 3, s: 3](x[p + r, q + s, c] * {turned})
return y""")
    )
    fast = [s for s in derive(program) if "winograd" in s.text]
    assert fast
    for number, sketch in enumerate(fast[:: max(len(fast) // 2, 1)]):
        (values,) = some_configs(program, sketch, 1)
        tree = sketch.apply(program, HOST, values)
        squares = [s for s in tree.stages if s.copies == "x1" and s.scope is Scope.REGISTER]
        assert squares, sketch.text
        assert_runs(program, tree, number)


def test_sums_of_narrow_numbers_are_done_as_they_stand() -> None:
    """Their tolerance has no room for the errors of a fast convolution."""
    text = """
    input x: f16[64, 8, 8]
    input w: f16[32, 64, 3, 3]
    y[o: 32, p: 6, q: 6] = sum[c: 64, r: 3, s: 3](x[c, p + r, q + s] * w[o, c, r, s])
    return y
    """
    lines = "\n".join(line.strip() for line in text.strip().splitlines())
    assert any("winograd" in s.text for s in derive(body_of(parse(lines.replace("f16", "f32")))))
    assert not any("winograd" in s.text for s in derive(body_of(parse(lines))))


def test_the_filter_is_transformed_when_the_kernel_is_made() -> None:
    program = body_of(convolution("nchw"))
    (sketch, *_) = [s for s in derive(program) if "winograd" in s.text]
    config_space = sketch.config_space(program, HOST)
    tree = sketch.apply(program, HOST, config(config_space, config_space.default))
    prepared = prepared_stages(tree)
    assert sum(tree.by_stage[name].copies is None for name in prepared) == 2  # and its gauge
    assert sum(tree.by_stage[name].copies is not None for name in prepared) == 1


def test_coefficients_are_written_out_and_zeros_cost_nothing() -> None:
    text = """
    input x: f32[6, 64]
    table B: f32[2, 3] = [1, 0, 2, 0, 3, 0]
    y[i: 2, j: 64] = sum[k: 3](B[i, k] * x[k, j])
    return y
    """
    program = body_of(parse("\n".join(line.strip() for line in text.strip().splitlines()).replace("[6,", "[3,")))
    assert transform_of(program, program.stages[0]) is not None
    assert kept_transforms(program) == {"t0", "x0"}
    (sketch,) = derive(program)[1:]
    config_space = sketch.config_space(program, HOST)
    tree = sketch.apply(program, HOST, config(config_space, config_space.default))
    assert_runs(program, tree, 0)
    config_space = sketch.config_space(program, AVX512)
    code = emit(loop_ir(sketch.apply(program, AVX512, config(config_space, config_space.default)), AVX512), AVX512, 1)
    body = code[code.index("define internal") if "define internal" in code else 0 :]
    assert body.count("load <16 x float>") == 3
    assert body.count("@llvm.fma.v16f32(") == 3


def test_a_sum_without_a_table_is_no_transform() -> None:
    program = body_of(ops.matmul(8, 8, 8))
    assert all(transform_of(program, stage) is None for stage in program.stages)


def test_few_channels_are_not_worth_a_transform() -> None:
    program = body_of(ops.conv2d(1, 3, 12, 12, 32, padding=1, constants=("W",)))
    assert not any("winograd" in sketch.text for sketch in derive(program))
