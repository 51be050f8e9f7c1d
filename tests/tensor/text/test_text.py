"""The text form: print, parse, canonical form, keys."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings

from helpers.random_programs import any_programs
from tilesmith.common.errors import ProgramError
from tilesmith.tensor import ops
from tilesmith.tensor.dtype import f32, i64
from tilesmith.tensor.expr import Const, Op, Read, Var, const
from tilesmith.tensor.printing import print_expr, print_program
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.canonical import canonical, canonical_names, family_key, program_key
from tilesmith.tensor.text.parse import parse, parse_expr

EVERYTHING = """
input A: f32[64, 48]
constant B: f32[48, 33]   # weights
input bias: f32[33]
input rows: i32[10]
input s: f64               # a scalar
table w: f32[2, 2] = [1, -0.5, inf, nan]
table on: bool[2] = [true, false]
C[i: 64, j: 33] = sum[k: 48](A[i, k] * B[k, j])
D[i: 64, j: 33] = max(C[i, j] + bias[j], 0)
E[i: 64, j: 33] = select(i >= 1 and not (i > 57 or j == 3), A[i - 1, j] * 2, -inf)
G[i: 10, j: 33] = C[min(max(rows[i], 0), 63), j] + f32(i) - (1.5e-30 - -(3.0))
half[] = s[] / 2
most[j: 33] = max[i: 64](E[i, j] - -0.0)
fold[j: 33] {
    m[i: 64]: f32 = -inf
    l[i: 64]: f32 = 0
    o[i: 64, d: 48]: f32 = 0
    let top = max(m[i], C[i, j])
    let scale = exp(m[i] - top)
    let p = exp(C[i, j] - top)
    m = top
    l = l[i] * scale + p
    o = o[i, d] * scale + p * B[d, j]
}
P, Q[i: 2, j: 2] = w[i, j] * 3, select(on[j], w[j, i], f32(-i // 2 % 3) ) - (w[0, 0] - w[0,
    1] - 2) # lines may be broken in brackets
