"""Every rewrite against the original by the oracle, ragged sizes included."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.random_programs import programs
from helpers.rewritten import agree
from tilesmith.common.errors import ProgramError
from tilesmith.tensor import ops
from tilesmith.tensor.dtype import DType, f32, f64
from tilesmith.tensor.oracle.random_inputs import random_inputs
from tilesmith.tensor.oracle.reference import evaluate, tolerances
from tilesmith.tensor.program import Input, Program
from tilesmith.tensor.rewrites.fast_windows.toom_cook import POINTS, strided, toom_cook
from tilesmith.tensor.rewrites.registry import (
    REWRITES,
    apply_rewrite,
    block_softmax,
    im2col,
    merge_axes,
    normalise,
    online_softmax,
    pad_axis,
    split_k,
    winograd,
)
from tilesmith.tensor.text.parse import parse

# merge_axes


def test_merging_makes_a_plain_product_of_a_batch_with_one_matrix() -> None:
    program = parse(
        "input A: f32[3, 4, 5]\ninput B: f32[5, 6]\nC[b: 3, i: 4, j: 6] = sum[k: 5](A[b, i, k] * B[k, j])\nreturn C"
    )
    merged = merge_axes(program, "C", ["b", "i"])
    agree(program, merged)
    assert "C[b_i: 12, j: 6] = sum[k: 5](A[b_i, k] * B[k, j])" in str(merged)


def test_merging_what_is_read_apart_leaves_divisions_only_there() -> None:
    program = ops.conv2d(2, 3, 7, 6, 4, padding=1)
    merged = merge_axes(merge_axes(program, "y", ["p", "q"]), "y", ["c", "r", "s"])
    agree(program, merged)
    text = str(merged)
    assert "input W: f32[4, 27]" in text
    assert "W[o, c_r_s]" in text
    assert "y[n: 2, o: 4, p_q: 42] = sum[c_r_s: 27]" in text


def test_readers_of_a_merged_tensor_follow() -> None:
    program = ops.matmul_bias_relu(5, 6, 7)
    merged = merge_axes(program, "C", ["i", "j"])
    agree(program, merged)
    assert "C[" in str(merged)
    both = merge_axes(merged, "D", ["i", "j"])
    agree(program, both)
    assert "max(C[i_j] + bias[i_j % 6], 0)" in str(both)


def test_merging_the_axes_of_a_fold() -> None:
    program = online_softmax(ops.softmax(6, 5), "out_max")
    text = str(program).replace("f32[6, 5]", "f32[2, 3, 5]").replace("[i0: 6", "[b: 2, i0: 3")
    for name in ("x[i0", "out_exp[i0", "[i0"):
        text = text.replace(name, name.replace("i0", "b, i0"))
    three = parse(text.replace("[b, b, ", "[b, "))
    merged = merge_axes(three, "out_max", ["b", "i0"])
    agree(three, merged)


@settings(max_examples=60, deadline=None)
@given(programs(), st.data())
def test_any_neighbours_may_be_merged(program: Program, data: st.DataObject) -> None:
    stage = data.draw(st.sampled_from(program.stages))
    groups = [g for g in (stage.axes, stage.reduction) if len(g) > 1]
    if not groups:
        return
    group = data.draw(st.sampled_from(groups))
    start = data.draw(st.integers(0, len(group) - 2))
    end = data.draw(st.integers(start + 2, len(group)))
    agree(program, merge_axes(program, stage.name, [a.name for a in group[start:end]]), 1e-9)


def test_a_guard_follows_an_input_whose_dimensions_are_merged() -> None:
    program = parse(
        "input x: f32[1, 2]\nt[i: 3, j: 2] = select(i - 1 >= 0 and i - 1 < 1, x[i - 1, j], 0)\n"
        "u[i: 3, j: 2] = t[i, j]\nreturn u"
    )
    merged = merge_axes(program, "t", ["i", "j"])
    agree(program, merged)
    assert "x[i_j - 2]" in str(merged)


# pad_axis and split_k


@settings(max_examples=60, deadline=None)
@given(programs(), st.data(), st.integers(1, 16))
def test_any_axis_may_be_padded(program: Program, data: st.DataObject, multiple: int) -> None:
    stage = data.draw(st.sampled_from(program.stages))
    if not stage.all_axes:
        return
    axis = data.draw(st.sampled_from(stage.all_axes))
    padded = pad_axis(program, stage.name, axis.name, multiple)
    agree(program, padded)
    extents = [a.extent for s in padded.stages for a in s.all_axes if a.name == axis.name]
    assert any(extent % multiple == 0 for extent in extents)


def test_padding_an_output_copies_what_is_wanted() -> None:
    program = ops.matmul(5, 7, 3)
    padded = pad_axis(program, "C", "j", 4)
    agree(program, padded)
    assert [s.name for s in padded.stages] == ["C_padded", "C"]
    assert padded.tensors["C_padded"].shape == (5, 8)
    assert pad_axis(program, "C", "i", 5) == program


def test_padding_keeps_infinities_out() -> None:
    program = parse("input x: f32[5]\ny[] = max[i: 5](x[i])\nz[] = prod[i: 5](x[i])\nreturn y, z")
    padded = pad_axis(pad_axis(program, "y", "i", 8), "z", "i", 8)
    values = -np.arange(1, 6, dtype=np.float32)
    assert [float(v) for v in evaluate(padded, (values,))] == [-1.0, -120.0]


@settings(max_examples=60, deadline=None)
@given(programs(kinds=("reduction", "matmul")), st.data(), st.integers(1, 9))
def test_any_reduction_may_be_split(program: Program, data: st.DataObject, parts: int) -> None:
    reductions = [stage for stage in program.stages if stage.reduction]
    if not reductions:
        return
    stage = data.draw(st.sampled_from(reductions))
    axis = data.draw(st.sampled_from(stage.reduction))
    agree(program, split_k(program, stage.name, axis.name, parts), 1e-9)


def test_split_k_by_the_text() -> None:
    split = split_k(ops.matmul(4, 5, 10), "C", "k", 4)
    assert "C_partial[k_part: 4, i: 4, j: 5] = sum[k: 3](select(k + k_part * 3 < 10" in str(split)
    assert "C[i: 4, j: 5] = sum[k_part: 4](C_partial[k_part, i, j])" in str(split)
    assert "select" not in str(split_k(ops.matmul(4, 5, 12), "C", "k", 4))


# im2col and winograd


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize(("stride", "padding", "kernel"), [(1, 1, 3), (2, 0, 3), (2, 2, 5), (1, 0, 1)])
def test_im2col(stride: int, padding: int, kernel: int, layout: str) -> None:
    program = ops.conv2d(2, 3, 9, 8, 5, kernel=kernel, stride=stride, padding=padding, layout=layout)
    rewritten = im2col(program, "y", "X")
    agree(program, rewritten)
    assert rewritten.stages[0].name == "X_columns"
    assert "y[" in str(rewritten)
    assert "select" not in str(rewritten.stages[1].bodies[0])


def test_implicit_gemm_is_a_matrix_product() -> None:
    program = normalise(ops.conv2d(1, 3, 9, 8, 5, padding=1, kernel=(3, 2)))
    order = [a.name for a in program.stages[0].reduction]
    merged = im2col(merge_axes(merge_axes(program, "y", ["p", "q"]), "y", order), "y", "X")
    agree(program, merged)
    assert order == ["c", "r", "s"]
    assert "W[o, c_r_s]" in str(merged)
    last = merged.stages[1]
    assert len(last.axes) == 2
    assert len(last.reduction) == 1


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("tile", [2, 4])
@pytest.mark.parametrize(("h", "w", "padding"), [(8, 8, 1), (7, 9, 1), (8, 10, 0), (5, 6, 2), (3, 3, 0)])
def test_winograd(tile: int, h: int, w: int, padding: int, stride: int) -> None:
    program = ops.conv2d(2, 3, h, w, 5, padding=padding, dtype="f64", stride=stride)
    rewritten = winograd(program, "y", "p", "q", tile=tile)
    agree(program, rewritten, 1e-10)
    kinds = (
        "columns",
        "data",
        "filter",
        "products",
        "size",
        "seen",
        "most",
        "least",
        "spread",
        "gauge",
        "half",
        "fast",
        "exact",
    )
    assert [s.name for s in rewritten.stages] == [*(f"y_{kind}" for kind in kinds), "y_checked", "y"]
    columns, data, filters, products = rewritten.stages[:4]
    half, fast = rewritten.stage("y_half"), rewritten.stage("y_fast")
    assert all(s.combiner == "sum" for s in (columns, data, filters, products, half, fast))
    points = stride * tile + 3 - stride
    assert [s.reduction[0].extent for s in (half, fast)] == [points, points]  # one direction each
    assert [a.extent for a in products.axes[:2]] == [points, points]
    p, q = ((size + 2 * padding - 3) // stride + 1 for size in (h, w))
    assert products.axes[3].extent == -(-p // tile) * -(-q // tile)


@pytest.mark.parametrize("tile", [2, 4])
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_winograd_in_halves(layout: str, tile: int) -> None:
    """The filter goes through one direction after the other, and all else is as it is without."""
    program = ops.conv2d(2, 3, 7, 9, 5, padding=1, dtype="f64", layout=layout)
    at_once, halves = (winograd(program, "y", "p", "q", tile=tile, halves=one) for one in (False, True))
    agree(program, halves, 1e-10)
    assert [s.name for s in halves.stages if s.name != "y_filter_half"] == [s.name for s in at_once.stages]
    half, whole = halves.stage("y_filter_half"), halves.stage("y_filter")
    assert [[axis.extent for axis in stage.axes] for stage in (half, whole)] == [
        [3, tile + 2, 3, 5],
        [3, tile + 2, tile + 2, 5],
    ]
    assert [axis.extent for axis in (*half.reduction, *whole.reduction)] == [3, 3]
    assert {stage.name for stage in halves.stages if stage not in at_once.stages} == {
        "y_filter_half", "y_filter", "y_products",
    }  # fmt: skip


@pytest.mark.parametrize("outputs", POINTS)
@pytest.mark.parametrize(("count", "stride"), [(3, 1), (3, 2), (2, 2), (3, 3), (1, 1)])
def test_fast_filters_are_exact_in_fractions(outputs: int, count: int, stride: int) -> None:
    made = strided(POINTS[outputs], outputs, count, stride)
    size = stride * (outputs - 1) + count
    data = [Fraction(k * k + 1, 3) for k in range(size)]
    taps = [Fraction(2, 5), Fraction(-7), Fraction(1, 9)][:count]
    spread = [sum(a * b for a, b in zip(row, taps, strict=True)) for row in made.filter]
    moved = [sum(a * b for a, b in zip(row, data, strict=True)) for row in made.data]
    found = [sum(a * b * c for a, b, c in zip(row, spread, moved, strict=True)) for row in made.result]
    assert found == [sum(data[stride * i + k] * taps[k] for k in range(count)) for i in range(outputs)]
    assert len(made.data) == len(made.filter) == len(made.result[0]) == size
    if stride == 1 and count == 3:
        assert made == toom_cook(POINTS[outputs], outputs, count)


def test_fast_filters_need_different_points() -> None:
    with pytest.raises(ValueError, match="3 different points"):
        toom_cook([Fraction(0), Fraction(1), Fraction(1)], 2, 3)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("tile", [2, 4])
@pytest.mark.parametrize(("dtype", "channels"), [(f32, 16), (f32, 64), (f32, 512), (f64, 64)])
def test_winograd_errs_within_the_tolerance_of_its_dtype(tile: int, dtype: DType, channels: int, stride: int) -> None:
    """At the worst point of an image of many channels, corners included."""
    size = 10 * stride
    program = ops.conv2d(1, channels, size, size, 8, padding=1, dtype=dtype.name, stride=stride)
    inputs = random_inputs(program, 5)
    (truth,), (scale,) = evaluate(program, inputs), evaluate(program, inputs, absolute=True)
    made = winograd(program, "y", "p", "q", tile=tile)
    values: dict[str, np.ndarray] = {
        item.tensor.name: array for item, array in zip(program.inputs, inputs, strict=True)
    }
    for stage in made.stages:  # each stage rounded to the dtype, as a kernel does
        read = {r.tensor for r in stage.reads() if r.tensor in values}
        alone = Program(
            tuple(Input(made.tensors[name]) for name in sorted(read)),
            (stage,),
            (stage.name,),
            tuple(t for t in made.tables if t.tensor.name in {r.tensor for r in stage.reads()}),
        )
        values[stage.name] = evaluate(alone, [values[name] for name in sorted(read)])[0].astype(dtype.numpy)
    assert np.all(np.abs(values["y"] - truth) <= tolerances(scale, dtype))


def test_winograd_of_other_layouts_and_names() -> None:
    nhwc = ops.conv2d(2, 3, 7, 6, 5, padding=1, layout="nhwc")
    agree(nhwc, winograd(nhwc, "y", "p", "q", tile=4), 1e-6)
    depthwise = ops.conv2d(2, 4, 7, 6, 4, padding=1, groups=4)
    agree(depthwise, winograd(depthwise, "y", "p", "q"), 1e-6)
    normal = normalise(ops.conv2d(1, 3, 8, 8, 5, padding=1))
    agree(normal, winograd(normal, "y", "p", "q"), 1e-6)
    steps = ops.conv2d(2, 3, 9, 12, 5, padding=1, layout="nhwc", stride=2)
    agree(steps, winograd(steps, "y", "p", "q", tile=4), 1e-6)


# refusals

CONV = ops.conv2d(1, 3, 8, 8, 4, padding=1)
REFUSED: list[tuple[Callable[[], Program], str]] = [
    (lambda: apply_rewrite(CONV, "winogrand", {}), "unknown rewrite"),
    (lambda: apply_rewrite(CONV, "split_k", {"stage": "y"}), "missing a required argument"),
    (lambda: split_k(CONV, "z", "c", 2), "no stage defines 'z'"),
    (lambda: split_k(CONV, "y", "z", 2), "no axis is called 'z'"),
    (lambda: split_k(CONV, "y", "p", 2), "cannot be split"),
    (lambda: split_k(CONV, "y", "c", 0), "cannot be split"),
    (lambda: pad_axis(CONV, "y", "c", 0), "cannot be padded"),
    (lambda: merge_axes(CONV, "y", ["o"]), "cannot be merged"),
    (lambda: merge_axes(CONV, "y", ["o", "q"]), "cannot be merged"),
    (lambda: merge_axes(CONV, "y", ["q", "c"]), "cannot be merged"),
    (lambda: im2col(CONV, "y", "v"), "no factor of the product reads 'v'"),
    (lambda: im2col(ops.row_max(3, 4), "out", "x"), "needs a sum of products"),
    (lambda: im2col(ops.row_sum(3, 4), "out", "x"), "use every axis"),
    (lambda: winograd(ops.conv2d(1, 3, 9, 9, 4, stride=3), "y", "p", "q"), "no 3x3 convolution"),
    (lambda: winograd(ops.conv2d(1, 3, 9, 9, 4, stride=(1, 2)), "y", "p", "q"), "one stride in both directions"),
    (lambda: winograd(ops.conv2d(1, 3, 9, 9, 4, dilation=2), "y", "p", "q"), "no 3x3 convolution"),
    (lambda: winograd(ops.conv2d(1, 3, 9, 9, 4, kernel=5), "y", "p", "q"), "no 3x3 convolution"),
    (lambda: winograd(ops.matmul(3, 4, 3), "C", "i", "j"), "no 3x3 convolution"),
    (lambda: winograd(CONV, "y", "p", "q", tile=3), "unknown tile"),
    (lambda: winograd(ops.conv2d(1, 3, 8, 8, 4, dtype="i32"), "y", "p", "q"), "no 3x3 convolution"),
    (lambda: online_softmax(ops.row_max(3, 4), "out"), "no stage sums"),
    (lambda: online_softmax(ops.row_sum(3, 4), "out"), "is no maximum"),
    (lambda: block_softmax(ops.row_sum(3, 4), "out", 2), "is no maximum"),
    (lambda: block_softmax(ops.softmax(3, 4), "out_max", 2), "no weighted sum follows"),
    (lambda: block_softmax(ops.attention(1, 3, 4, 2), "P_max", 3), "does not divide"),
]


@pytest.mark.parametrize(("make", "problem"), REFUSED, ids=[f"{p[:20]}{n}" for n, (_, p) in enumerate(REFUSED)])
def test_what_does_not_apply_is_refused(make: Callable[[], Program], problem: str) -> None:
    with pytest.raises(ProgramError, match=problem):
        make()


def test_rewrites_apply_by_name() -> None:
    program = ops.matmul(4, 5, 10)
    made = apply_rewrite(program, "split_k", {"stage": "C", "axis": "k", "parts": 2})
    assert made == split_k(program, "C", "k", 2)
    assert {"merge_axes", "pad_axis", "split_k", "im2col", "winograd", "online_softmax"} <= set(REWRITES)
