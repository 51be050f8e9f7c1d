"""One test per error of programs: what it says, and where its mark stands."""

from __future__ import annotations

import math

import pytest

from tilesmith.common.errors import ProgramError
from tilesmith.tensor import build
from tilesmith.tensor.dtype import boolean, f32, i32, i64
from tilesmith.tensor.expr import Const, Expr, Local, Op, Read, Var, const
from tilesmith.tensor.program import Axis, Fold, Input, Program, Stage, Table, Tensor
from tilesmith.tensor.text.parse import parse

HEAD = "input A: f32[4, 4]\ninput n: i32[4]\n"

# text after HEAD, what the problem says, what the caret stands under (None: not checked)
WRONG = [
    ("B[i: 4] = A[i]\nreturn B", "wrong rank", "A[i]"),
    ("B[i: 4] = X[i]\nreturn B", "unknown tensor 'X'", "X"),
    ("B[i: 4] = A[i, j]\nreturn B", "unknown name 'j'", "j"),
    ("B[i: 4] = B[i]\nreturn B", "unknown tensor 'B'", "B"),
    ("B[i: 4] = A[i, i + 1]\nreturn B", "index 1 of A may be out of bounds", "i + 1"),
    ("B[i: 5] = A[i, 0]\nreturn B", "index 0 of A may be out of bounds", "i"),
    ("B[i: 4] = A[i, n[i]]\nreturn B", "may be out of bounds", "n[i]"),
    ("B[i: 4] = select(i > 1 or i < 2, A[i + 1, 0], 0)\nreturn B", "may be out of bounds", "i + 1"),
    ("B[i: 4] = select(i < 3 and A[i + 1, 0] > 0, A[i, 0], 0)\nreturn B", "may be out of bounds", "i + 1"),
    ("B[i: 4] = A[i, 0] + n[i]\nreturn B", "differ in dtype", "+"),
    ("B[i: 4] = n[i] * 0.5\nreturn B", "0.5 is no value of dtype i32", "0.5"),
    ("B[i: 4] = exp(n[i])\nreturn B", "'exp' is not defined on i32", "exp"),
    ("B[i: 4] = A[i, 0.5]\nreturn B", "no value of dtype i64", "0.5"),
    ("B[i: 4] = A[i, A[i, i]]\nreturn B", "an index must be an integer", "A[i, i]"),
    ("B[i: 4] = select(A[i, 0], 1, 2)\nreturn B", "dtype of this number is not known", "1"),
    ("B[i: 4] = select(A[i, 0], A[i, 0], 2)\nreturn B", "select needs a bool condition", "select"),
    ("B[i: 4] = 1\nreturn B", "dtype of this number is not known", "1"),
    ("B[i: 4] = A[i, 0] * sum[k: 4](A[i, k])\nreturn B", "a reduction inside an expression", "sum"),
    ("B[i: 4] = sum[k: 4](A[i, k]) + 1\nreturn B", "syntax error", "+"),
    ("B[i: 4] = sum[k: 4](k > 2)\nreturn B", "sum of bool", "k > 2"),
    ("B[i: 4] = A[i, 0\nreturn B", "syntax error", None),
    ("B[i: 4] = A[i, 0] +\nreturn B", "syntax error", None),
    ("B[i: 4] = A[i, 0] $ 2\nreturn B", "starts nothing here", "$"),
    ("B[i: 4] = 0 < A[i, 0] < 1\nreturn B", "syntax error", "<"),
    ("B[i: 4] = sqr(A[i, 0])\nreturn B", "unknown function 'sqr'", "sqr"),
    ("B[i: 4] = exp(A[i, 0], 2)\nreturn B", "exp takes 1 argument", "exp(A[i, 0], 2)"),
    ("B[i: 4] = A\nreturn B", "without indices", "A"),
    ("B[i: 0] = f32(i)\nreturn B", "axis i has the extent 0", "i: 0"),
    ("B[i: 2.5] = f32(i)\nreturn B", "a size must be an integer", "2.5"),
    ("B[i: 4, i: 4] = f32(i)\nreturn B", "two axes are called 'i'", "i: 4"),
    ("B[max: 4] = f32(max)\nreturn B", "is a word of the language", "max"),
    ("A[i: 4] = f32(i)\nreturn A", "the name 'A' is taken", "A"),
    ("input C: f99[4]\nreturn C", "unknown dtype 'f99'", "f99"),
    ("input C: f32[-4]\nB[i: 4] = A[i, i]\nreturn B", "tensor C has the dimension -4", "C"),
    ("table w: f32[2] = [1, 2, 3]\nB[i: 2] = w[i]\nreturn B", "wrong number of values", "w"),
    ("table w: i32[1] = [1.5]\nB[i: 1] = w[i]\nreturn B", "1.5 is no value of dtype i32", "1.5"),
    ("table w: u8[1] = [256]\nB[i: 1] = w[i]\nreturn B", "256 is no value of dtype u8", "w"),
    ("B, C[i: 4] = A[i, 0]\nreturn B", "differ in number", "B"),
    ("B[i: 4] = A[i, 0]", "returns nothing", None),
    ("B[i: 4] = A[i, 0]\nreturn B\nC[i: 4] = A[i, 0]", "a statement after return", "C"),
    ("B[i: 4] = A[i, 0]\nreturn B, B", "returned twice", None),
    ("return A", "output 'A' is an input", "A"),
    ("B[i: 4] = A[i, 0]\nreturn B, A", "output 'A' is an input", "A"),
    ("return Q", "unknown tensor 'Q'", "Q"),
]

