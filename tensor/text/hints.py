"""What to write instead: advice for those who think of Python, C or NumPy, or who have left something out."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

from ...common.near import did_you_mean
from ..dtype import DTYPES
from ..program import COMBINERS
from ..reserved import KEYWORDS
from .source import SourceText, Token

_POWER = "a power is written pow(x, y), of floats; a square is x * x"
_CHOICE = "a choice is written select(condition, a, b)"
_LINES = "a line may be broken inside of ( ) and [ ] alone"
_SUM = "a sum is written y[i: 64] = sum[k: 64](...), which names its axes"
_CHARACTERS = {
    ";": "each statement has a line of its own, which nothing ends",
    "&": "write and", "|": "write or", "!": "write not, or !=", "?": _CHOICE, "^": _POWER, "@": _SUM,
    "'": "names stand without quotes", '"': "names stand without quotes", "`": "names stand without quotes",
    "\\": _LINES, ".": "names have no points: functions are exp(x), not math.exp(x)",
    "×": "write *", "·": "write *", "÷": "write /", "≤": "write <=", "≥": "write >=", "≠": "write !=",
}  # fmt: skip
_DTYPES = {"float": "f32", "double": "f64", "half": "f16", "int": "i32 or i64", "long": "i64", "short": "i16"}
_SIZED = re.compile(r"(u?int|b?float|fp)(\d+)(_t)?")
_LETTERS = {"uint": "u", "int": "i", "float": "f", "fp": "f", "bfloat": "bf"}


def character_advice(character: str) -> str:
    """Returns advice for a character that begins nothing."""
    kind = unicodedata.category(character)
    if character in _CHARACTERS:
        return _CHARACTERS[character]
    if kind == "Pd" or character == "−":
        return "write -, the sign of keyboards"
    if kind == "Zs":
        return "write a space of the usual kind"
    if kind[0] in "LN":
        return "names are letters from a to z, A to Z, digits and _"
    return "it may stand in a comment, behind #"


def dtype_advice(name: str) -> str:
    """Returns advice for a name that is no dtype."""
    sized = _SIZED.fullmatch(name)
    meant = _LETTERS[sized[1]] + sized[2] if sized else _DTYPES.get(name, "")
    return f"did you mean {meant}?" if meant in DTYPES or name in _DTYPES else did_you_mean(name, DTYPES)


def function_advice(name: str, known: Iterable[str]) -> str:
    """Returns advice for a name that is no function."""
    if name in COMBINERS:
        return f"a reduction names its axes, and is all of a stage's right-hand side: y[i: 64] = {name}[k: 64](...)"
    dtype = dtype_advice(name) if name in _DTYPES or _SIZED.fullmatch(name) else ""
    return dtype or did_you_mean(name, known)


def advice_at(source: SourceText, tokens: Sequence[Token], position: int) -> str:
    """Returns advice for a token that cannot stand where it does."""
    start = next((n + 1 for n in range(position - 1, -1, -1) if tokens[n].kind == "newline"), 0)
    line = tokens[start : position + 2]
    own = position - start
    here, before, after = (line[n].text if 0 <= n < len(line) else "" for n in (own, own - 1, own + 1))
    opened = _opened(line[:own])
    if here == "*" and before == "*":
        return _POWER
    if here == ":" and opened is not None:
        return _colon_advice(line, opened, tokens[position:])
    if here == "if":
        return _CHOICE
    if (here, after) in ((":", "="), ("<", "-")):
        return "a stage is written NAME[axes] = expression"
    if after == "=" and here in ("+", "-", "*", "/", "//", "%"):
        return f"each tensor is computed once; {_SUM}"
    if own and line[own].kind == "name" and line[own - 1].kind == "number" and _touch(line[own - 1], line[own]):
        return "numbers are written 16, 0.5 or 1e-5, without a suffix or a base; their dtypes as in f32(0.5)"
    if opened is not None and source.line(line[opened].span) < source.line(line[own].span):
        return f"the {line[opened].text} in line {source.line(line[opened].span)} is not closed"
    return _start_advice(line, own) if opened is None else ""


def _start_advice(line: Sequence[Token], own: int) -> str:
    """Returns advice for a token outside of parentheses, by what its line begins with."""
    first, here = line[0].text, line[own].text
    if own == 0 and here == "//":
        return "a comment begins with #"
    if own == 0 and line[0].kind == "symbol":
        return f"each statement has a line of its own, and {_LINES}"
    if own == 1 and here == "=" and line[0].kind == "name":
        return f"a tensor without axes is written {first}[] = ..."
    if own == 1 and line[1].kind == "name":
        return did_you_mean(first, KEYWORDS)
    if first == "return" and here == "[":
        return "outputs are named without indices: return y"
    if first in ("input", "constant", "table") and here == "(":
        return "a shape stands in [ ], as in f32[64, 64]"
    return ""


def _colon_advice(line: Sequence[Token], opened: int, rest: Sequence[Token]) -> str:
    """Returns advice for a colon inside of a parenthesis: axes of a reduction in the wrong place, or a slice."""
    name = line[opened - 1].text if opened and line[opened - 1].kind == "name" else ""
    if line[opened].text == "(":
        return f"axes stand in [ ]: {name}[k: 64](...)" if name in COMBINERS else ""
    if [token.text for token in rest[2:4]] == ["]", "("]:
        return "the reductions are " + ", ".join(COMBINERS)
    return "there are no slices: a stage names an axis for each dimension, y[i: 4, j: 8] = x[i, j + 2]"


def _opened(before: Sequence[Token]) -> int | None:
    """The place of the last parenthesis that nothing has closed."""
    waiting: list[int] = []
    for number, token in enumerate(before):
        if token.kind == "symbol" and token.text in "([":
            waiting.append(number)
        elif token.kind == "symbol" and token.text in ")]" and waiting:
            waiting.pop()
    return waiting[-1] if waiting else None


def _touch(one: Token, other: Token) -> bool:
    return one.span.end == other.span.start
