"""The rule of terms that are left out: windows that reach beyond an image at all points, and points under a window."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.emission.loops import HOST
from helpers.pipeline.candidates import complaint, random_config
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor import ops
from tilesmith.tensor.program import Program


def reaching(**changed: object) -> Program:
    """A convolution that sees the middle of its window alone."""
    sizes = {"n": 1, "c": 24, "h": 7, "w": 6, "o": 40, "kernel": 3, "padding": 9, "dilation": 9}
    return ops.build_operator("conv2d", {**sizes, **changed}, constants=["W"])


def point(**changed: object) -> Program:
    """A transposed convolution of images of one point."""
    sizes = {"n": 3, "c": 20, "h": 1, "w": 1, "o": 24, "kernel": 4, "padding": 0}
    return ops.build_operator("conv_transpose2d", {**sizes, **changed})


def assert_right(program: Program, rewrite: str) -> None:
    """Some kernels of sketches with a rewrite compute what the program says."""
    task, rng = Task.of(program, HOST, 2), np.random.default_rng(0)
    found = [sketch for sketch in task.sketches if f"rewrite({rewrite})" in sketch.text]
    assert found
    for sketch in found[:3]:
        values = random_config(task, sketch, rng)
        assert values is not None
        assert complaint(task, sketch, values, 1) is None, f"{sketch.title} {values}"


@pytest.mark.parametrize("target", ["x86:avx2", "aarch64:neon", "cuda:sm_90a"])
def test_sketches_leave_terms_out_unless_they_are_strict(target: str) -> None:
    for accuracy in ("default", "strict"):
        default, *sketches = Task.of(reaching(), parse_target(target), 1, accuracy).sketches
        assert sketches and "rewrite" not in default.text
        assert all(("rewrite(trim_reductions)" in one.text) == (accuracy == "default") for one in sketches)


def test_what_sees_one_place_is_a_product_of_matrices() -> None:
    """One that sees more is scheduled as a window, or made one without gaps."""
    avx2 = parse_target("x86:avx2")
    for dilation, windows in ((9, False), (5, True)):
        _, *sketches = Task.of(reaching(dilation=dilation, padding=dilation), avx2, 1).sketches
        found = ["windows innermost" in one.title or "space_to_batch" in one.text for one in sketches]
        assert found == [windows] * len(sketches)


@pytest.mark.parametrize(
    "changed",
    [
        {}, {"groups": 4}, {"layout": "nhwc"}, {"dilation": 6, "padding": 6}, {"dtype": "bf16"}, {"dtype": "i8"},
        {"stride": 2}, {"w": 12}, {"padding": 11}, {"kernel": (3, 1), "padding": (9, 0)},
    ],
    ids=str,
)  # fmt: skip
def test_kernels_are_right(changed: dict[str, object]) -> None:
    assert_right(reaching(**changed), "trim_reductions")


@pytest.mark.parametrize("target", ["x86:avx2", "aarch64:neon", "cuda:sm_90a"])
def test_a_point_under_a_window_is_a_product_unless_it_is_strict(target: str) -> None:
    for accuracy in ("default", "strict"):
        _, *sketches = Task.of(point(), parse_target(target), 1, accuracy).sketches
        assert sketches
        assert all(("rewrite(pin_reductions)" in one.text) == (accuracy == "default") for one in sketches)


@pytest.mark.parametrize("changed", [{}, {"kernel": (5, 2)}, {"padding": 1}, {"n": 9}, {"dtype": "bf16"}], ids=str)
def test_products_of_points_are_right(changed: dict[str, object]) -> None:
    assert_right(point(**changed), "pin_reductions")
