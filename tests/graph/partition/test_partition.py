"""Kernels of a partition compute together what the program does; each reads only what is there, and nothing is done twice."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from numpy.lib.stride_tricks import as_strided

import tilesmith as ts
from helpers.random_programs import MODEL_KINDS, MORE_KINDS, programs
from tilesmith.codegen.rows import PitchedRows
from tilesmith.graph.executor.check import check_calls
from tilesmith.graph.partition.partition import Partition, partition
from tilesmith.graph.place import place_of
from tilesmith.tensor.build import compute
from tilesmith.tensor.ops.conv import convolved
from tilesmith.tensor.ops.operator import Operands
from tilesmith.tensor.ops.softmax import attended
from tilesmith.tensor.ops.window import Window
from tilesmith.tensor.oracle.random_inputs import random_inputs
from tilesmith.tensor.oracle.reference import bounded, evaluate
from tilesmith.tensor.program import Program


def run(found: Partition, inputs: tuple[np.ndarray, ...]) -> list[np.ndarray]:
    """The outputs, by the oracle on one kernel after another, in memory that knows what was written."""
    check_calls(found.program, found.kernels, found.aliases, found.inside)
    tensors = found.program.tensors
    memory: dict[str, np.ndarray] = {}
    written: dict[str, np.ndarray] = {}

    def view(name: str, among: dict[str, np.ndarray]) -> np.ndarray:
        place = place_of(name, found.aliases, found.inside)
        of, count = place.tensor, math.prod(tensors[name].shape)
        if of not in memory:
            memory[of] = np.zeros(math.prod(tensors[of].shape), tensors[of].dtype.numpy)
            written[of] = np.zeros(memory[of].shape, bool)
        rows, begun = place.rows or PitchedRows(count, count), among[of][place.start :]
        return as_strided(begun, (count // rows.length, rows.length), (rows.pitch * begun.itemsize, begun.itemsize))

    def write(name: str, value: np.ndarray) -> None:
        place = view(name, memory)
        assert not view(name, written).any(), f"{name} is written twice"
        place[...], view(name, written)[...] = value.reshape(place.shape), True

    for item, array in zip(found.program.inputs, inputs, strict=True):
        write(item.tensor.name, array)
    for kernel in found.kernels:
        operands = [view(item.tensor.name, memory).copy().reshape(item.tensor.shape) for item in kernel.inputs]
        assert all(view(item.tensor.name, written).all() for item in kernel.inputs), "read before it is computed"
        for name, value in zip(kernel.outputs, evaluate(kernel, operands), strict=True):
            write(name, value.astype(kernel.tensors[name].dtype.numpy))
    return [view(name, memory).reshape(tensors[name].shape) for name in found.program.outputs]


@given(program=programs(max_stages=8, dtypes=("f64", "i32"), kinds=MODEL_KINDS))
@settings(max_examples=150)
def test_kernels_compute_what_the_program_does(program: Program) -> None:
    found = partition(program)
    inputs = random_inputs(program, 1)
    for name, got, (want, tolerance) in zip(program.outputs, run(found, inputs), bounded(program, inputs), strict=True):
        with np.errstate(invalid="ignore"):
            close = np.abs(got.astype(want.dtype) * 1.0 - want * 1.0) <= tolerance
        same = close | (got == want) | (np.isnan(want) & np.isnan(got))
        assert same.all(), f"{name} of\n{program}\n{[str(kernel) for kernel in found.kernels]}"


@given(program=programs(max_stages=12, kinds=MORE_KINDS))
@settings(max_examples=60)
def test_every_stage_with_a_reduction_is_in_one_kernel(program: Program) -> None:
    found = partition(program)
    reductions = [s.name for kernel in found.kernels for s in kernel.stages if s.reduction]
    assert len(reductions) == len(set(reductions))


def groups(program: Program) -> list[set[str]]:
    return [{stage.name for stage in kernel.stages} for kernel in partition(program).kernels]


def text(lines: str) -> Program:
    return ts.parse("\n".join(line.strip() for line in lines.strip().splitlines()))


LAYERS = """
input x: f32[16, 32]
constant w: f32[32, 48]
constant b: f32[48]
constant v: f32[48, 32]
p[i: 16, j: 48] = sum[k: 32](x[i, k] * w[k, j])
h[i: 16, j: 48] = tanh(p[i, j] + b[j])
q[i: 16, j: 32] = sum[k: 48](h[i, k] * v[k, j])
y[i: 16, j: 32] = q[i, j] + x[i, j]
return y
"""


def test_what_finishes_a_product_is_in_its_kernel() -> None:
    assert groups(text(LAYERS)) == [{"p", "h"}, {"q", "y"}]


def test_an_axis_with_one_point_may_be_read_as_zero() -> None:
    program = text("""
        input x: f32[1, 16, 32]
        input w: f32[32, 48]
        p[n: 1, i: 16, j: 48] = sum[k: 32](x[n, i, k] * w[k, j])
        y[n: 1, i: 16, j: 48] = tanh(p[0, i, j])
        z[n: 1, i: 16, j: 8] = sum[k: 48](y[n, i, k] * w[j, k])
        return z
    """)
    assert groups(program) == [{"p", "y"}, {"z"}]


def test_rows_of_one_point_may_be_read_as_zero() -> None:
    """A softmax of one batch, as ONNX writes it where shapes have been computed."""
    program = text("""
        input x: f32[1, 4, 16, 32]
        m[n: 1, h: 4, i: 16] = max[j: 32](x[n, h, i, j])
        e[n: 1, h: 4, i: 16, j: 32] = exp(x[n, h, i, j] - m[0, h, i])
        l[n: 1, h: 4, i: 16] = sum[j: 32](e[n, h, i, j])
        y[n: 1, h: 4, i: 16, j: 32] = round(e[0, h, i, j] / l[0, h, i] * 255)
        return y
    """)
    assert groups(program) == [{"m", "e", "l", "y"}]


def test_an_epilogue_may_use_a_value_twice() -> None:
    program = text("""
        input x: f32[64, 32]
        input w: f32[32, 48]
        p[i: 64, j: 48] = sum[k: 32](x[i, k] * w[k, j])
        s[i: 64, j: 48] = sigmoid(p[i, j])
        y[i: 64, j: 48] = p[i, j] * s[i, j]
        z[i: 64] = sum[j: 48](y[i, j] * x[i, j % 32])
        return z, y
    """)
    assert groups(program) == [{"p", "y"}, {"z"}]


def test_a_sum_of_two_products_is_with_the_last() -> None:
    program = text("""
        input x: f32[64, 32]
        input w: f32[32, 48]
        input v: f32[32, 48]
        p[i: 64, j: 48] = sum[k: 32](x[i, k] * w[k, j])
        q[i: 64, j: 48] = sum[k: 32](x[i, k] * v[k, j])
        y[i: 64, j: 48] = max(p[i, j] + q[i, j], 0)
        return y
    """)
    assert groups(program) == [{"p"}, {"q", "y"}]


def test_what_is_rounded_to_bytes_before_it_is_added_is_kept_as_bytes() -> None:
    """The other product reads a byte of each of its sums, not four and all that makes a byte of them."""
    program = text("""
        input x: u8[8, 32]
        constant v: i8[32, 16]
        constant w: i8[32, 16]
        a[i: 8, j: 16] = sum[k: 32](i32(x[i, k]) * i32(v[k, j]))
        p[i: 8, j: 16] = f32(a[i, j]) * 0.001
        q[i: 8, j: 16] = u8(min(max(round(p[i, j]), 0), 255))
        r[i: 8, j: 16] = f32(q[i, j]) * 0.1
        b[i: 8, j: 16] = sum[k: 32](i32(x[i, k]) * i32(w[k, j]))
        y[i: 8, j: 16] = max(r[i, j] + f32(b[i, j]) * 0.002, 0)
        return y
        """)
    first, second = partition(program).kernels
    assert first.outputs == ("q",) and str(first.tensors["q"].dtype) == "u8"
    assert {item.tensor.name for item in second.inputs} == {"q", "x", "w"}


def test_a_softmax_is_one_kernel_and_attention_is_one() -> None:
    for operator in (ts.ops.softmax(rows=64, columns=96), ts.ops.attention(heads=2, queries=64, keys=64, width=32)):
        assert len(partition(operator).kernels) == 1


def test_products_are_done_at_once_where_what_is_between_is_larger_than_what_is_read_again() -> None:
    long = LAYERS.replace("16", "4096")
    assert groups(text(long)) == [{"p", "h", "q", "y"}]


def test_attention_to_parts_of_one_tensor_under_a_mask_is_one_kernel() -> None:
    """A query that sees no key gives 0 within its row, and of the tensor what each product reads counts."""
    operand = Operands("f32", ())
    x, mask = operand("x", 64, 192), operand("mask", 64, 64)
    q = compute((2, 64, 32), lambda h, i, d: x[i, d + h * 32], name="q")
    k = compute((2, 64, 32), lambda h, i, d: x[i, d + h * 32 + 64], name="k")
    v = compute((2, 64, 32), lambda h, i, d: x[i, d + h * 32 + 128], name="v")
    masked = attended(q, k, v, 0.1, adjusted=lambda i, value: value + mask[i[1], i[2]], empty=True)
    assert len(partition(operand.program(masked)).kernels) == 1


def test_a_reshape_between_kernels_is_no_kernel() -> None:
    program = text("""
        input x: f32[64, 4, 8]
        input w: f32[32, 48]
        a[i: 64, h: 4, d: 8] = exp(x[i, h, d])
        m[i: 64, j: 32] = a[i, j // 8, j % 8]
        y[i: 64, j: 48] = sum[k: 32](m[i, k] * w[k, j])
        return y
    """)
    found = partition(program)
    assert groups(program) == [{"a"}, {"y"}]
    assert found.aliases == {"m": "a"}


def test_a_copy_between_a_reduction_and_what_finishes_it_is_computed_with_them() -> None:
    program = ts.parse(
        """
        input x: f32[60]
        largest[i: 30] = max[k: 2](x[k * 30 + i])
        copy[i: 30] = largest[i]
        again[place: 30] = copy[place % 30]
        return again
        """
    )
    found = partition(program)
    check_calls(found.program, found.kernels, found.aliases, found.inside)
    assert [kernel.outputs for kernel in found.kernels] == [("again",)] and not found.aliases


def test_a_product_of_two_parts_of_one_tensor_has_operands_of_its_own() -> None:
    """Queries and keys of one product: none could be packed where both are reads of the same tensor."""
    program = text("""
        input x: f32[40, 48]
        constant w: f32[48, 96]
        u[i: 40, t: 2, j: 48] = sum[k: 48](x[i, k] * w[k, t * 48 + j])
        q[h: 3, i: 40, d: 16] = u[i, 0, h * 16 + d]
        k[h: 3, i: 40, d: 16] = u[i, 1, h * 16 + d]
        s[h: 3, i: 40, j: 40] = sum[d: 16](q[h, i, d] * k[h, j, d])
        return s
    """)
    assert groups(program) == [{"u"}, {"q"}, {"s"}]


NORM = """
input x: f32[8, 8, 48]
constant w: f32[48, 32]
m[i: 8, j: 8] = sum[k: 48](x[i, j, k])
v[i: 8, j: 8] = sum[k: 48]((x[i, j, k] - m[i, j]) * (x[i, j, k] - m[i, j]))
s[i: 8, j: 8] = rsqrt(v[i, j])
n[i: 8, j: 8, k: 48] = (x[i, j, k] - m[i, j]) * s[i, j]
"""


def test_rows_that_are_taken_apart_later_are_one_kernel() -> None:
    """Windows of 4 x 4 points of what is normalised: its sums would be kernels of their own."""
    program = text(
        NORM
        + """t[a: 2, b: 2, i: 4, j: 4, k: 48] = n[a * 4 + i, b * 4 + j, k]
        r[a: 4, i: 16, k: 48] = t[a // 2, a % 2, i // 4, i % 4, k]
        y[a: 4, i: 16, j: 32] = sum[k: 48](r[a, i, k] * w[k, j])
        return y"""
    )
    assert groups(program) == [{"m", "v", "s", "n"}, {"t"}, {"y"}]


def test_rows_that_several_kernels_read_are_one_kernel() -> None:
    """A norm of a norm, and a residual from between them."""
    program = text(
        NORM
        + """o[i: 8, j: 8] = sum[k: 48](n[i, j, k])
        p[i: 8, j: 8, k: 48] = n[i, j, k] - o[i, j]
        y[i: 8, j: 8, l: 48] = sum[k: 48](exp(p[i, j, k]) * w[k, l % 32])
        z[i: 8, j: 8, k: 48] = y[i, j, k] + n[i, j, k]
        return z"""
    )
    assert {"m", "v", "s", "n"} in groups(program)


def test_long_steps_alone_make_no_window() -> None:
    """Rows of every other point are rows."""
    program = text("""
        input x: f32[16, 48]
        m[i: 8] = max[k: 48](x[i * 2, k])
        e[i: 8, k: 48] = exp(x[i * 2, k] - m[i])
        s[i: 8] = sum[k: 48](e[i, k])
        y[i: 8, k: 48] = e[i, k] / s[i]
        return y
    """)
    assert groups(program) == [{"m", "e", "s", "y"}]


def test_what_constants_choose_of_a_constant_is_prepared() -> None:
    """A bias for each pair of places, from a table of biases; and a mask that is made of zeros and a constant."""
    program = text("""
        input x: f32[64, 32]
        constant w: f32[32, 48]
        constant biases: f32[9, 48]
        constant places: i64[64]
        constant one: f32[]
        z[i: 64, j: 48] = f32(0)
        h[i: 64, j: 48] = select(i < 32, z[i, j], one[])
        mask[i: 64, j: 48] = h[i, j] - h[63 - i, j]
        b[i: 64, j: 48] = biases[min(max(places[i], 0), 8), j] + mask[i, j]
        p[i: 64, j: 48] = sum[k: 32](x[i, k] * w[k, j])
        y[i: 64, j: 48] = p[i, j] + b[i, j]
        return y
    """)
    (kernel,) = partition(program).kernels
    assert [tensor.name for tensor in kernel.dynamic_inputs] == ["x"]
    assert [stage.name for stage in kernel.stages] == ["b", "p", "y"], "prepared in one step"


FLATTENED = """
        input x: f32[2, 32, 24]
        input w: f32[24, 48]
        p[n: 2, i: 32, j: 48] = sum[k: 24](x[n, i, k] * w[k, j])
        h[n: 2, i: 32, j: 48] = max(p[n, i, j], 0)
        m[n: 2, place: 1536] = h[n, place // 48, place % 48]
    """


def test_what_finishes_a_product_ends_where_its_memory_gets_another_shape() -> None:
    program = text(FLATTENED + "    y[n: 2, place: 1536] = exp(m[n, place])\n        return y\n")
    found = partition(program)
    assert groups(program) == [{"p", "h"}, {"y"}]
    assert found.aliases == {"m": "h"}
    run(found, random_inputs(program, 1))


def test_an_output_under_another_shape_finishes_its_product() -> None:
    assert groups(text(FLATTENED + "    return m\n")) == [{"p", "h", "m"}]


def test_what_depends_on_constants_alone_is_in_the_kernels_that_read_it() -> None:
    program = text("""
        input x: f32[64, 32]
        constant w: f32[32, 32]
        s[i: 32, j: 32] = w[i, j] * 2
        p[i: 64, j: 32] = sum[k: 32](x[i, k] * s[k, j])
        q[i: 64, j: 32] = sum[k: 32](tanh(p[i, k]) * s[k, j])
        return q
    """)
    assert all("s" in group for group in groups(program))


def test_a_stage_on_which_no_output_depends_is_in_no_kernel() -> None:
    program = text("""
        input x: f32[64]
        unused[i: 64] = x[i] + 1
        y[i: 64] = x[i] * 2
        return y
    """)
    assert groups(program) == [{"y"}]


@pytest.mark.parametrize("layers", [500])
def test_a_program_of_many_stages_is_cut_in_linear_time(layers: int) -> None:
    x = ts.placeholder((16, 24), name="x")
    value = x
    for number in range(layers):
        k = ts.reduce_axis(24, "k")
        w = ts.constant((24, 24), name=f"w{number}")
        product = ts.compute((16, 24), lambda i, j, v=value, w=w, k=k: ts.sum(v[i, k] * w[k, j], k), axes=("i", "j"))
        value = ts.compute((16, 24), lambda i, j, p=product: ts.tanh(p[i, j]), axes=("i", "j"))
    found = partition(ts.program(value))
    assert len(found.kernels) == layers


def _stencils(stages: int) -> Program:
    lines, last, rows, columns = ["input x: f32[60, 90]"], "x", 60, 90
    for n in range(stages):
        rows, columns = rows - 2, columns - 2
        lines.append(f"s{n}[i: {rows}, j: {columns}] = {last}[i, j] + {last}[i + 1, j + 2] * 2 + {last}[i + 2, j + 1]")
        last = f"s{n}"
    return ts.parse("\n".join([*lines, f"return {last}"]))


def test_stencils_are_cut_where_their_borders_have_grown() -> None:
    found = partition(_stencils(20))
    assert [len(kernel.stages) for kernel in found.kernels] == [2, 9, 9]
    assert not found.aliases


def test_a_short_chain_of_stencils_is_one_kernel() -> None:
    (kernel,) = partition(_stencils(6)).kernels
    assert len(kernel.stages) == 6


@pytest.mark.parametrize("groups", [1, 4])
def test_what_is_computed_for_a_convolution_is_not_computed_at_each_use(groups: int) -> None:
    """Convolutions in groups are like any other: each element of their data is in many products."""
    x, y = (ts.placeholder((1, 32, 9, 9), name=name) for name in "uv")
    scaled = compute((1, 32, 9, 9), lambda *i: x[i] * y[i])
    w = ts.constant((32, 32 // groups, 3, 3), name="w")
    sums = convolved(scaled, w, Window.of("conv2d", (9, 9), 3, 1, 1), groups)
    found = partition(ts.program([sums], inputs=[x, y, w]))
    stages = [stage for kernel in found.kernels for stage in kernel.stages]
    assert [len(stage.reads()) for stage in stages if stage.combiner == "sum"] == [2]
