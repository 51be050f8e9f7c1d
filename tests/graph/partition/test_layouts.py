"""What lies between kernels has the order of dimensions that its stages read best; nobody outside sees it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import tilesmith as ts
from helpers.random_programs import MORE_KINDS, programs
from tilesmith.graph.partition import layouts
from tilesmith.graph.partition.layouts import laid_out
from tilesmith.graph.partition.partition import partition
from tilesmith.tensor.oracle.random_inputs import random_inputs
from tilesmith.tensor.oracle.reference import evaluate
from tilesmith.tensor.program import Program


def text(lines: str) -> Program:
    return ts.parse("\n".join(line.strip() for line in lines.strip().splitlines()))


def shape(program: Program, tensor: str) -> tuple[int, ...]:
    return program.tensors[tensor].shape


def same(program: Program, other: Program) -> None:
    inputs = random_inputs(program, 1)
    for got, want in zip(evaluate(other, inputs), evaluate(program, inputs), strict=True):
        with np.errstate(invalid="ignore"):
            assert np.allclose(got, want, rtol=1e-6, equal_nan=True)


@given(program=programs(max_stages=8, dtypes=("f64", "i32"), kinds=MORE_KINDS))
@settings(max_examples=100)
def test_any_order_of_what_is_free_computes_the_same(program: Program) -> None:
    turns = iter([True] * 40 + [False] * 1000)

    def any_gain(self: Any, dimensions: Any) -> float:
        return 1.0 if self._innermost(dimensions) and next(turns) else 0.0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layouts, "LANES", 1)
        patch.setattr(layouts._Layouts, "_gain", any_gain)
        found = laid_out(program)
    assert found.inputs == program.inputs and found.outputs == program.outputs
    for name in program.outputs:
        assert shape(found, name) == shape(program, name)
    same(program, found)


BLOCK = """
input x: f32[24, 18, 18]
constant w: f32[32, 24]
constant k: f32[32, 3, 3]
constant v: f32[24, 32]
a[o: 32, p: 18, q: 18] = sum[c: 24](x[c, p, q] * w[o, c])
b[o: 32, p: 18, q: 18] = max(a[o, p, q], 0)
d[o: 32, p: 16, q: 16] = sum[r: 3, s: 3](b[o, p + r, q + s] * k[o, r, s])
y[o: 24, p: 16, q: 16] = sum[c: 32](d[c, p, q] * v[o, c])
return y
"""


def test_channels_lie_innermost_where_a_window_slides_on_each_of_them() -> None:
    program = text(BLOCK)
    found = laid_out(program)
    assert shape(found, "a") == shape(found, "b") == (18, 18, 32)
    assert shape(found, "d") == (16, 16, 32)
    assert shape(found, "y") == (24, 16, 16)
    same(program, found)


def test_where_tensors_are_put_behind_each_other_they_stay_pieces_of_memory() -> None:
    program = text("""
        input x: f32[16, 20, 20]
        constant w: f32[16, 16]
        a[o: 16, p: 20, q: 20] = sum[c: 16](x[c, p, q] * w[o, c])
        b[o: 16, p: 20, q: 20] = max(a[o, p, q], 0)
        d[o: 32, p: 20, q: 20] = select(o < 16, x[o, p, q], b[o - 16, p, q])
        y[o: 16, p: 20, q: 20] = sum[c: 32](exp(d[c, p, q]) * w[o, c // 2])
        return y
    """)
    assert laid_out(program) is program


def two_branches(first: int) -> Program:
    return text(f"""
        input x: f32[8, 20, 20]
        constant w: f32[64, 8]
        constant v: f32[64, 80]
        s[o: 64, p: 20, q: 20] = sum[c: 8](x[c, p, q] * w[o, c])
        a[o: {first}, p: 20, q: 20] = sum[c: 64](exp(s[c, p, q]) * v[o, c])
        b[o: {80 - first}, p: 20, q: 20] = sum[c: 64](exp(s[c, p, q]) * v[o, c + 1])
        d[o: 80, p: 20, q: 20] = select(o < {first}, a[o, p, q], b[o - {first}, p, q])
        y[o: 64, p: 20, q: 20] = sum[c: 80](exp(d[c, p, q]) * v[o, c])
        return y
    """)


@pytest.mark.parametrize(("first", "innermost"), [(48, True), (44, False)])
def test_channels_side_by_side_lie_innermost_where_all_parts_begin_at_lines(first: int, innermost: bool) -> None:
    program = two_branches(first)
    found = laid_out(program)
    assert shape(found, "d") == ((20, 20, 80) if innermost else (80, 20, 20))
    same(program, found)


def test_rows_of_channels_lie_as_they_are_summed_up() -> None:
    program = text("""
        input x: f32[3, 32, 32]
        constant w: f32[48, 3, 4, 4]
        constant v: f32[64, 48]
        a[o: 48, p: 8, q: 8] = sum[c: 3, r: 4, s: 4](x[c, p * 4 + r, q * 4 + s] * w[o, c, r, s])
        t[p: 8, q: 8, o: 48] = a[o, p, q]
        m[p: 8, q: 8] = sum[o: 48](t[p, q, o])
        n[p: 8, q: 8, o: 48] = t[p, q, o] - m[p, q] / 48
        y[p: 8, q: 8, j: 64] = sum[k: 48](n[p, q, k] * v[j, k])
        return y
    """)
    found = laid_out(program)
    assert shape(found, "a") == (8, 8, 48)
    same(program, found)


def test_products_whose_vectors_turn_their_weights_alone_stay_as_they_are() -> None:
    program = text("""
        input x: f32[64, 96]
        constant w: f32[128, 96]
        constant v: f32[96, 128]
        h[i: 64, j: 128] = sum[k: 96](x[i, k] * w[j, k])
        g[i: 64, j: 128] = tanh(h[i, j])
        y[i: 64, j: 96] = sum[k: 128](g[i, k] * v[j, k])
        z[i: 64, j: 96] = y[i, j] + x[i, j]
        return z
    """)
    assert laid_out(program) is program


def test_another_shape_of_the_same_memory_keeps_its_order() -> None:
    program = text("""
        input x: f32[32, 24, 24]
        constant k: f32[32, 3, 3]
        d[o: 32, p: 22, q: 22] = sum[r: 3, s: 3](x[o, p + r, q + s] * k[o, r, s])
        f[i: 15488] = d[i // 484, i // 22 % 22, i % 22]
        y[i: 15488] = exp(f[i])
        return y
    """)
    assert laid_out(program) is program


TOKENS = """
input x: f32[144, 64]
constant w: f32[32, 64]
constant k: f32[32, 3, 3]
constant v: f32[64, 32]
a[i: 144, o: 32] = sum[c: 64](x[i, c] * w[o, c])
t[o: 32, i: 144] = a[i, o]
m[o: 32, p: 12, q: 12] = t[o, p * 12 + q]
d[o: 32, p: 10, q: 10] = sum[r: 3, s: 3](m[o, p + r, q + s] * k[o, r, s])
f[o: 32, i: 100] = d[o, i // 10, i % 10]
g[i: 100, o: 32] = exp(f[o, i])
y[i: 100, j: 64] = sum[c: 32](g[i, c] * v[j, c])
return y
"""


def test_tokens_that_become_an_image_keep_their_channels_innermost() -> None:
    """And again tokens: nothing is moved in memory between the products."""
    program = text(TOKENS)
    found = laid_out(program)
    assert shape(found, "t") == shape(found, "a") == (144, 32)
    assert shape(found, "f") == (100, 32)
    assert shape(found, "m") == (12, 12, 32)
    assert shape(found, "d") == (10, 10, 32)
    assert {*partition(program).aliases} >= {"m", "f"}
    same(program, found)


def test_tokens_do_not_lie_behind_the_heads_of_a_transformer() -> None:
    """Though a window slides on them before, and products of all with all of them would save a turn."""
    program = text("""
        input x: f32[16, 130]
        constant w: f32[32, 16, 3]
        constant u: f32[32, 32]
        constant v: f32[32, 32]
        a[o: 32, i: 128] = sum[c: 16, r: 3](x[c, i + r] * w[o, c, r])
        t[i: 128, o: 32] = a[o, i]
        q[i: 128, j: 32] = sum[c: 32](t[i, c] * u[j, c])
        k[i: 128, j: 32] = sum[c: 32](t[i, c] * v[j, c])
        h[n: 2, i: 128, d: 16] = q[i, n * 16 + d]
        g[n: 2, i: 128, d: 16] = k[i, n * 16 + d]
        s[n: 2, i: 128, j: 128] = sum[d: 16](h[n, i, d] * g[n, j, d])
        e[n: 2, i: 128, j: 128] = exp(s[n, i, j])
        m[n: 2, i: 128] = sum[j: 128](e[n, i, j])
        y[n: 2, i: 128, j: 128] = e[n, i, j] / m[n, i]
        return y
    """)
    found = laid_out(program)
    assert (shape(found, "q"), shape(found, "h"), shape(found, "s")) == ((128, 32), (2, 128, 16), (2, 128, 128))
    same(program, found)


def test_groups_of_channels_are_put_together_without_being_moved() -> None:
    """Windows slide on the image that they are, but its channels are what is put together."""
    program = text("""
        input x: f32[32, 22, 22]
        constant w: f32[2, 16, 16, 3, 3]
        constant k: f32[32, 3, 3]
        constant v: f32[64, 32]
        y[g: 2, o: 16, p: 20, q: 20] = sum[d: 16, r: 3, s: 3](x[g * 16 + d, p + r, q + s] * w[g, o, d, r, s])
        m[c: 32, p: 20, q: 20] = y[c // 16, c % 16, p, q]
        b[c: 32, p: 20, q: 20] = max(m[c, p, q], 0)
        d[c: 32, p: 18, q: 18] = sum[r: 3, s: 3](b[c, p + r, q + s] * k[c, r, s])
        z[o: 64, p: 18, q: 18] = sum[c: 32](d[c, p, q] * v[o, c])
        return z
    """)
    movable = {dimension for one in layouts._Layouts(program)._movable() for dimension in one}
    assert {("y", 3), ("d", 0)} <= movable and not {("y", 1), ("m", 0)} & movable
    found = laid_out(program)
    assert (shape(found, "y"), shape(found, "m")) == ((2, 16, 20, 20), (32, 20, 20))
    same(program, found)


def groups(program: Program) -> list[set[str]]:
    return [{stage.name for stage in kernel.stages} for kernel in partition(program).kernels]


def test_a_window_is_a_kernel_of_its_own_and_reads_what_is_computed_once() -> None:
    program = text("""
        input x: f32[1, 20, 20, 48]
        input g: f32[48]
        constant k: f32[48, 3, 3]
        a[i: 1, p: 20, q: 20, o: 48] = x[i, p, q, o] * g[o]
        d[i: 1, p: 18, q: 18, o: 48] = sum[r: 3, s: 3](a[i, p + r, q + s, o] * k[o, r, s])
        b[i: 1, p: 18, q: 18, o: 48] = d[i, p, q, o] + g[o]
        m[i: 1, p: 18, q: 18] = sum[o: 48](b[i, p, q, o])
        y[i: 1, p: 18, q: 18, o: 48] = b[i, p, q, o] - m[i, p, q] / 48
        return y
    """)
    assert groups(program) == [{"a"}, {"d", "b"}, {"m", "y"}]


def test_what_is_put_together_is_not_chosen_anew_for_each_point_of_a_window() -> None:
    program = text("""
        input x: f32[16, 9, 9]
        input y: f32[8, 9, 9]
        both[c: 24, p: 9, q: 9] = select(c < 16, x[c, p, q], y[c - 16, p, q])
        m[c: 24, p: 4, q: 4] = max[r: 3, s: 3](both[c, p * 2 + r, q * 2 + s])
        return m
    """)
    kernels = partition(program).kernels
    assert all(len(stage.reads()) == 1 for kernel in kernels for stage in kernel.stages if stage.reduction)
