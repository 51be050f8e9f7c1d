"""The text form's tokens, and errors marked in the text."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from ...common.errors import ProgramError
from ..limits import TEXT

BYTE_ORDER_MARK = "\ufeff"  # some editors begin a text with it

_SHOWN = 400  # characters of a line in an error

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r]+|\#[^\n]*)
      | (?P<newline>\n)
      | (?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
      | (?P<name>[A-Za-z_][A-Za-z_0-9]*)
      | (?P<symbol>==|!=|<=|>=|//|[-+*/%<>=()\[\]{},:])""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of the text: offsets of its first character and of the one after its last."""

    start: int
    end: int

    def to(self, other: Span) -> Span:
        """Gives the span from the start of this one to the end of the other."""
        return Span(self.start, other.end)


@dataclass(frozen=True, slots=True)
class Token:
    """`kind` is number, name, symbol, newline or end; a keyword is a name."""

    kind: str
    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class SourceText:
    """A text, and the errors found in it."""

    text: str

    def error(self, span: Span, problem: str, *, expected: str = "", found: str = "", advice: str = "") -> ProgramError:
        """An error whose `where` is the line of `span` with a caret below its first character."""
        return ProgramError(problem, expected=expected, found=found, advice=advice, where=self.mark(span))

    def line(self, span: Span) -> int:
        """The number of the line in which `span` starts, from 1."""
        return self.text.count("\n", 0, span.start) + 1

    def mark(self, span: Span) -> str:
        """The line in which `span` starts, numbered, and below it a ^ under the first character, ~ under the others."""
        start = min(span.start, len(self.text))
        line_start = self.text.rfind("\n", 0, start) + 1
        line_end = self.text.find("\n", start)
        line_end = line_end if line_end >= 0 else len(self.text)
        line_end -= self.text.endswith("\r", line_start, line_end)
        margin = f"{self.line(span):>4} | "
        if line_end - line_start > _SHOWN:  # a part of it, with the place in its middle, and its column
            margin = f"{self.line(span):>4}:{start - line_start + 1} | "
            line_start, line_end = max(line_start, start - _SHOWN // 2), min(line_end, start + _SHOWN // 2)
        line = self.text[line_start:line_end]
        width = max(1, min(span.end, line_end) - start)
        # tabs stay tabs, so that the caret stands below its place however wide a tab is
        indent = "".join("\t" if c == "\t" else " " for c in line[: start - line_start])
        return f"{margin}{line}\n{' ' * len(margin)}{indent}^{'~' * (width - 1)}"


def tokens(source: SourceText, advice: Callable[[str], str]) -> list[Token]:
    """The tokens of a text; line ends inside ( ) and [ ] do not count. Errors: a character that starts no token; `advice` says
    what may be meant by it."""
    if len(source.text) > TEXT:
        raise ProgramError("the text is too long", expected=f"at most {TEXT} characters", found=f"{len(source.text)}")
    found: list[Token] = []
    position, depth, text = 0, 0, source.text
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise source.error(
                Span(position, position + 1), f"the character {text[position]!r} starts nothing here",
                advice=advice(text[position]),
            )  # fmt: skip
        kind = match.lastgroup or ""
        span = Span(position, match.end())
        position = match.end()
        if kind == "space" or (kind == "newline" and depth > 0):
            continue
        word = match.group()
        if kind == "symbol":
            depth = max(0, depth + (word in "([") - (word in ")]"))
        found.append(Token(kind, word, span))
    end = Span(len(text), len(text))
    return [*found, Token("newline", "\n", end), Token("end", "", end)]
