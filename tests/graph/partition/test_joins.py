"""What is put side by side is written there by those that compute it, where it lies in the order of memory."""

from __future__ import annotations

import numpy as np
import pytest

import tilesmith as ts
from helpers.graph.cut import Builds
from tilesmith.codegen.artifact import Artifact
from tilesmith.graph.executor.compose import compose
from tilesmith.graph.partition.partition import partition
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


def made(program: Program) -> Artifact:
    found = partition(program)
    return compose(
        found.program, found.kernels, [PICKED(kernel) for kernel in found.kernels], found.aliases, found.inside
    )


def is_right(program: Program) -> bool:
    inputs = random_inputs(program, 3)
    count = len(program.dynamic_inputs)
    got = Kernel(made(program), inputs[count:])(*inputs[:count])
    got = got if isinstance(got, tuple) else (got,)
    return all(
        (np.abs(a.astype(np.float64) - want) <= tolerance).all()
        for a, (want, tolerance) in zip(got, bounded(program, inputs), strict=True)
    )


def test_joins_of_a_dense_block_are_the_beginning_of_one() -> None:
    program = dense(5)
    found = partition(program)
    assert {name: place for name, place in found.inside.items() if name[0] == "p"} == {
        f"p{n}": ("j4", 64 * 24 * (n + 1)) for n in range(4)
    }
    assert {name: place for name, place in found.inside.items() if name[0] == "j"} == {
        f"j{n}": ("j4", 0) for n in (1, 2, 3)
    }
    assert not {"j1", "j2", "j3", "j4"} & {stage.name for kernel in found.kernels for stage in kernel.stages}
    assert is_right(program)


def test_rows_that_are_stacked_lie_where_they_are_put() -> None:
    rows = [f"p{n}[j: 32] = max[k: 5](x[{n}, j, k])" for n in range(4)]
    stacked = "s[i: 4, j: 32] = select(i < 2, select(i < 1, p0[j], p1[j]), select(i < 3, p2[j], p3[j]))"
    last = "y[i: 4] = max[j: 32](s[i, j] * s[3 - i, j])"
    program = ts.parse("\n".join(["input x: f32[4, 32, 5]", *rows, stacked, last, "return y"]))
    found = partition(program)
    assert found.inside == {f"p{n}": ("s", 128 * n) for n in range(4)}
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
    assert found.inside == {f"h{n}": ("s", 128 * n) for n in range(4)}
    assert "s" not in {stage.name for kernel in found.kernels for stage in kernel.stages}
    assert is_right(program)


def test_parts_of_several_rows_are_not_in_the_order_of_memory() -> None:
    program = dense(3, outer=2)
    assert partition(program).inside == {}
    assert is_right(program)


def test_a_part_that_does_not_begin_at_a_line_is_no_part() -> None:
    program = dense(3, width=3)
    assert partition(program).inside == {} or all(start % 64 == 0 for _, start in partition(program).inside.values())
    assert is_right(program)


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
        ("return e", {"a": ("c", 0), "b": ("c", 128)}),
        ("return e, c", {}),
        ("return e, a", {}),
        ("f[i: 64] = select(i >= 32, a[i - 32], b[i])\nreturn e, f", {"a": ("c", 0), "b": ("c", 128)}),
        ("f[i: 64] = select(i >= 32, a[i - 32], b[i])\ng[i: 64] = f[i] + exp(f[63 - i])\nreturn e, g", None),
        ("f[i: 64] = select(i < 31, a[i], b[max(0, i - 32)])\nreturn e", {"a": ("c", 0), "b": ("c", 128)}),
        ("v[j: 8, i: 8] = c[j * 8 + i]\nw[i: 8] = sum[j: 8](v[j, i])\nreturn e, w", {"a": ("c", 0), "b": ("c", 128)}),
        (
            "h[i: 32] = sum[k: 16](x[i, k] * x[i, k])\nf[i: 96] = select(i < 32, h[i], c[i - 32])\n"
            "g[i: 96] = f[95 - i] * f[i]\nreturn e, g",
            {"a": ("f", 128), "b": ("f", 256), "c": ("f", 128), "h": ("f", 0)},
        ),
        (
            "h[i: 32] = sum[k: 16](x[i, k] * x[i, k])\nf[i: 96] = select(i < 64, c[i], h[i - 64])\n"
            "g[i: 96] = f[95 - i] * f[i]\nreturn e, g",
            {"a": ("f", 0), "b": ("f", 128), "c": ("f", 0), "h": ("f", 256)},
        ),
    ],
)
def test_what_lies_in_what(lines: str, inside: dict[str, tuple[str, int]] | None) -> None:
    program = ts.parse(PAIR.strip() + "\n" + lines)
    assert inside is None or partition(program).inside == inside
    assert is_right(program)
