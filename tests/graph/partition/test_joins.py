"""What is put side by side is written there by those that compute it, where it lies in the order of memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import tilesmith as ts
from helpers.graph.cut import Builds, parted
from tilesmith.codegen.rows import PitchedRows
from tilesmith.graph.partition.partition import partition
from tilesmith.graph.place import TensorPlace
from tilesmith.runtime.kernel import Kernel
from tilesmith.tensor.oracle.random_inputs import random_inputs
from tilesmith.tensor.oracle.reference import bounded
from tilesmith.tensor.program import Program

PICKED = Builds(2, analytic=True)


def dense(layers: int, outer: int = 1, width: int = 16) -> Program:
    """Each layer reads all that were computed before, side by side along the second axis."""
    lines = [f"input x: f32[{outer}, {width}, 24]"]
    names = ["s"]
    lines.append(f"s[n: {outer}, c: {width}, i: 24] = max[k: 3](x[n, c, max(0, i - k)])")
    for layer in range(layers):
        body = names[-1] + f"[n, c - {width * (len(names) - 1)}, i]"
        for place in range(len(names) - 2, -1, -1):
            part = f"{names[place]}[n, c - {width * place}, i]" if place else "s[n, c, i]"
            body = f"select(c < {width * (place + 1)}, {part}, {body})"
        if len(names) == 1:
            body = "s[n, c, i]"
        lines.append(f"j{layer}[n: {outer}, c: {width * len(names)}, i: 24] = {body}")
        read = f"j{layer}[n, c, i]"
        lines.append(f"r{layer}[n: {outer}, c: {width * len(names)}, i: 24] = tanh({read}) * max({read}, 0.25)")
        lines.append(f"p{layer}[n: {outer}, c: {width}, i: 24] = max[k: {width * len(names)}](r{layer}[n, k, i])")
        names.append(f"p{layer}")
    lines.append(f"y[n: {outer}, c: {width}, i: 24] = p{layers - 1}[n, c, i] * 2")
    return ts.parse("\n".join([*lines, "return y"]))


def is_right(program: Program) -> bool:
    inputs = random_inputs(program, 3)
    count = len(program.dynamic_inputs)
    got = Kernel(parted(program, PICKED), inputs[count:])(*inputs[:count])
    got = got if isinstance(got, tuple) else (got,)
    return all(
        (np.abs(a.astype(np.float64) - want) <= tolerance).all()
        for a, (want, tolerance) in zip(got, bounded(program, inputs), strict=True)
    )


def test_joins_of_a_dense_block_are_the_beginning_of_one() -> None:
    program = dense(5)
    found = partition(program)
    assert {name: place for name, place in found.inside.items() if name[0] == "p"} == {
        f"p{n}": TensorPlace("j4", 16 * 24 * (n + 1)) for n in range(4)
    }
    assert {name: place for name, place in found.inside.items() if name[0] == "j"} == {
        f"j{n}": TensorPlace("j4") for n in (1, 2, 3)
    }
    assert not {"j1", "j2", "j3", "j4"} & {stage.name for kernel in found.kernels for stage in kernel.stages}
    assert is_right(program)


def test_rows_that_are_stacked_lie_where_they_are_put() -> None:
    rows = [f"p{n}[j: 32] = max[k: 5](x[{n}, j, k])" for n in range(4)]
    stacked = "s[i: 4, j: 32] = select(i < 2, select(i < 1, p0[j], p1[j]), select(i < 3, p2[j], p3[j]))"
    last = "y[i: 4] = max[j: 32](s[i, j] * s[3 - i, j])"
    program = ts.parse("\n".join(["input x: f32[4, 32, 5]", *rows, stacked, last, "return y"]))
    found = partition(program)
    assert found.inside == {f"p{n}": TensorPlace("s", 32 * n) for n in range(4)}
    assert len(found.kernels) == 5
    assert is_right(program)


def test_states_that_the_next_step_reads_too_lie_where_they_are_put() -> None:
    lines = ["input x: f32[4, 32]", "constant w: f32[32, 32]", "constant v: f32[32, 24]", "h0[j: 32] = tanh(x[0, j])"]
    for n in range(1, 4):
        lines.append(f"d{n}[j: 32] = sum[k: 32](h{n - 1}[k] * w[k, j])")
        lines.append(f"h{n}[j: 32] = tanh(d{n}[j] + d{n}[31 - j] * x[{n}, j])")
    stacked = "s[i: 4, j: 32] = select(i < 2, select(i < 1, h0[j], h1[j]), select(i < 3, h2[j], h3[j]))"
    last = "y[i: 4, m: 24] = sum[j: 32](s[i, j] * v[j, m])"
    program = ts.parse("\n".join([*lines, stacked, last, "return y"]))
    found = partition(program)
    assert found.inside == {f"h{n}": TensorPlace("s", 32 * n) for n in range(4)}
    assert "s" not in {stage.name for kernel in found.kernels for stage in kernel.stages}
    assert is_right(program)


def test_parts_of_several_images_of_which_a_kernel_makes_one_axis() -> None:
    """What makes `s` sees one axis of all images and channels, in the middle of which rows would begin."""
    program = dense(3, outer=2)
    assert partition(program).inside == {}
    assert is_right(program)


def channels_inside(parts: str, width: int = 16, before: Sequence[str] = ()) -> Program:
    """Two parts side by side along the innermost axis, where a window and a product read them."""
    lines = [
        *before,
        f"input x: f32[5, 6, {width}]",
        f"constant w: f32[{width}, {width}]",
        f"constant v: f32[{2 * width}, 24]",
    ]
    lines += parts.replace("WIDTH", str(width)).strip().splitlines()
    joined = f"select(c < {width}, a[i, j, c], b[i, j, c - {width}])"
    lines.append(f"s[i: 5, j: 6, c: {2 * width}] = {joined}")
    lines.append(f"y[i: 5, j: 6, o: 24] = sum[c: {2 * width}](s[i, j, c] * v[c, o])")
    lines.append(f"z[i: 4, j: 6, c: {2 * width}] = max[r: 2](s[i + r, j, c])")
    return ts.parse("\n".join([*lines, "return y, z"]))


PRODUCTS = """
a[i: 5, j: 6, c: WIDTH] = sum[k: WIDTH](x[i, j, k] * w[k, c])
b[i: 5, j: 6, c: WIDTH] = sum[k: WIDTH](x[i, j, k] * w[c, k])
"""


def test_channels_side_by_side_lie_in_rows() -> None:
    program = channels_inside(PRODUCTS)
    found = partition(program)
    assert found.inside == {
        "a": TensorPlace("s", 0, PitchedRows(16, 32)),
        "b": TensorPlace("s", 16, PitchedRows(16, 32)),
    }
    assert "s" not in {stage.name for kernel in found.kernels for stage in kernel.stages}
    assert is_right(program)


def test_a_dense_block_lies_in_rows() -> None:
    lines = [
        "input x: f32[5, 6, 16]",
        "constant u: f32[16, 16]",
        "s[i: 5, j: 6, c: 16] = sum[k: 16](x[i, j, k] * u[k, c])",
    ]
    for layer, width in enumerate((16, 32, 48)):
        parts = [f"p{n}[i, j, c - {16 * n + 16}]" for n in range(layer)]
        body = parts.pop() if parts else "s[i, j, c]"
        for n, part in reversed([*enumerate(["s[i, j, c]", *parts], 1)] if layer else []):
            body = f"select(c < {16 * n}, {part}, {body})"
        lines.append(f"j{layer}[i: 5, j: 6, c: {width}] = {body}")
        lines.append(f"constant w{layer}: f32[{width}, 16]")
        lines.append(f"p{layer}[i: 5, j: 6, o: 16] = sum[c: {width}](j{layer}[i, j, c] * w{layer}[c, o])")
    program = ts.parse("\n".join([*lines, "y[i: 5, j: 6, o: 16] = p2[i, j, 15 - o]", "return y"]))
    found = partition(program)
    assert found.inside == {
        "s": TensorPlace("j2", 0, PitchedRows(16, 48)),
        "p0": TensorPlace("j2", 16, PitchedRows(16, 48)),
        "p1": TensorPlace("j2", 32, PitchedRows(16, 48)),
        "j1": TensorPlace("j2", 0, PitchedRows(32, 48)),
    }
    assert is_right(program)


def test_rows_that_no_kernel_could_tell_apart_are_none() -> None:
    """What makes `a` sees one axis of all points and channels."""
    sums = "a[i: 5, j: 6, c: WIDTH] = max[k: 3](u[k, i, j, c])\nb[i: 5, j: 6, c: WIDTH] = sum[k: WIDTH](x[i, j, k] * w[c, k])"
    program = channels_inside(sums, before=["input u: f32[3, 5, 6, 16]"])
    assert partition(program).inside == {}
    assert is_right(program)


@pytest.mark.parametrize("width", [3, 12])
def test_rows_that_begin_at_no_line_are_none(width: int) -> None:
    program = channels_inside(PRODUCTS, width)
    assert partition(program).inside == {}
    assert is_right(program)


def test_a_part_that_does_not_begin_at_a_line_is_no_part() -> None:
    program = dense(3, width=3)
    assert all(place.start % 16 == 0 for place in partition(program).inside.values())
    assert is_right(program)


HALVES = {"a": TensorPlace("c"), "b": TensorPlace("c", 32)}
PAIR = """
input x: f32[32, 16]
a[i: 32] = sum[k: 16](x[i, k])
b[i: 32] = max[k: 16](x[i, k])
c[i: 64] = select(i < 32, a[i], b[i - 32])
d[i: 64] = exp(c[i])
e[i: 64] = c[63 - i] + d[i]
"""


@pytest.mark.parametrize(
    ("lines", "inside"),
    [
        ("return e", {"a": TensorPlace("c"), "b": TensorPlace("c", 32)}),
        ("return e, c", {}),
        ("return e, a", {}),
        (
            "f[i: 64] = select(i >= 32, a[i - 32], b[i])\nreturn e, f",
            {"a": TensorPlace("c"), "b": TensorPlace("c", 32)},
        ),
        ("f[i: 64] = select(i >= 32, a[i - 32], b[i])\ng[i: 64] = f[i] + exp(f[63 - i])\nreturn e, g", None),
        (
            "f[i: 64] = select(i < 31, a[i], b[max(0, i - 32)])\nreturn e",
            {"a": TensorPlace("c"), "b": TensorPlace("c", 32)},
        ),
        (
            "v[j: 8, i: 8] = c[j * 8 + i]\nw[i: 8] = sum[j: 8](v[j, i])\nreturn e, w",
            {"a": TensorPlace("c"), "b": TensorPlace("c", 32)},
        ),
        (
            "h[i: 32] = sum[k: 16](x[i, k] * x[i, k])\nf[i: 96] = select(i < 32, h[i], c[i - 32])\n"
            "g[i: 96] = f[95 - i] * f[i]\nreturn e, g",
            {"a": TensorPlace("f", 32), "b": TensorPlace("f", 64), "c": TensorPlace("f", 32), "h": TensorPlace("f")},
        ),
        (
            "h[i: 32] = sum[k: 16](x[i, k] * x[i, k])\nf[i: 96] = select(i < 64, c[i], h[i - 64])\n"
            "g[i: 96] = f[95 - i] * f[i]\nreturn e, g",
            {"a": TensorPlace("f"), "b": TensorPlace("f", 32), "c": TensorPlace("f"), "h": TensorPlace("f", 64)},
        ),
    ],
)
def test_what_lies_in_what(lines: str, inside: dict[str, TensorPlace] | None) -> None:
    program = ts.parse(PAIR.strip() + "\n" + lines)
    assert inside is None or partition(program).inside == inside
    assert is_right(program)
