"""`check_calls` names every fault that a list of kernels can have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

import tilesmith as ts
from helpers.graph.cut import cut
from tilesmith.codegen.rows import PitchedRows
from tilesmith.common.errors import InternalError
from tilesmith.graph.executor.check import check_calls
from tilesmith.graph.place import TensorPlace
from tilesmith.tensor.program import Input, Program

PROGRAM = ts.parse("""
    input a: f32[4, 6]
    constant w: f32[6]
    t[i: 4, j: 6] = a[i, j] * w[j]
    flat[i: 24] = t[i // 6, i % 6]
    u[i: 24] = flat[i] + 1
    v[i: 4] = max[j: 6](t[i, j])
    return u, v
""")
T, FLAT, U, V = cut(PROGRAM)
ALIASES = {"flat": "t"}
RIGHT = [T, U, V]


def test_what_is_right_passes() -> None:
    check_calls(PROGRAM, RIGHT, ALIASES, {})
    check_calls(PROGRAM, [T, V, FLAT, U], {}, {})
    check_calls(PROGRAM, [constant(T, "w", False), U, V], ALIASES, {})  # which is read where it is


def constant(kernel: Program, name: str, is_constant: bool) -> Program:
    """The kernel with an input that is a constant, or none."""
    return replace(
        kernel,
        inputs=tuple(Input(i.tensor, is_constant if i.tensor.name == name else i.constant) for i in kernel.inputs),
    )


def test_parts_are_written_once_and_all_of_them_before_the_whole_is_read() -> None:
    program = ts.parse("""
        input x: f32[16]
        a[i: 16] = x[i] + 1
        b[i: 16] = x[i] * 2
        c[i: 32] = select(i < 16, a[i], b[i - 16])
        y[i: 32] = c[31 - i]
        return y
    """)
    a, b, _, y = cut(program)
    right = {"a": TensorPlace("c"), "b": TensorPlace("c", 16)}
    check_calls(program, [a, b, y], {}, right)
    for kernels, inside, said in (
        ([a, y, b], right, "kernel 1 reads c, which is not computed yet"),
        ([a, b, y], {"a": TensorPlace("c"), "b": TensorPlace("c")}, "kernels 0 and 1 both write b"),
        ([a, b, y], {"a": TensorPlace("c"), "b": TensorPlace("c", 32)}, "b lies at element 32 of c, which has 32"),
        ([a, b, y], {"a": TensorPlace("c"), "b": TensorPlace("y", 16)}, "one of them is an argument"),
        ([a, b, y], {"a": TensorPlace("c"), "b": TensorPlace("a")}, "no tensor with memory of its own"),
    ):
        with pytest.raises(InternalError, match=said):
            check_calls(program, kernels, {}, inside)


def test_parts_in_rows_are_written_once_and_all_of_them_before_the_whole_is_read() -> None:
    program = ts.parse("""
        input x: f32[3, 16]
        a[h: 3, i: 16] = x[h, i] + 1
        b[h: 3, i: 32] = x[h, i // 2] * 2
        c[h: 3, i: 48] = select(i < 16, a[h, i], b[h, i - 16])
        y[h: 3, i: 48] = c[2 - h, 47 - i]
        return y
    """)
    a, b, _, y = cut(program)
    first, second = TensorPlace("c", 0, PitchedRows(16, 48)), TensorPlace("c", 16, PitchedRows(32, 48))
    right = {"a": first, "b": second}
    check_calls(program, [a, b, y], {}, right)
    wrong = "b lies at element .* of c, which has 144, in PitchedRows"
    for kernels, inside, said in (
        ([a, y, b], right, "kernel 1 reads c, which is not computed yet"),
        ([b, y], right, "kernel 1 reads c, which is not computed yet"),
        ([a, b, y], {"a": first, "b": replace(second, start=0)}, "kernels 0 and 1 both write b"),
        ([a, b, y], {"a": first, "b": TensorPlace("c", 16)}, "kernels 0 and 1 both write b"),
        ([a, b, y], {"a": first, "b": replace(second, start=32)}, wrong),
        ([a, b, y], {"a": first, "b": replace(second, rows=PitchedRows(32, 50))}, wrong),
        ([a, b, y], {"a": first, "b": replace(second, rows=PitchedRows(32, 16))}, wrong),
        ([a, b, y], {"a": first, "b": replace(second, rows=PitchedRows(64, 96))}, wrong),
    ):
        with pytest.raises(InternalError, match=said):
            check_calls(program, kernels, {}, inside)


OTHER = ts.parse("input t: f32[6, 4]\nv[i: 4] = max[j: 6](t[j, i])\nreturn v")
UNKNOWN = ts.parse("input z: f32[4, 6]\nv[i: 4] = max[j: 6](z[i, j])\nreturn v")
INTO_A = ts.parse("input t: f32[4, 6]\na[i: 4, j: 6] = t[i, j] * 2\nreturn a")


@pytest.mark.parametrize(
    ("kernels", "aliases", "said"),
    [
        ([T, V], ALIASES, "the output u is not written"),
        ([T, U], ALIASES, "the output v is not written"),
        ([U, T, V], ALIASES, "kernel 0 reads t, which is not computed yet"),
        ([T, U, V], {}, "kernel 1 reads flat, which is not computed yet"),
        ([T, T, U, V], ALIASES, "kernels 0 and 1 both write t"),
        ([T, FLAT, U, V], ALIASES, "kernel 1 writes flat, which is an alias"),
        ([T, INTO_A, U, V], ALIASES, "kernel 1 writes a, which is an input"),
        ([T, constant(U, "flat", True), V], ALIASES, "kernel 1 takes flat as a constant, which is none"),
        ([T, U, OTHER], ALIASES, r"kernel 2 has t: f32\[6, 4\], in the program it is f32\[4, 6\]"),
        ([T, U, UNKNOWN], ALIASES, r"kernel 2 has z: f32\[4, 6\], in the program there is none"),
        (RIGHT, {"flat": "z"}, "the alias flat of z: there is no z"),
        (RIGHT, {"flat": "v"}, "the alias flat of v has 96 bytes of f32, that has 16 bytes of f32"),
        (RIGHT, {"flat": "t", "t": "flat"}, "aliases of each other"),
    ],
)
def test_every_fault_is_named(kernels: Sequence[Program], aliases: dict[str, str], said: str) -> None:
    with pytest.raises(InternalError, match=said):
        check_calls(PROGRAM, kernels, aliases, {})


def test_an_output_that_is_a_constant_is_refused() -> None:
    """Constants have no memory while a model runs."""
    program = ts.parse("constant w: f32[6]\nu[i: 6] = w[i]\nreturn u")
    with pytest.raises(InternalError, match="the output u is not written"):
        check_calls(program, [], {"u": "w"}, {})
