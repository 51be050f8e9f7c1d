"""What only moves data is written into its readers, but for what several of them would each look for in all of memory."""

from __future__ import annotations

import pytest

import tilesmith as ts
from tilesmith.graph.functions.convolution import transposed_convolution
from tilesmith.graph.partition.partition import partition
from tilesmith.tensor.build import compute
from tilesmith.tensor.oracle.random_inputs import random_inputs
from tilesmith.tensor.oracle.reference import evaluate
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.parse import parse


def kernels_of(program: Program) -> int:
    """How many kernels a program is cut into."""
    return len(partition(program).kernels)


def transposed(stride: int, kernel: int, constant: bool, groups: int = 1) -> Program:
    """A transposed convolution, whose phases read its weights in steps."""
    make = ts.constant if constant else ts.placeholder
    x, w = ts.placeholder((2, 8, 5, 5), name="u"), make((8, 6, kernel, kernel), name="w")
    made = transposed_convolution(x, w, None, stride, 1, 1, groups, 0)
    return ts.program([made], inputs=[x, w])


@pytest.mark.parametrize(("stride", "kernel"), [(2, 4), (2, 2), (3, 4)])
def test_weights_that_all_phases_read_are_turned_once(stride: int, kernel: int) -> None:
    assert kernels_of(transposed(stride, kernel, constant=True)) == stride**2 + 1
    assert kernels_of(transposed(stride, kernel, constant=False)) == stride**2 + 2


def test_one_convolution_turns_its_weights_by_itself() -> None:
    assert kernels_of(transposed(1, 3, constant=False)) == 1


def test_what_several_products_read_without_steps_is_no_kernel() -> None:
    x, w = ts.placeholder((9, 16), name="u"), ts.placeholder((12, 16), name="w")
    turned = compute((16, 12), lambda k, n: w[n, k])
    k = [ts.reduce_axis(16, name) for name in "kl"]
    first = compute((9, 12), lambda i, j: ts.sum(x[i, k[0]] * turned[k[0], j], k[0]))
    second = compute((9, 12), lambda i, j: ts.sum(x[8 - i, k[1]] * turned[k[1], 11 - j], k[1]))
    assert kernels_of(ts.program([first, second], inputs=[x, w])) == 2


def test_what_only_chose_among_copies_of_one_element_is_no_kernel() -> None:
    program = parse("""input x: f32[8]
input n: i64[8]
place[i: 8] = n[i] * 2
spread[i: 4] = x[0]
y[j: 8] = spread[min(max(place[j], 0), 3)] * x[j]
return y""")
    assert [[stage.name for stage in kernel.stages] for kernel in partition(program).kernels] == [["y"]]


@pytest.mark.parametrize("groups", [1, 2])
def test_phases_are_right(groups: int) -> None:
    program = transposed(2, 4, constant=False, groups=groups)
    kernel = ts.compile(program, threads=2)
    inputs = random_inputs(program, 5)
    (found,), (wanted,) = (kernel(*inputs),), evaluate(program, inputs)
    assert abs(found - wanted).max() <= 1e-4


@pytest.mark.parametrize(("parts", "elsewhere", "stays"), [(3, True, True), (2, True, False), (3, False, False)])
def test_what_finishes_a_product_reads_one_tensor_that_others_need_too(
    parts: int, elsewhere: bool, stays: bool
) -> None:
    """Of two parts reading them again costs little, and what nobody else reads is not stored."""
    given = "\n".join(f"input p{n}: f32[24, 16]" for n in range(parts))
    also = "sums[i: 24] = sum[j: 16](joined[i, j] * joined[i, j])\n" if elsewhere else ""
    program = parse(
        f"input a: f32[24, 32]\ninput b: f32[32, 16]\n{given}\n"
        f"joined[i: 24, j: 16] = {' + '.join(f'p{n}[i, j]' for n in range(parts))}\n"
        "product[i: 24, j: 16] = sum[k: 32](a[i, k] * b[k, j])\n"
        "finished[i: 24, j: 16] = max(product[i, j] + joined[i, j], 0)\n"
        f"{also}return {'sums, ' if elsewhere else ''}finished"
    )
    cut = partition(program)
    (finishing,) = [kernel for kernel in cut.kernels if any(s.name == "product" for s in kernel.stages)]
    read = {item.tensor.name for item in finishing.inputs}
    assert ("joined" in read) == stays, read
