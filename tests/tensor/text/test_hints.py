"""Natural mistakes: each error says what to write instead."""

from __future__ import annotations

import pytest

from tilesmith.common.errors import ProgramError
from tilesmith.tensor.text.parse import parse

HEAD = "input A: f32[4, 8]\ninput x: f32[4]\n"

# a text after HEAD, and what is advised or expected
MISTAKES = [
    ("y = sum[i: 4](x[i])\nreturn y", "a tensor without axes is written y[] = ..."),
    ("y = x[0]\nreturn y", "a tensor without axes is written y[] = ..."),
    ("y[i: 4 j: 8] = A[i, j]\nreturn y", "',' or ']'"),
    ("y[i: 4, j: 8] = A[i j]\nreturn y", "',' or ']'"),
    ("y[i: 4] = max(x[i] 0)\nreturn y", "',' or ')'"),
    ("y[i: 4] = x[i] ** 2\nreturn y", "pow(x, y)"),
    ("y[i: 4] = x[i] ^ 2\nreturn y", "pow(x, y)"),
    ("y[i: 4] = A[i, :]\nreturn y", "there are no slices"),
    ("y[i: 2] = x[0:2]\nreturn y", "there are no slices"),
    ("y[i: 4] := x[i]\nreturn y", "NAME[axes] = expression"),
    ("y[i: 4] <- x[i]\nreturn y", "NAME[axes] = expression"),
    ("y[i: 4] += x[i]\nreturn y", "each tensor is computed once"),
    ("y[i: 4] = mean[j: 8](A[i, j])\nreturn y", "the reductions are sum, prod, max, min"),
    ("y[i: 4] = sum(j: 8)(A[i, j])\nreturn y", "axes stand in [ ]: sum[k: 64](...)"),
    ("y[i: 4] = sum(A[i, 0])\nreturn y", "a reduction names its axes"),
    ("y[i: 4] = z[i]\nz[i: 4] = x[i]\nreturn y", "line 4 defines it"),
    ("y[i: 4] = y[i] + x[i]\nreturn y", "write a fold"),
    ("y[i: 4] = x[i] if x[i] > 0 else 0\nreturn y", "select(condition, a, b)"),
    ("y[i: 4] = x[i] > 0 ? x[i] : 0\nreturn y", "select(condition, a, b)"),
    ("y[i: 4] = select(x[i] > 0 && x[i] < 1, x[i], 0)\nreturn y", "write and"),
    ("y[i: 4] = select(True, x[i], 0)\nreturn y", "did you mean true?"),
    ("y[i: 4] = x[i];\nreturn y", "a line of its own"),
    ("y[i: 4] = x[i] + 1.0f\nreturn y", "without a suffix"),
    ("y[i: 4] = x[i] + 0x10\nreturn y", "without a suffix"),
    ("y[i: 4] = x[i]\n + 1\nreturn y", "inside of ( ) and [ ] alone"),
    ("y[i: 4] = x[i] + \\\n 1\nreturn y", "inside of ( ) and [ ] alone"),
    ("y[i: 4] = max(x[i], 0\nreturn y", "the ( in line 3 is not closed"),
    ("y[i: 4] = x[i]\nreturn y[i]", "outputs are named without indices"),
    ("input C: f32(4)\ny[i: 4] = x[i]\nreturn y", "a shape stands in [ ]"),
    ("const w: f32[4]\ny[i: 4] = x[i]\nreturn y", "did you mean constant?"),
    ("let a = 3\ny[i: 4] = x[i]\nreturn y", "let stands inside of a fold"),
    ("// hi\ny[i: 4] = x[i]\nreturn y", "a comment begins with #"),
    ("y[i: 4] = math.exp(x[i])\nreturn y", "functions are exp(x)"),
    ("y[i: 4] = x[i] − 1\nreturn y", "write -"),
    ("y[i: 4] = x[i] × 2\nreturn y", "write *"),
    ("y[i: 4] =\u00a0x[i]\nreturn y", "a space of the usual kind"),
    ("α[i: 4] = x[i]\nreturn α", "letters from a to z"),
    ("y[i: ４] = x[i]\nreturn y", "digits"),
    ("y[i: 4] = x[i]\x00\nreturn y", "behind #"),
    ("input C: float[4]\ny[i: 4] = x[i]\nreturn y", "did you mean f32?"),
    ("input C: double[4]\ny[i: 4] = x[i]\nreturn y", "did you mean f64?"),
    ("input C: uint8_t[4]\ny[i: 4] = x[i]\nreturn y", "did you mean u8?"),
    ("input C: bfloat16[4]\ny[i: 4] = x[i]\nreturn y", "did you mean bf16?"),
    ("y[i: 4] = float64(x[i])\nreturn y", "did you mean f64?"),
    ("y[i: 4] = int(x[i])\nreturn y", "did you mean i32 or i64?"),
]


@pytest.mark.parametrize(("text", "told"), MISTAKES)
def test_an_error_says_what_to_write_instead(text: str, told: str) -> None:
    with pytest.raises(ProgramError) as caught:
        parse(HEAD + text)
    error = caught.value
    assert "^" in error.where
    assert told in error.expected + "\n" + error.advice


def test_an_error_shows_no_line_end_of_windows() -> None:
    with pytest.raises(ProgramError) as caught:
        parse((HEAD + "y[i: 4] = q[i]\nreturn y\n").replace("\n", "\r\n"))
    assert caught.value.where == "   3 | y[i: 4] = q[i]\n                 ^"


def test_of_a_long_line_the_column_is_told() -> None:
    before = "y[i: 4] = " + " + ".join(["x[i]"] * 200) + " + "
    with pytest.raises(ProgramError) as caught:
        parse(HEAD + before + "q[i]\nreturn y")
    shown, mark = caught.value.where.split("\n")
    assert shown.startswith(f"   3:{len(before) + 1} | ")
    assert shown[mark.index("^")] == "q"
