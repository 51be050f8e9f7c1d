"""Long sums are added up in blocks: their errors, and that every schedule and size is right with them."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.pipeline.candidates import complaint, random_config, run
from tilesmith.codegen.lower import blocked_sums as lower_apart
from tilesmith.codegen.pipeline import build
from tilesmith.schedules.schedule import Schedule, trace
from tilesmith.schedules.sketch import UNSCHEDULED
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor import ops
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.parse import parse

HOST = parse_target("host")


def rms(program: Program, inputs: list[np.ndarray], truth: np.ndarray, number: int) -> float:
    """The error of some strict candidate, which has the whole sum in one place; 0: of the unscheduled nest."""
    task = Task.of(program, HOST, 1, "strict")
    sketch = task.sketches[number]
    values = {} if sketch is UNSCHEDULED else random_config(task, sketch, np.random.default_rng(0))
    assert values is not None
    (found,) = run(build(task.program, sketch, values, HOST, 1), task, inputs, at_end=True)
    return float(np.sqrt(np.mean((found - truth) ** 2)))


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_convolution_of_512_channels_errs_as_little_as_others(number: int) -> None:
    """One chain of 4,608 terms has 7e-5."""
    rng = np.random.default_rng(3)
    image, weights = (rng.standard_normal(shape).astype(np.float32) for shape in ((1, 512, 7, 7), (16, 512, 3, 3)))
    padded = np.pad(image[0].astype(np.float64), ((0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    truth = np.einsum("chwrs,ocrs->ohw", windows, weights.astype(np.float64), optimize=True)[None]
    program = ops.conv2d(1, 512, 7, 7, 16, kernel=3, padding=1)
    assert rms(program, [image, weights], truth, number) <= 2e-5


@pytest.mark.parametrize("number", [0, 1, 3])
def test_a_product_of_a_long_depth(number: int) -> None:
    rng = np.random.default_rng(4)
    left, right = (rng.standard_normal(shape).astype(np.float32) for shape in ((16, 4608), (4608, 32)))
    truth = left.astype(np.float64) @ right
    assert rms(ops.matmul(16, 32, 4608), [left, right], truth, number) <= 2.5e-5


@pytest.mark.parametrize("number", [0, 1])
def test_a_sum_of_a_million(number: int) -> None:
    data = np.random.default_rng(5).random((2, 1 << 20)).astype(np.float32)
    truth = data.astype(np.float64).sum(1)
    assert rms(ops.row_sum(2, 1 << 20), [data], truth, number) <= 4e-6 * truth.mean()


PROGRAMS = {
    "product": ops.matmul(13, 35, 29),
    "product with an epilogue": ops.matmul_bias_relu(9, 21, 19),
    "convolution": ops.conv2d(1, 5, 7, 6, 18, kernel=3, padding=1),
    "pooling": ops.avg_pool2d(1, 3, 9, 9, kernel=3),
    "rows": ops.row_sum(5, 77),
    "columns": ops.column_sum(23, 37),
    "causal": parse("""
        input x: f32[19, 40]
        y[i: 19, j: 40] = sum[k: 19](select(k <= i, x[k, j], 0))
        return y
        """),
    "norm": ops.layer_norm(7, 45),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_blocks_of_any_size_are_right(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums of a few terms are cut as if they were long."""
    rng = np.random.default_rng(6)
    task = Task.of(PROGRAMS[name], HOST, 2, "strict")
    for number, sketch in enumerate(task.sketches[: 2 + 2 * (len(task.sketches) > 4)]):
        longest, block = ((1, 1), (2, 3), (5, 7), (8, 16))[number]
        monkeypatch.setattr(lower_apart, "LONGEST", longest)
        monkeypatch.setattr(lower_apart, "BLOCK", block)
        values = {} if sketch is UNSCHEDULED else random_config(task, sketch, rng)
        assert values is not None
        assert complaint(task, sketch, values, number) is None, f"{sketch.title} {values}"


def test_short_sums_and_other_reductions_stay_in_one_piece() -> None:
    def loops(program: Program) -> str:
        return build(Task.of(program, HOST, 1).program, UNSCHEDULED, {}, HOST, 1, texts=True).texts["loops"]

    assert "sums" in loops(ops.row_sum(2, lower_apart.LONGEST + 1))
    assert "sums" not in loops(ops.row_sum(2, lower_apart.LONGEST))
    assert "sums" not in loops(parse("input x: f32[2, 4000]\ny[i: 2] = max[j: 4000](x[i, j])\nreturn y\n"))
    assert "sums" not in loops(parse("input x: i32[2, 4000]\ny[i: 2] = sum[j: 4000](x[i, j])\nreturn y\n"))


def by_threes(s: Schedule) -> None:
    c = s.stage("t0")
    (i, j), (k,) = c.axes, c.reduction
    outer, inner = s.split(k, 3)
    s.reorder(i, outer, inner, j)
    s.vectorize(j)


def test_trips_beyond_the_end_of_an_axis_are_no_terms_and_blocks_are_equal() -> None:
    """1,024 is no multiple of three: a loop over threes runs 1,026 times."""

    def loops(depth: int) -> str:
        task = Task.of(ops.matmul(8, 16, depth), HOST, 1)
        (sketch,) = trace(by_threes, task.program)
        return build(task.program, sketch, {}, HOST, 1, texts=True).texts["loops"]

    assert "sums" not in loops(lower_apart.LONGEST)
    assert "min(258, " in loops(lower_apart.LONGEST + 3)