return D, E, G, o, l, P, half, most
"""

MATMUL = """
input A: f32[{m}, {k}]
input B: f32[{k}, {n}]
C[i: {m}, j: {n}] = sum[k: {k}](A[i, k] * B[k, j])
D[i: {m}, j: {n}] = C[i, j] / {k}
return D
"""


def test_what_is_printed_parses_to_the_same_program() -> None:
    program = parse(EVERYTHING)
    text = print_program(program)
    again = parse(text)
    assert again == program
    assert print_program(again) == text
    assert "let p = exp(C[i, j] - top)" in text
    assert "min(max(rows[i], 0), 63)" in text


@pytest.mark.parametrize(
    "text",
    [
        "f32(1) + 2", "x[i] + 1", "1 - x[i]", "-x[i] * -(x[i] + -2)", "-(3) + x[i]", "f32(-0.0)", "nan * x[i]",
        "select(x[i] < 0, -inf, x[i])", "select(f32(1) < 2, f32(0), 1)", "f32(i // 2 + i % 3)", "max(x[i], 1e-300)",
        "not (x[i] < 1 or i == 2) and true", "not (not (i < 2))", "x[i] - (x[i] - 1)", "x[i] / (x[i] * x[i])",
        "(x[i] < 1) == (i < 2)", "f32(i64(2))", "--x[i]", "pow(x[i], 0.1)", "i32(x[i] / 3) * 2", "16777217.0 * x[i]",
        "x[i] * 1e+22", "f64(3.14)",
    ],
)  # fmt: skip
def test_expressions_survive_printing(text: str) -> None:
    from tilesmith.tensor.program import Tensor

    tensors = {"x": Tensor("x", f32, (4,))}
    expr = parse_expr(text, {"i": i64}, tensors)
    printed = print_expr(expr)
    assert parse_expr(printed, {"i": i64}, tensors) == expr
    assert print_expr(parse_expr(printed, {"i": i64}, tensors)) == printed


def test_signed_zeros_and_precision_survive() -> None:
    for number in (-0.0, 0.0, 0.1, 1 / 3, 5e-324, 1e308, 123456789012345678.0, -math.inf):
        expr = parse_expr(print_expr(const(number, f32)))
        assert isinstance(expr, Const)
        assert repr(expr.value) == repr(number)


def test_programs_are_equal_if_their_literals_are_bit_for_bit() -> None:
    text = "input x: f32[4]\ny[i: 4] = x[i] * {}\nreturn y"
    assert parse(text.format("nan")) == parse(text.format("nan"))
    assert hash(parse(text.format("nan"))) == hash(parse(text.format("nan")))
    assert parse(text.format("0.0")) == parse(text.format("0"))
    assert parse(text.format("-0.0")) != parse(text.format("0.0"))
    assert program_key(parse(text.format("-0.0"))) != program_key(parse(text.format("0.0")))


def test_precedence_is_that_of_python() -> None:
    assert parse_expr("i - 1 - j * 2 % 3") == (Var("i") - 1) - (Var("j") * 2) % 3
    assert parse_expr("i < 1 or i > 2 and i < 3") == (Var("i") < 1) | ((Var("i") > 2) & (Var("i") < 3))


def test_indices_of_narrow_integers_become_i64() -> None:
    program = parse("input x: f32[256]\ninput n: u8[4]\ny[i: 4] = x[n[i]]\nreturn y")
    body = program.stages[0].bodies[0]
    assert isinstance(body, Read)
    assert body.indices[0].dtype == i64


def test_canonical_form_forgets_names_and_order() -> None:
    one = parse("input A: f32[4]\nb[i: 4] = A[i] + 1\nc[i: 4] = A[i] * 2\nd[q: 4] = b[q] - c[q]\nreturn d")
    two = parse(
        "input Z: f32[4]\nx[u: 4] = Z[u] * 2\ndead[i: 4] = Z[i]\ny[i: 4] = Z[i] + 1\nt[i: 4] = y[i] - x[i]\nreturn t"
    )
    assert print_program(canonical(one)) == print_program(canonical(two))
    assert program_key(one) == program_key(two)
    assert canonical(canonical(one)) == canonical(one)
    assert canonical_names(two) == {"x0": "Z", "t0": "y", "t1": "x", "t2": "t"}


def test_keys_tell_programs_apart() -> None:
    texts = [MATMUL.format(m=4, n=5, k=6), MATMUL.format(m=4, n=5, k=7), EVERYTHING]
    texts.append(texts[0].replace("input B", "constant B"))
    texts.append(texts[0].replace("f32", "f64"))
    assert len({program_key(parse(text)) for text in texts}) == len(texts)


def test_families_leave_sizes_open() -> None:
    sizes = [(4, 5, 6), (64, 64, 64), (1, 9, 2)]
    assert len({family_key(parse(MATMUL.format(m=m, n=n, k=k))) for m, n, k in sizes}) == 1
    stencil = "input A: f32[{n}]\nB[i: {n}] = select(i >= 1 and i < {n}, A[i - 1], 0)\nreturn B"
    assert family_key(parse(stencil.format(n=9))) == family_key(parse(stencil.format(n=70)))
    shifted = stencil.replace("i - 1", "i - 1").replace("i >= 1", "i >= 2").replace("A[i - 1]", "A[i - 2]")
    assert family_key(parse(stencil.format(n=9))) != family_key(parse(shifted.format(n=9)))
    assert family_key(parse(MATMUL.format(m=4, n=5, k=6))) != family_key(parse(stencil.format(n=9)))


def test_families_of_operators() -> None:
    for one, other in [
        (ops.conv2d(1, 64, 56, 56, 64, padding=1), ops.conv2d(1, 128, 28, 28, 256, padding=1)),
        (ops.layer_norm(128, 1024), ops.layer_norm(64, 768)),
        (ops.attention(2, 3, 4, 5), ops.attention(8, 128, 128, 64)),
    ]:
        assert family_key(one) == family_key(other)
        assert program_key(one) != program_key(other)
    plain, strided = ops.conv2d(1, 8, 9, 9, 8, padding=1), ops.conv2d(1, 8, 9, 9, 8, padding=1, stride=2)
    assert family_key(plain) != family_key(strided)
    assert family_key(plain) != family_key(ops.conv2d(1, 8, 9, 9, 8))


def test_keys_do_not_depend_on_the_process() -> None:
    code = (
        "from tilesmith.tensor.text.canonical import *; from tilesmith.tensor.text.parse import parse; "
        f"p = parse({EVERYTHING!r}); print(program_key(p), family_key(p))"
    )
    program = parse(EVERYTHING)
    expected = f"{program_key(program)} {family_key(program)}"
    for seed in ("1", "2"):
        result = subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert result.stdout.strip() == expected


def test_str_of_a_program_is_its_text() -> None:
    program = parse(MATMUL.format(m=2, n=3, k=4))
    assert isinstance(program, Program)
    assert parse(str(program)) == program
    assert isinstance(program.stage("D").bodies[0], Op)


def test_the_examples_of_the_document_are_programs() -> None:
    document = (Path(__file__).parents[3] / "docs" / "text-form.md").read_text()
    examples = re.findall(r"```tensor\n(.*?)```", document, re.DOTALL)
    assert len(examples) >= 3
    for example in examples:
        assert parse(str(parse(example))) == parse(example)
    (shown,) = re.findall(r"```text\n(.*?)\n```", document, re.DOTALL)
    with pytest.raises(ProgramError) as caught:
        parse("input A: f32[4]\nB[i: 4] = A[i + 1]\nreturn B")
    assert str(caught.value) == shown


@settings(max_examples=80, deadline=None)
@given(any_programs())
def test_random_programs_survive_printing_and_renaming(program: Program) -> None:
    assert parse(str(program)) == program
    form = canonical(program)
    assert parse(str(form)) == form
    assert canonical(form) == form
    assert program_key(form) == program_key(program)
    assert family_key(form) == family_key(program)