FOLD = "fold[j: 4] {{\n  m[i: 4]: f32 = 0\n  o[i: 4, d: 4]: f32 = 0\n  {}\n}}\nreturn o"
WRONG += [
    (FOLD.format("m = m[i] + A[i, j]"), "gives no new value", "fold"),
    (FOLD.format("m = m[i] + A[i, d]\n  o = o[i, d]"), "unknown axis 'd'", "d"),
    (FOLD.format("m = m[j]\n  o = o[i, d]"), "elsewhere than at its own axes", "m[j]"),
    (FOLD.format("let x = A[i, d]\n  m = x\n  o = o[i, d]"), "depends on d", "x"),
    (FOLD.format("m = x\n  let x = A[i, j]\n  o = o[i, d]"), "unknown name 'x'", "x"),
    (FOLD.format("let i = A[i, j]\n  m = m[i]\n  o = o[i, d]"), "the name 'i' is taken", "i"),
    (FOLD.format("m = m[i]\n  o = o[i, d]\n  q = m[i]"), "'q' is no tensor of this fold", "q"),
    ("fold[j: 4] {\n  m[d: 4]: f32 = 0\n  l[i: 4]: f32 = 0\n  o[i: 4, d: 4]: f32 = 0\n  m = m[d]\n  l = l[i]\n  o = o[i, d]\n}"
     "\nreturn o", "may only drop trailing axes", "m"),
    ("fold[j: 4] {\n  m[i: 5]: f32 = 0\n  o[i: 4, d: 4]: f32 = 0\n  m = m[i]\n  o = o[i, d]\n}\nreturn o",
     "shape of m is not that of its axes", "m"),
    ("fold[j: 4, k: 2] {\n  m[i: 4]: f32 = 0\n  m = m[i]\n}\nreturn m", "exactly one ordered axis", None),
    ("fold[j: 4] {\n}\nreturn m", "a fold without state", "fold"),
    ("fold[j: 4] {\n  m[i: 4]: f32 = A[i, 0]\n  m = m[i]\n}\nreturn m", "a fold starts from numbers", "A[i, 0]"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "problem", "under"), WRONG, ids=[w[1][:30] + str(n) for n, w in enumerate(WRONG)])
def test_wrong_text_is_refused_with_the_place_marked(text: str, problem: str, under: str | None) -> None:
    with pytest.raises(ProgramError) as caught:
        parse(HEAD + text)
    error = caught.value
    assert problem in error.problem
    line, marks = error.where.split("\n")
    number, _, shown = line.partition(" | ")
    assert shown == (HEAD + text).split("\n")[int(number) - 1]
    assert set(marks.strip()) <= {"^", "~"}
    if under is not None:
        start = marks.index("^")
        assert line[start : start + len(marks.strip())] == under


