"""gelu, silu and relu in the text form and in Python: the operators' own."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tilesmith as ts
from tilesmith.common.errors import ProgramError
from tilesmith.tensor.dtype import f32
from tilesmith.tensor.expr import Read, Var, children, with_children
from tilesmith.tensor.text.canonical import program_key
from tilesmith.tensor.wholes import whole


@pytest.mark.parametrize("name", ["gelu", "silu", "relu"])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_they_are_the_operators(name: str, dtype: str) -> None:
    text = ts.parse(f"input x: {dtype}[64]\nout[i: 64] = {name}(x[i])\nreturn out")
    x = ts.placeholder((64,), dtype)
    python = ts.program(ts.compute((64,), lambda i: getattr(ts, name)(x[i])))
    operator = getattr(ts.ops, name)(64, dtype=dtype)
    assert program_key(python) == program_key(text) == program_key(operator)
    assert ts.parse(str(text)) == text  # it prints as what it stands for


@pytest.mark.parametrize("program", [
    ts.ops.gelu(64), ts.ops.gelu(64, dtype="f64"), ts.ops.gelu(64, dtype="bf16"), ts.ops.bias_gelu(4, 32),
    ts.ops.geglu(4, 32), ts.ops.matmul_bias_gelu(16, 32, 16),
    ts.parse("input x: f16[64]\nout[i: 64] = 1 - gelu(x[i] * 2)\nreturn out"),
], ids=["f32", "f64", "bf16", "bias", "gated", "matmul", "f16 within more"])  # fmt: skip
def test_code_takes_gelu_as_a_whole(program: ts.Program) -> None:
    """Its parts, the function erfc among them, would take half as many instructions again; the model counts the whole too."""
    text = ts.compile(program, threads=1).text("llvm")
    assert "@tilesmith.gelu." in text and "@tilesmith.erfc." not in text


def test_what_is_like_gelu_is_not_taken_for_it() -> None:
    x, y = (Read(name, (Var("i"),), f32) for name in "xy")
    assert whole(ts.gelu(x)) == ("gelu", x)
    mixed = with_children(ts.gelu(x), (children(ts.gelu(x))[0], children(ts.gelu(y))[1]))
    assert whole(mixed) is None
    for other in (ts.erfc(x), x * ts.erfc(x * 2), x * 0.5 * ts.erfc(x * -math.sqrt(0.5)), ts.silu(x)):
        assert whole(other) is None


def test_they_may_be_names_too() -> None:
    program = ts.parse("input gelu: f32[4]\nrelu[silu: 4] = relu(gelu[silu]) + silu(gelu[silu] * 2)\nreturn relu")
    x = np.array([-1, 0, 1, 2], np.float32)
    wanted = np.maximum(x, 0) + 2 * x / (1 + np.exp(-2 * x))
    np.testing.assert_allclose(ts.compile(program, threads=1)(x), wanted, rtol=1e-6)


@pytest.mark.parametrize(("line", "message"), [
    ("gelu(x[i], 1)", r"(?s)gelu takes 1 argument\b.*2 arguments"), ("geluu(x[i])", "did you mean gelu"),
    ("gelu(i)", "(?s)gelu|erfc"),
])  # fmt: skip
def test_wrong_uses(line: str, message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        ts.parse(f"input x: f32[4]\nout[i: 4] = {line}\nreturn out")


def test_a_size_that_is_a_name_is_told_what_to_do() -> None:
    for text in ("input A: f32[n, 4]\nB[i: 4] = A[0, i]\nreturn B", "input A: f32[4]\nB[i: n] = A[i]\nreturn B"):
        with pytest.raises(ProgramError, match=r"(?s)the size 'n' is no number.*\^.*f32\[64, 4\].*put the number"):
            ts.parse(text)


def test_programs_are_short_in_a_notebook() -> None:
    program = ts.parse("input a: f32[2]\nconstant w: bf16[3, 4]\nb[i: 2] = a[i] + f32(w[i, 0])\nreturn b")
    assert repr(program) == "<Program (a: f32[2], constant w: bf16[3, 4]) -> b: f32[2], 1 stage>"
    compared = ts.parse("input a: f32[2]\nb[i: 2] = select(a[i] < 0, 0, a[i])\nreturn b")
    assert compared._repr_html_().startswith("<pre>input a: f32[2]\nb") and "&lt; 0" in compared._repr_html_()
