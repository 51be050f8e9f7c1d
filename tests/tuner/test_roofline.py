"""The least work of a program, and what a time means against ceilings."""

from dataclasses import replace

import pytest

from tilesmith import ops
from tilesmith.targets.ceilings import MATRIX, Ceilings
from tilesmith.targets.matrix_instructions import products_of
from tilesmith.tensor.text.parse import parse
from tilesmith.tuner.roofline import Speed, Work, program_work

CEILINGS = Ceilings({"f32": 400e9, "f64": 200e9, "i64": 100e9}, ((1024, 500e9), (1 << 30, 25e9)), 2)


def test_a_matmul_is_two_operations_a_point() -> None:
    work = program_work(
        parse(
            "input A: f32[512, 1024]\ninput B: f32[1024, 256]\n"
            "C[i: 512, j: 256] = sum[k: 1024](A[i, k] * B[k, j])\nreturn C"
        )
    )
    written = 4 * 512 * 256
    assert work == Work((("f32", 2 * 512 * 256 * 1024),), 4 * (512 * 1024 + 1024 * 256) + written, written)
    assert not work.is_bound_by_memory(CEILINGS)
    assert work.least_seconds(CEILINGS) == pytest.approx(2 * 512 * 256 * 1024 / 400e9)
    assert work.speed(2 * work.least_seconds(CEILINGS), CEILINGS) == Speed(pytest.approx(200.0), "GFLOP/s", 0.5)


def test_indices_guards_and_unread_inputs_do_not_count() -> None:
    work = program_work(
        parse("input A: f32[100]\ninput Z: f32[100]\nB[i: 200] = select(i // 2 * 2 < 50, A[i // 2], 1.0) + 1\nreturn B")
    )
    assert work.operations == (("f32", 200),)
    assert work.bytes == 4 * (100 + 200)


@pytest.mark.parametrize("read", ["X[p + r, c]", "select(p + r >= 1 and p + r < 10, X[p + r - 1, c], 0)"])
def test_products_of_bytes_are_those_of_words_beside_a_border_too(read: str) -> None:
    work = program_work(parse(f"""
input X: u8[10, 32]
input W: i8[3, 32, 16]
Y[p: 8, o: 16] = sum[r: 3, c: 32](i32({read}) * i32(W[r, c, o]))
return Y
""".strip()))  # fmt: skip
    assert work.operations == ((products_of("u8", "i8"), 2 * 8 * 16 * 3 * 32),)


def test_what_is_written_twice_counts_once() -> None:
    head, loop = "input p: f32[20, 8]\ninput c: f32[30, 8]\n", "d[i: 20, j: 30] = sum[k: 8]"
    squares = f"{head}{loop}((p[i, k] - c[j, k]) * (p[i, k] - c[j, k]))\nreturn d"
    assert program_work(parse(squares)).operations == (("f32", 3 * 20 * 30 * 8),)
    apart = f"{head}{loop}((p[i, k] - c[j, k]) * (c[j, k] - p[i, k]))\nreturn d"
    assert program_work(parse(apart)).operations == (("f32", 4 * 20 * 30 * 8),)
    several = "input x: f32[9]\na, b[i: 9] = exp(x[i]) + 1, exp(x[i]) * 2\nreturn a, b"
    assert program_work(parse(several)).operations == (("f32", 3 * 9),)
    under = "input x: f32[9]\na[i: 9] = select(x[i] + 1 > 0, x[i] + 1, 0)\nreturn a"
    assert program_work(parse(under)).operations == (("f32", 9),), "not in the comparison, but in the choice"


def test_of_a_table_that_indices_choose_from_what_they_meet_counts() -> None:
    few, many = (program_work(ops.embedding(tokens=n, vocabulary=3000, width=64)) for n in (8, 30_000))
    assert few.bytes == pytest.approx(4 * 64 * 8 + 8 * 8 + few.written, rel=1e-2)  # none of eight repeats, nearly
    assert many.bytes == pytest.approx(4 * 64 * 3000 + 8 * 30_000 + many.written, rel=1e-4)  # all rows, nearly
    along = program_work(ops.take_along_axis(shape=(4, 1000), count=1000, axis=1))
    met = 1000 * (1 - (1 - 1 / 1000) ** 1000)  # of each row
    assert along.bytes == pytest.approx(4 * 4 * met + 8 * 4000 + 4 * 4000, abs=4)


def test_elementwise_work_is_bound_by_memory() -> None:
    work = program_work(
        parse("input x: f32[1048576]\ninput y: f32[1048576]\nz[i: 1048576] = x[i] * sigmoid(x[i]) + y[i]\nreturn z")
    )
    assert work == Work((("f32", 3 << 20),), 12 << 20, 4 << 20)
    assert work.is_bound_by_memory(CEILINGS)
    speed = work.speed(1.0, CEILINGS)
    assert speed.unit == "GB/s" and speed.value == pytest.approx((12 << 20) / 1e9)
    assert speed.share == pytest.approx((12 << 20) / CEILINGS.bandwidth_at(12 << 20))


def test_a_matrix_unit_lowers_what_nobody_beats_and_not_what_a_share_is_of() -> None:
    with_unit = replace(CEILINGS, flops={**CEILINGS.flops, MATRIX: 6 * 700e9})
    work = Work((("f32", 4_000_000_000),), 4)
    assert work.least_seconds(with_unit) == pytest.approx(4 / 700)
    assert work.speed(4 / 600, with_unit) == Speed(pytest.approx(600.0), "GFLOP/s", pytest.approx(1.5), "the FMA peak")
    assert work.speed(4 / 600, CEILINGS).of == "the ceiling"
    double = Work((("f64", 400),), 1)
    assert double.least_seconds(with_unit) == double.least_seconds(CEILINGS)
    assert double.speed(1.0, with_unit).of == "the ceiling"


def test_operations_of_several_dtypes_add_their_times() -> None:
    work = Work((("f32", 400), ("f64", 200)), 1)
    assert work.least_seconds(CEILINGS) == pytest.approx(2e-9)
    assert work.flops == 600