RIGHT = [
    "B[i: 4] = select(i < 3, A[i + 1, 0], 0)",
    "B[i: 4] = select(i == 3, 0, A[i + 1, 0])",
    "B[i: 4] = select(not (i < 1 or i > 3), A[i - 1, 0], 0)",
    "B[i: 4] = select(i < 0, A[i + 100, 0], 0)",  # never reached
    "B[i: 4] = A[i, min(max(n[i], 0), 3)]",
    "B[i: 4] = A[i, n[i] % 4]",
    "B[i: 16] = A[i // 4, i % 4]",
    "B[i: 4, r: 3] = select(i + r - 1 >= 0 and i + r - 1 < 4, A[i + r - 1, 0], 0)",
    "B[i: 7, r: 3] = select((i - r) % 2 == 0 and i - r >= 0 and i - r < 8, A[(i - r) // 2, 0], 0)",
    "B[i: 4] = select(n[i] >= 0 and n[i] < 4, A[i, min(max(n[i], 0), 3)], nan)",
    "B[i: 4] = A[i, select(i >= 1, i - 1, 0)]",
]


@pytest.mark.parametrize("stage", RIGHT)
def test_guards_and_clamps_make_an_index_legal(stage: str) -> None:
    assert parse(HEAD + stage + "\nreturn B").outputs == ("B",)


# Programs made of nodes, past the parser and the builders

A = Tensor("A", f32, (4, 4))
i, j = Axis("i", 4), Axis("j", 4)


def program_of(body: Expr, **changes: object) -> Program:
    parts: dict[str, object] = {
        "tensors": (Tensor("B", body.dtype, (4,)),), "axes": (i,), "bodies": (body,), "reduction": (), "combiner": None,
    } | changes  # fmt: skip
    return Program((Input(A),), (Stage(**parts),), ("B",))  # type: ignore[arg-type]


READ = Read("A", (Var("i"), Var("i")), f32)

BROKEN = [
    (lambda: program_of(Read("A", (Var("i"), Var("j")), f32)), "unknown axis 'j'", "<-- here: j"),
    (lambda: program_of(Read("A", (Var("i"), Var("i") + 1), f32)), "index 1 of A", "<-- here: i + 1"),
    (lambda: program_of(Read("Q", (Var("i"),), f32)), "unknown tensor 'Q'", "<-- here: Q[i]"),
    (lambda: program_of(Read("B", (Var("i"),), f32)), "read in its own definition", "<-- here: B[i]"),
    (lambda: program_of(Read("A", (Var("i"), Var("i")), i32)), "A is read as i32", "<-- here"),
    (lambda: program_of(Read("A", (Var("i"), const(0, i32)), f32)), "index must be an integer", "<-- here"),
    (lambda: program_of(Op("add", (READ, const(1, i32)), f32)), "differ in dtype", "<-- here"),
    (lambda: program_of(Op("lt", (READ, READ), f32)), "'lt' does not give f32", "<-- here"),
    (lambda: program_of(Op("frob", (READ,), f32)), "unknown function 'frob'", ""),
    (lambda: program_of(Local("v", f32)), "unknown value 'v'", "<-- here: v"),
    (lambda: program_of(Const(1, f32)), "1 is no value of dtype f32", "<-- here"),
    (lambda: program_of(Const(2**31, i32)), "is no value of dtype i32", "<-- here"),
    (lambda: program_of(READ, reduction=(j,)), "no combiner", "<-- here"),
    (lambda: program_of(READ, combiner="sum"), "needs one tensor and at least one reduction axis", "<-- here"),
    (lambda: program_of(READ, combiner="mean", reduction=(j,)), "unknown combiner 'mean'", "<-- here"),
    (lambda: program_of(READ, combiner="fold", reduction=(j,)), "exactly one ordered axis", "<-- here"),
    (lambda: program_of(READ, axes=(Axis("i", 3),)), "shape of B is not that of its axes", "<-- here: B"),
    (lambda: program_of(READ, axes=(Axis("2x", 4),)), "'2x' is no name", "<-- here: 2x"),
    (lambda: program_of(READ, tensors=(Tensor("B", i32, (4,)),)), "differ in dtype", "<-- here: A[i, i]"),
    (lambda: program_of(READ, bodies=()), "one expression for each tensor", ""),
    (lambda: Program((Input(A), Input(A)), (), ("A",)), "two tensors are called 'A'", "<-- here: A"),
    (lambda: Program((Input(A),), (), ()), "the program has no output", ""),
    (lambda: Program((Input(A),), (), ("A",), (Table(Tensor("w", boolean, (1,)), (1,)),)), "is no value of dtype bool", ""),
    (lambda: program_of(Read("B", (Var("i"),), f32), reduction=(j,), combiner="fold", fold=Fold((("i",),), ())),
     "a first value for each tensor", ""),
    (lambda: program_of(Read("B", (Var("i"),), f32), reduction=(j,), combiner="fold",
                        fold=Fold((("i",),), (Const(0, i64),))), "its first value differ in dtype", "<-- here: B"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "problem", "mark"), BROKEN, ids=[b[1][:30] for b in BROKEN])
