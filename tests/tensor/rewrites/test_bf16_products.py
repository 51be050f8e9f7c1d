"""Words of two bfloat16, and products by them: against NumPy's bits, the original program, and sums of float32."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.rewritten import MATMUL, agree_in_parts
from tilesmith import ops
from tilesmith.common.errors import ProgramError
from tilesmith.tensor import build
from tilesmith.tensor.dtype import f32, i32
from tilesmith.tensor.exceptional import exceptional_condition
from tilesmith.tensor.expr import Const, Expr, Op, Read, Var, call, walk
from tilesmith.tensor.oracle.random_inputs import random_inputs
from tilesmith.tensor.oracle.reference import evaluate, evaluate_at
from tilesmith.tensor.printing import print_expr
from tilesmith.tensor.program import Program
from tilesmith.tensor.rewrites.pad_reads import pad_reads
from tilesmith.tensor.rewrites.tiles.bf16_parts import PAIRS, SCALE, bf16_products
from tilesmith.tensor.text.parse import parse

WORDS = parse(
    "input x: f32[64]\ninput y: f32[64]\nw[i: 64] = bf16_pair(x[i], y[i])\nl[i: 64] = bf16_low(w[i])\n"
    "h[i: 64] = bf16_high(w[i])\nreturn w, l, h"
)
TIES_AND_ENDS = np.array(
    [0x3F808000, 0x3F818000, 0x3F808001, 0xBF807FFF, 0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x00008000, 0x80018000, 1, 0],
    np.uint32,
)


def rounded(values: np.ndarray) -> np.ndarray:
    """The bits of the nearest bfloat16, ties to even, in the lower half."""
    bits = values.view(np.uint32).astype(np.uint64)
    return np.where(np.isnan(values), bits | 0x400000, bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def operands() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**32, 64, dtype=np.uint64).astype(np.uint32)
    bits[: len(TIES_AND_ENDS)] = TIES_AND_ENDS
    bits[11:13] = 0x7FC01234, 0x7F800001  # a quiet NaN, and one that rounding must not take for an infinity
    return bits.view(np.float32), rng.permutation(bits).view(np.float32)


def test_words_by_the_oracle() -> None:
    x, y = operands()
    low, high = rounded(x), rounded(y)
    word, one, other = evaluate(WORDS, (x, y))
    np.testing.assert_array_equal(word.astype(np.int32).view(np.uint32), low | high << 16)
    np.testing.assert_array_equal(one.astype(np.float32), (low << 16).astype(np.uint32).view(np.float32))
    np.testing.assert_array_equal(other.astype(np.float32), (high << 16).astype(np.uint32).view(np.float32))


def test_every_half_widens_exactly() -> None:
    program = parse("input w: i32[65536]\nl[i: 65536] = bf16_low(w[i])\nh[i: 65536] = bf16_high(w[i])\nreturn l, h")
    halves = np.arange(65536, dtype=np.uint32)
    low, high = evaluate(program, ((halves | halves[::-1] << 16).view(np.int32),))
    for found, bits in ((low, halves << 16), (high, halves[::-1] << 16)):
        np.testing.assert_array_equal(found.astype(np.float32), bits.view(np.float32))


def test_words_in_the_text() -> None:
    x, w = Read("x", (Var("i"),), f32), Read("w", (Var("i"),), i32)
    for expr in (
        call("bf16_pair", x, Const(0.0, f32)),
        call("bf16_pair", Const(1.0, f32), Const(0.0, f32)),
        call("bf16_low", w) * 2.0 + call("bf16_high", Const(5, i32)),
        x - call("bf16_low", call("bf16_pair", x, x)),
    ):
        kind = expr.dtype
        text = f"input x: f32[4]\ninput w: i32[4]\nz[i: 4] = {print_expr(expr)}\nreturn z\n"
        assert str(parse(text)) == text
        assert parse(text).stages[0].bodies[0] == expr
        assert parse(text).tensors["z"].dtype == kind


@pytest.mark.parametrize(
    "body", ["bf16_pair(w[i], 0)", "bf16_low(x[i])", "bf16_high(1.5)", "bf16_pair(x[i])", "bf16_pair(x[i], w[i])"]
)
def test_words_of_other_dtypes_are_refused(body: str) -> None:
    with pytest.raises(ProgramError):
        parse(f"input x: f32[4]\ninput w: i32[4]\nz[i: 4] = {body}\nreturn z")


def test_a_word_may_be_an_index_under_a_clamp() -> None:
    program = parse("input x: f32[4]\nz[i: 4] = x[min(max(i64(bf16_pair(x[i], 0)), 0), 3)]\nreturn z")
    np.testing.assert_array_equal(evaluate(program, (np.zeros(4, np.float32),))[0], 0)


def test_words_by_the_builders() -> None:
    x = build.placeholder((4,), name="x")
    z = build.compute(
        (4,), lambda i: build.bf16_low(build.bf16_pair(x[i], 1)) + build.bf16_high(build.bf16_pair(0, x[i])), name="z"
    )
    assert str(build.program(z)).splitlines()[1] == (
        "z[i: 4] = bf16_low(bf16_pair(x[i], 1)) + bf16_high(bf16_pair(0, x[i]))"
    )


def test_errors_of_words() -> None:
    """None where the operand is exact; one place of bfloat16 where its error may round it the other way."""
    source = "input x: f32[2]\ns[i: 2] = x[i] {}\nw[i: 2] = bf16_pair(s[i], s[i])\nz[i: 2] = bf16_high(w[i])\nreturn z"
    x = np.array([1.0, 1.0 + 2.0**-8], np.float32)  # the second lies between two
    assert not evaluate(parse(source.format("")), (x,), absolute=True)[0].any()
    (error,) = evaluate(parse(source.format("+ 0")), (x,), absolute=True)
    assert error[0] == 0
    assert error[1] * f32.eps == 2.0**-7
    (alone,) = (evaluate_at(parse(source.format("+ 0")), (x,), "z", np.array([[1]]), absolute=True),)
    assert alone[0] == error[1]


# The rewrite


@pytest.mark.parametrize(("m", "k", "n"), [(17, 33, 50), (20, 33, 18), (16, 64, 16), (1, 5, 3), (33, 48, 1)])
def test_matmul(m: int, k: int, n: int) -> None:
    program = parse(MATMUL.format(m=m, k=k, n=n))
    rewritten = bf16_products(program, "C", "i", "j", "k")
    agree_in_parts(program, rewritten)
    rows, columns, products, exact, last = rewritten.stages
    blocks = -(-k // 32)
    assert [s.name for s in rewritten.stages] == ["C_rows", "C_columns", "C_products", "C_exact", "C"]
    assert rows.tensors[0].shape == (-(-m // 16), blocks, 3, 16, 16)
    assert columns.tensors[0].shape == (-(-n // 16), blocks, 3, 16, 16)
    assert products.tensors[0].shape == (-(-m // 16) * 16, -(-n // 16) * 16)
    assert [axis.extent for axis in products.reduction] == [blocks, 16]
    assert not last.reduction
    assert exact.tensors[0].shape == last.tensors[0].shape == (m, n)
    condition = exceptional_condition(exact)
    assert condition is not None
    assert print_expr(condition) == f"not abs(C_products[i, j]) < {2.0**127}"


def test_results_in_another_order_are_checked_in_that_of_the_products() -> None:
    program = parse(
        "input A: f32[33, 40]\ninput B: f32[40, 17]\nC[j: 17, i: 33] = sum[k: 40](A[i, k] * B[k, j])\nreturn C"
    )
    rewritten = bf16_products(program, "C", "i", "j", "k")
    agree_in_parts(program, rewritten)
    assert [s.name for s in rewritten.stages[2:]] == ["C_products", "C_exact", "C_checked", "C"]
    assert [axis.name for axis in rewritten.stage("C_checked").axes] == ["i", "j"]
    assert str(rewritten.stage("C").bodies[0]) == str(Read("C_checked", (Var("i"), Var("j")), f32))


@pytest.mark.parametrize("flat", [["rows"], ["columns"], ["rows", "columns"]])
def test_flat_operands(flat: list[str]) -> None:
    program = parse(MATMUL.format(m=20, k=33, n=18))
    rewritten = bf16_products(program, "C", "i", "j", "k", flat)
    agree_in_parts(program, rewritten)
    rows, columns, *_ = rewritten.stages
    assert rows.tensors[0].shape == ((2, 3, 32, 16) if "rows" in flat else (2, 2, 3, 16, 16))
    assert columns.tensors[0].shape == ((2, 3, 16, 32) if "columns" in flat else (2, 2, 3, 16, 16))


def test_guards_stand_only_where_something_is_missing() -> None:
    full = bf16_products(parse(MATMUL.format(m=16, k=64, n=32)), "C", "i", "j", "k")
    assert "<" not in str(full.stages[0].bodies[0]) + str(full.stages[1].bodies[0])
    ragged = bf16_products(parse(MATMUL.format(m=16, k=48, n=32)), "C", "i", "j", "k")
    for stage in ragged.stages[:2]:  # the upper half of the last block alone
        (condition,) = {print_expr(node.args[0]) for node in walk(stage.bodies[0]) if is_select(node, "lt")}
        assert condition == "k16 + kblock * 32 + 16 < 48"


def is_select(node: Expr, test: str) -> bool:
    return isinstance(node, Op) and node.name == "select" and isinstance(node.args[0], Op) and node.args[0].name == test


def test_six_products_of_parts() -> None:
    rewritten = bf16_products(parse(MATMUL.format(m=16, k=32, n=16)), "C", "i", "j", "k")
    text = str(rewritten.stages[2].bodies[0])
    for p, q in PAIRS:
        for half in ("low", "high"):
            product = parse_product(rewritten, half, p, q)
            assert print_expr(product) in print_expr(rewritten.stages[2].bodies[0]), text
    assert {p + q for p, q in PAIRS} == {0, 1, 2}
    assert len(set(PAIRS)) == 6


def parse_product(program: Program, half: str, p: int, q: int) -> Expr:
    words = [read for read in program.stages[2].reads() if print_expr(read) in (
        f"C_rows[i // 16, kblock, {p}, i % 16, k16]", f"C_columns[j // 16, kblock, {q}, k16, j % 16]"
    )]  # fmt: skip
    assert len(words) == 2
    left, right = sorted(words, key=lambda read: read.tensor, reverse=True)
    return call(f"bf16_{half}", left) * call(f"bf16_{half}", right)


@pytest.mark.parametrize(
    "definition",
    [
        "A[b, i, k] * B[b, k, j]", "B[b, k, j] * A[b, i, k]", "A2[i, k] * B[b, k, j]", "A[b, i, k] * B2[k, j]",
        "A[b, i, k] * BT[j, b, k]", "AT[k, b, i] * B[b, k, j]", "AT[k, b, i] * BT[j, b, k]",
    ],
)  # fmt: skip
def test_batches_and_transpositions(definition: str) -> None:
    shapes = {"A": "3, 5, 35", "AT": "35, 3, 5", "A2": "5, 35", "B": "3, 35, 18", "BT": "18, 3, 35", "B2": "35, 18"}
    used = [name for name in shapes if f"{name}[" in definition]
    inputs = "".join(f"{'constant' if name[0] == 'B' else 'input'} {name}: f32[{shapes[name]}]\n" for name in used)
    program = parse(f"{inputs}C[b: 3, i: 5, j: 18] = sum[k: 35]({definition})\nreturn C")
    rewritten = bf16_products(program, "C", "i", "j", "k")
    agree_in_parts(program, rewritten)
    assert [axis.extent for axis in rewritten.stages[2].axes] == [3, 16, 32]
    other = bf16_products(program, "C", "j", "i", "k")  # the other operand may be the one of the rows
    agree_in_parts(program, other)
    assert [axis.extent for axis in other.stages[2].axes] == [3, 32, 16]


def test_a_matrix_times_its_transpose() -> None:
    program = parse("input A: f32[19, 40]\nC[i: 19, j: 19] = sum[k: 40](A[i, k] * A[j, k])\nreturn C")
    agree_in_parts(program, bf16_products(program, "C", "i", "j", "k"))


def test_operands_that_are_larger_than_what_is_read() -> None:
    """Rows and depth beyond the axes of the stage are there in memory, and must not be added."""
    program = parse(
        "input A: f32[40, 50]\ninput B: f32[50, 40]\nC[i: 17, j: 18] = sum[k: 33](A[i + 2, k] * B[k, j])\nreturn C"
    )
    rewritten = bf16_products(program, "C", "i", "j", "k")
    agree_in_parts(program, rewritten)
    assert rewritten.stages[0].tensors[0].shape == (2, 3, 40, 16)
    inputs = [
        np.where(np.arange(50) < 33, random_inputs(program, 1)[0], np.inf).astype(np.float32),
        random_inputs(program, 1)[1],
    ]
    assert np.isfinite(evaluate(rewritten, inputs)[0]).all()


@pytest.mark.parametrize("layout", ["nhwc", "nchw"])
@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "dilation"),
    [(3, 1, 0, 1), (3, 2, 0, 1), (3, 1, 1, 1), (3, 1, 0, 2), (1, 2, 0, 1), (3, 2, 1, 2)],
)
def test_conv2d(kernel: int, stride: int, padding: int, dilation: int, layout: str) -> None:
    program = ops.conv2d(
        2,
        5,
        11,
        9,
        18,
        kernel=kernel,
        stride=stride,
        padding=padding,
        dilation=dilation,
        layout=layout,
        constants=("W",),
    )
    plain = pad_reads(program, "y", "X") if padding else program
    for rows in ("q", "p"):
        agree_in_parts(program, bf16_products(plain, "y", rows, "o", "c"))


def test_rows_reach_as_far_as_the_padded_axis() -> None:
    program = ops.conv2d(1, 4, 11, 9, 16, kernel=3, stride=2, layout="nhwc")
    rows = bf16_products(program, "y", "q", "o", "c").stages[0]
    assert rows.tensors[0].shape == (1, 11, 1, 3, 15 * 2 + 2 + 1, 16)
    assert [axis.name for axis in rows.axes] == ["d0", "d1", "kblock", "part", "row", "k16"]


def test_names_that_are_taken() -> None:
    program = parse(
        "input C_rows: f32[4, 8]\ninput B: f32[8, 4]\n"
        "C[kblock: 4, k16: 4] = sum[part: 8](C_rows[kblock, part] * B[part, k16])\nreturn C"
    )
    rewritten = bf16_products(program, "C", "kblock", "k16", "part")
    agree_in_parts(program, rewritten)
    assert rewritten.stages[0].name == "C_rows1"


def test_the_error_is_that_of_float32() -> None:
    """The sum of the unit against float64, beside the plain sum of float32.

    As Intel defines TDPBF16PS: the 16 products of low halves are summed in float32, those of high halves too, and both sums
    together are added to what was there.
    """
    program = parse(MATMUL.format(m=16, k=512, n=16))
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal((16, 512)).astype(np.float32), rng.standard_normal((512, 16)).astype(np.float32)
    rewritten = bf16_products(program, "C", "i", "j", "k")
    words = Program(rewritten.inputs, rewritten.stages[:2], ("C_rows", "C_columns"))
    left, right = (w.astype(np.int32).view(np.uint32) for w in evaluate(words, (a, b)))
    halves = [[(w << 16).view(np.float32), (w & 0xFFFF0000).view(np.float32)] for w in (left, right)]
    total, plain = np.zeros((16, 16), np.float32), np.zeros((16, 16), np.float32)
    for block in range(16):
        for p, q in PAIRS:
            low, high = (
                sum(
                    (np.outer(x[0, block, p, :, word], y[0, block, q, word]) for word in range(16)),
                    np.zeros((), np.float32),
                )
                for x, y in zip(*halves, strict=True)
            )
            total += low + high
    for k in range(512):
        plain += np.outer(a[:, k], b[k])
    total /= np.float32(SCALE**2)
    truth = a.astype(np.float64) @ b.astype(np.float64)
    parts, alone = np.abs(total - truth), np.abs(plain - truth)
    assert 0 < parts.max() <= 2 * alone.max()
    assert parts.mean() <= 2 * alone.mean()
    # the parts alone hold all 24 bits, and what is left out is less than one rounding
    (exact,) = evaluate(rewritten, (a, b))
    assert np.all(np.abs(exact - truth) <= 2.0**-24 * (np.abs(a) @ np.abs(b)))


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 1e38, -3.4e38])
def test_what_is_not_finite_in_bfloat16_is_computed_as_it_stood(value: float) -> None:
    program = parse(MATMUL.format(m=4, k=8, n=4))
    a, b = random_inputs(program, 0)
    a[1, 3] = value
    (expected,), (found,) = evaluate(program, (a, b)), evaluate(bf16_products(program, "C", "i", "j", "k"), (a, b))
    np.testing.assert_array_equal(found[1], expected[1])
    assert np.isfinite(found[[0, 2, 3]]).all()


@pytest.mark.parametrize("size", [2.0**-149, 3 * 2.0**-149, 1e-40, 1.1754942e-38, 2.0**-126, 1e-30, 1.0, 2.0**102])
def test_all_parts_of_any_number_are_normal(size: float) -> None:
    """None of the words holds a subnormal number, and the three parts together are the number."""
    program = parse(MATMUL.format(m=16, k=32, n=16))
    rewritten = bf16_products(program, "C", "i", "j", "k")
    a = (random_inputs(program, 3)[0] * np.float32(size)).astype(np.float32)
    (words,) = evaluate(
        Program(rewritten.inputs, rewritten.stages[:1], ("C_rows",)), (a, np.zeros((32, 16), np.float32))
    )
    words = words.astype(np.int32).view(np.uint32)[0, 0]
    for half, part in ((words << 16, a[:, :16]), (words & 0xFFFF0000, a[:, 16:])):
        values = half.view(np.float32)
        assert np.all((values == 0) | (np.abs(values) >= 2.0**-126))
        np.testing.assert_array_equal(values.astype(np.float64).sum(0) / SCALE, part)


CONV = ops.conv2d(1, 3, 8, 8, 4, padding=1)
REFUSED_NAMES = [
    (("D", "i", "j", "k"), "no stage defines"),
    (("C", "i", "j", "l"), "no axis is called"),
    (("C", "i", "i", "k"), "two spatial axes"),
    (("C", "i", "k", "k"), "two spatial axes"),
    (("C", "i", "j", "j"), "a reduction axis"),
]
REFUSED = [  # shapes of A and B, body, what is expected
    ("4, 4", "4, 4", "A[i, k] + B[k, j]", "two reads of f32"),
    ("4, 4", "4, 4", "A[i, k] * A[i, k] * B[k, j]", "two reads of f32"),
    ("4, 4", "4, 4", "A[i, k] * abs(B[k, j])", "two reads of f32"),
    ("4, 4, 4", "4, 4", "A[i, j, k] * B[k, j]", "one read alone"),
    ("4, 4", "4, 4, 4", "A[i, k] * B[i, k, j]", "one read alone"),
    ("4, 4", "4, 7", "A[i, k] * B[k, j + k]", "k as one index of B"),
    ("4, 4", "4, 7", "A[i, k] * B[k, 2 * j]", "j as one index of B"),
    ("4, 4", "4, 4, 4", "A[i, k] * B[k, j, j]", "j as one index of B"),
    ("4, 4", "4, 4", "A[i, 0] * B[k, j]", "k as one index of A"),
    ("4, 4, 4", "4, 4", "A[i, i, k] * B[k, j]", "i in one index of A"),
    ("4, 4", "4, 4", "A[3 - i, k] * B[k, j]", "i in one index of A"),
    ("4, 4", "4, 4", "A[i // 2, k] * B[k, j]", "i in one index of A"),
]


def two(a: str, b: str, body: str, combiner: str = "sum") -> Program:
    """A reduction of 4x4 over k of two inputs."""
    shape = "C[i: 4, j: 4]"
    return parse(f"input A: f32[{a}]\ninput B: f32[{b}]\n{shape} = {combiner}[k: 4]({body})\nreturn C")


def expected_of(program: Program, *names: str) -> str:
    """What the refusal says."""
    with pytest.raises(ProgramError) as caught:
        bf16_products(program, *names)
    return f"{caught.value.problem} {caught.value.expected}"


@pytest.mark.parametrize(("names", "expected"), REFUSED_NAMES)
def test_other_axes_are_refused(names: tuple[str, str, str, str], expected: str) -> None:
    assert expected in expected_of(parse(MATMUL.format(m=4, k=8, n=4)), *names)


@pytest.mark.parametrize(("a", "b", "body", "expected"), REFUSED)
def test_other_products_are_refused(a: str, b: str, body: str, expected: str) -> None:
    assert expected in expected_of(two(a, b, body), "C", "i", "j", "k")


def test_other_stages_are_refused() -> None:
    assert "two reads of f32" in expected_of(ops.matmul(4, 4, 4, dtype="f64"), "C", "i", "j", "k")
    assert "two reads of f32" in expected_of(CONV, "y", "q", "o", "c")  # the image is read under a guard
    assert "a sum of products" in expected_of(two("4, 4", "4, 4", "A[i, k] * B[k, j]", "max"), "C", "i", "j", "k")