def test_wrong_nodes_are_refused_with_the_stage_marked(make: object, problem: str, mark: str) -> None:
    with pytest.raises(ProgramError) as caught:
        make()  # type: ignore[operator]
    assert problem in caught.value.problem
    assert mark in caught.value.where


def test_builders_refuse_early() -> None:
    a = build.placeholder((4, 4), name="A")
    k = build.reduce_axis(4, "k")
    cases = [
        (lambda: a[0], "wrong rank"),
        (lambda: a[0, 0.5], "indexed with 0.5"),
        (lambda: a[0, build.literal(1.0)], "must be an integer"),
        (lambda: a[0, 0] + build.literal(1, "i32"), "differ in dtype"),
        (lambda: bool(a[0, 0] < 1), "no truth value"),
        (lambda: a[0, 0] ** 2, r"(?s)has no \*\*.*tilesmith\.power"),
        (lambda: build.placeholder((0,)), "positive integers"),
        (lambda: build.placeholder((4,), "f31"), "unknown dtype"),
        (lambda: build.compute((4,), lambda i: a[i, k]), "not reduced over"),
        (lambda: build.compute((4,), lambda i: a[i, i + 1]), "may be out of bounds"),
        (lambda: build.compute((4,), lambda i, j: a[i, j]), "number of parameters"),
        (lambda: build.compute((4,), lambda i: 1.0), "computes an expression"),
        (lambda: build.compute((4,), lambda i: build.sum(build.sum(a[i, k], k), k)), "sum of a reduction"),  # type: ignore[arg-type]
        (lambda: build.compute((4,), lambda i: build.max(a[i, 0], 0)), r"(?s)max runs over axes.*maximum\(a, b\)"),  # type: ignore[arg-type]
        (lambda: build.compute((4,), lambda i: build.sum(a[i, i], [])), "sum runs over axes"),
        (lambda: build.compute((4,), lambda i: (a[i, i], a[i, 0])), "differ in number"),
        (lambda: build.program(a), "output 'A' is an input"),
        (lambda: build.program(Tensor("T", f32, ())), "was not made by"),
        (lambda: build.program(build.compute((4,), lambda i: a[i, i]), inputs=[]), "missing: A"),
        (lambda: build.select(a[0, 0] < 1, 1, 2), "has no dtype"),
    ]
    for make, problem in cases:
        with pytest.raises(ProgramError, match=problem):
            make()
    other = build.placeholder((4,), name="A")
    with pytest.raises(ProgramError, match="two tensors are called 'A'"):
        build.compute((4,), lambda i: a[i, i] + other[i])


def test_nan_is_a_value_like_any_other() -> None:
    stage = parse("input A: f32[4]\nB[i: 4] = select(A[i] < 0, nan, A[i])\nreturn B").stages[0]
    assert any(isinstance(n, Const) and math.isnan(n.value) for n in stage.bodies[0].args)  # type: ignore[attr-defined]
