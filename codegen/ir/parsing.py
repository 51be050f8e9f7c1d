"""Reads loop IR as `printing.py` prints it: what is printed parses back to the same nodes.

    program    = "program" NAME { "argument" buffer | "global" buffer } { nest }
    nest       = ("prepare" | "nest") NAME [ "of" NUMBER "blocks of" NUMBER "threads" ] ":" body
    buffer     = NAME ":" DTYPE "[" sizes "]" "in" SCOPE [ "padded" ] [ "swizzle" NUMBER ] [ "slots" NUMBER ]
                 [ "=" "[" numbers "]" ]
    statement  = KIND NAME [ "=" expr ] "<" expr [ "unroll" NUMBER ] [ "valid" expr ] ":" body
               | "let" NAME "=" expr body | "allocate" buffer body
               | "if" expr ":" body [ "else:" body ]
               | element ("=" | "=(stream)" | "=(later)" | "=(ahead)" | "+=" | "*=" | "max=" | "min=") expr
               | NAME "[]" "=" "shuffle" "(" NAME "[]" "," NUMBER ")"
               | "tiles" NAME "=" "0" | tile "=" memory | memory "=" tile
               | "tiles" NAME "+=" { NUMBER "*" NUMBER } ":" "rows" NUMBER "apart:" parts "columns" NUMBER "apart:" parts
               | "prefetch" "(" NUMBER ")" element | "barrier" [ NAME { "," NAME } ] | "commit" | "wait" "(" NUMBER ")"
    tile       = "tile" NAME "[" NUMBER "," NUMBER "]"
    memory     = "rows" NUMBER "apart" "at" element
    parts      = { NUMBER ":" element }                                each on a line of its own
    KIND       = "for" | "parallel" | "unroll" | "vector" | "block" | "warp" | "thread"

A body is what is indented deeper. What a `let` or an `allocate` is for stands deeper too, or is all that follows in its
body. Expressions are those of the text form of programs (tensor/text/grammar.py); a bare name is a loop variable, a name
with an index is a buffer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

from ...common.errors import ProgramError
from ...tensor.dtype import DTYPES
from ...tensor.expr import Const, Expr, Read
from ...tensor.limits import DEPTH
from ...tensor.program import Tensor
from ...tensor.text.parse import parse_expr
from ..rows import PitchedRows
from .loop_ir import (
    Allocate,
    Barrier,
    Block,
    Buffer,
    Commit,
    For,
    If,
    Let,
    LoopKind,
    LoopProgram,
    MatrixClear,
    MatrixMove,
    MatrixMultiply,
    Nest,
    Prefetch,
    Scope,
    Shuffle,
    Statement,
    Store,
    Update,
    Wait,
)
from .printing import COMBINED, loop_word

_BUFFER = re.compile(
    r"(\w+): (\w+)\[([\d, ]*)\] in (\w+)( padded)?(?: swizzle (\d+))?(?: slots (\d+))?"
    r"(?: rows (\d+) pitch (\d+))?(?: = \[(.*)\])?$"
)
_NEST = re.compile(r"(prepare|nest) (\w+)(?: of (\d+) blocks of (\d+) threads)?:$")
_LOOP = re.compile(r"(\w+) (\w+)(?: = (.+?))? < (.+?)(?: unroll (\d+))?(?: valid (.+))?:$")
_STORE = re.compile(r"(\w+\[.*?\]) (=|=\((?:stream|later|ahead)\)|\+=|\*=|max=|min=) (.+)$")
_CLEAR = re.compile(r"tiles (\w+) = 0$")
_LOAD = re.compile(r"tile (\w+)\[(\d+), (\d+)\] = rows (\d+) apart at (.+)$")
_SAVE = re.compile(r"rows (\d+) apart at (.+) = tile (\w+)\[(\d+), (\d+)\]$")
_MULTIPLY = re.compile(r"tiles (\w+) \+= (\w+) ([\d* ]+):$")
_SIDE = re.compile(r"(rows|columns) (\d+) apart:$")
_KINDS = {loop_word(kind): kind for kind in LoopKind}
_COMBINERS = {sign: combiner for combiner, sign in COMBINED.items()}


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    depth: int
    text: str


def parse_loops(text: str) -> LoopProgram:
    """The program that `print_loops` printed. ProgramError marks the line that is not as the grammar says."""
    reader = _LoopReader(text)
    try:
        return reader.program()
    except (ValueError, KeyError, IndexError) as error:  # a number that is none, a tile before the first one
        _wrong(reader.lines[max(reader.at - 1, 0)], f"loop IR as print_loops prints it ({error})")


class _LoopReader:
    """Reads lines from top to bottom; `tensors` is what may be indexed where it stands."""

    def __init__(self, text: str) -> None:
        rows = [(n, row) for n, row in enumerate(text.splitlines(), 1) if row.strip()]
        self.lines = [_Line(n, len(row) - len(row.lstrip()), row.strip()) for n, row in rows]
        deepest = max(self.lines, key=lambda line: line.depth, default=None)
        if deepest is not None and deepest.depth > 2 * DEPTH:
            _wrong(deepest, f"at most {DEPTH} statements inside each other")
        self.at = 0
        self.tensors: dict[str, Tensor] = {}

    def program(self) -> LoopProgram:
        """The whole text."""
        name = self._after("program ", "the first line is: program NAME")
        arguments = self._buffers("argument ")
        shared = self._buffers("global ")
        prepare: list[Nest] = []
        nests: list[Nest] = []
        while self.at < len(self.lines):
            line = self._take()
            found = _NEST.match(line.text) or _wrong(line, "a nest, as in: nest t0:")
            word, nest, blocks, threads = found.groups()
            body = self._body(line.depth)
            (prepare if word == "prepare" else nests).append(Nest(nest, body, int(blocks or 0), int(threads or 0)))
        return LoopProgram(name, arguments, shared, tuple(prepare), tuple(nests))

    # ---- lines ---------------------------------------------------------------------------------------------------------

    def _take(self) -> _Line:
        self.at += 1
        return self.lines[self.at - 1]

    def _after(self, word: str, expected: str) -> str:
        if self.at == len(self.lines):
            raise ProgramError("the text of the loops ends too early", expected=expected)
        line = self._take()
        return line.text.removeprefix(word) if line.text.startswith(word) else _wrong(line, expected)

    def _buffers(self, word: str) -> tuple[Buffer, ...]:
        found = []
        while self.at < len(self.lines) and self.lines[self.at].text.startswith(word):
            line = self._take()
            found.append(self._buffer(line, line.text.removeprefix(word)))
        return tuple(found)

    def _buffer(self, line: _Line, text: str) -> Buffer:
        found = _BUFFER.match(text)
        if found is None or found[2] not in DTYPES or found[4] not in set(Scope):
            _wrong(line, "a buffer, as in: copy0: f32[16, 64] in scratch padded")
        name, dtype = found[1], DTYPES[found[2]]
        shape = tuple(int(size) for size in found[3].split(",") if size.strip())
        values = tuple(self._number(line, part, dtype.name) for part in (found[10] or "").split(",") if part.strip())
        self.tensors[name] = Tensor(name, dtype, shape)
        rows = PitchedRows(int(found[8]), int(found[9])) if found[8] else None
        if rows is not None and not rows.fit(shape):
            _wrong(line, "rows that begin where points of a dimension do")
        return Buffer(
            name, dtype, shape, Scope(found[4]), bool(found[5]), values, int(found[6] or 0), int(found[7] or 1), rows
        )

    def _number(self, line: _Line, text: str, dtype: str) -> int | float | bool:
        literal = text.strip() if dtype == "bool" else f"{dtype}({text.strip()})"
        found = self._expr(line, literal)
        return found.value if isinstance(found, Const) else _wrong(line, "numbers")

    def _expr(self, line: _Line, text: str) -> Expr:
        try:
            return parse_expr(text, tensors=self.tensors)
        except ProgramError as error:
            raise ProgramError(
                error.problem, expected=error.expected, found=error.found, advice=error.advice,
                where=f"line {line.number} of the loops: {line.text}",
            ) from None  # fmt: skip

    def _element(self, line: _Line, text: str) -> Read:
        found = self._expr(line, text)
        return found if isinstance(found, Read) else _wrong(line, "an element of a buffer")

    # ---- statements ----------------------------------------------------------------------------------------------------

    def _body(self, depth: int) -> Statement:
        """Returns what is indented deeper than `depth`."""
        if self.at == len(self.lines) or self.lines[self.at].depth <= depth:
            return Block(())
        return self._rest(self.lines[self.at].depth)

    def _scope(self, depth: int) -> Statement:
        """Returns what a `let` or an `allocate` is for: what stands deeper, or else the rest of the body it stands in."""
        deeper = self.at < len(self.lines) and self.lines[self.at].depth > depth
        return self._body(depth) if deeper else self._rest(depth)

    def _rest(self, depth: int) -> Statement:
        """The statements from here on that stand at `depth`; one of them alone is no block."""
        found: list[Statement] = []
        while self.at < len(self.lines) and self.lines[self.at].depth == depth:
            found.append(self._statement(self._take()))
        return found[0] if len(found) == 1 else Block(tuple(found))

    def _statement(self, line: _Line) -> Statement:
        word, _, tail = line.text.partition(" ")
        if word in _KINDS:
            return self._loop(line)
        if word == "let":
            name, _, value = tail.partition(" = ")
            return Let(name, self._expr(line, value), self._scope(line.depth))
        if word == "allocate":
            buffer = self._buffer(line, tail)
            return Allocate(buffer, self._scope(line.depth))
        if word == "if":
            return self._if(line, tail.removesuffix(":"))
        return self._effect(line)

    def _loop(self, line: _Line) -> For:
        found = _LOOP.match(line.text) or _wrong(line, "a loop, as in: for i_1 < i64(8) unroll 2:")
        word, var, index, extent, unroll, valid = found.groups()
        return For(
            var, self._expr(line, extent), self._body(line.depth), _KINDS[word], int(unroll or 1),
            None if valid is None else self._expr(line, valid), None if index is None else self._expr(line, index),
        )  # fmt: skip

    def _if(self, line: _Line, condition: str) -> If:
        test, then = self._expr(line, condition), self._body(line.depth)
        following = self.lines[self.at] if self.at < len(self.lines) else None
        if following is not None and following.depth == line.depth and following.text == "else:":
            self._take()
            return If(test, then, self._body(line.depth))
        return If(test, then)

    def _matrix(self, line: _Line) -> Statement | None:
        """A statement of the matrix unit; None for any other line."""
        if found := _CLEAR.match(line.text):
            return MatrixClear(found[1])
        if found := _LOAD.match(line.text):
            tile = int(found[2]), int(found[3])
            return MatrixMove(found[1], tile, self._element(line, found[5]), int(found[4]), False)
        if found := _SAVE.match(line.text):
            tile = int(found[4]), int(found[5])
            return MatrixMove(found[3], tile, self._element(line, found[2]), int(found[1]), True)
        if found := _MULTIPLY.match(line.text):
            pairs = tuple((int(p), int(q)) for p, q in (pair.split("*") for pair in found[3].split()))
            (rows, high), (columns, wide) = self._tiles("rows"), self._tiles("columns")
            return MatrixMultiply(found[1], rows, columns, (high, wide), pairs, found[2])
        return None

    def _tiles(self, word: str) -> tuple[tuple[tuple[Read, ...], ...], int]:
        """The parts of all tiles of one operand, and how far the rows of a tile are apart."""
        head = self._take()
        side = _SIDE.match(head.text)
        if side is None or side[1] != word:
            _wrong(head, f"{word} and how far they are apart")
        tiles: list[list[Read]] = []
        while self.at < len(self.lines) and self.lines[self.at].depth > head.depth:
            line = self._take()
            number, _, element = line.text.partition(": ")
            if int(number) == len(tiles):
                tiles.append([])
            tiles[int(number)].append(self._element(line, element))
        return tuple(map(tuple, tiles)), int(side[2])

    def _effect(self, line: _Line) -> Statement:
        text = line.text
        matrix = self._matrix(line)
        if matrix is not None:
            return matrix
        if text == "commit":
            return Commit()
        if found := re.match(r"wait\((\d+)\)$", text):
            return Wait(int(found[1]))
        if found := re.match(r"barrier ?(.*)$", text):
            return Barrier(frozenset(name.strip() for name in found[1].split(",") if name.strip()))
        if found := re.match(r"(\w+)\[\] = shuffle\((\w+)\[\], (\d+)\)$", text):
            return Shuffle(found[1], found[2], int(found[3]))
        if found := re.match(r"prefetch\((\d)\) (.+)$", text):
            element = self._element(line, found[2])
            return Prefetch(element.tensor, element.indices, int(found[1]))
        found = _STORE.match(text) or _wrong(line, "a statement of the loop IR")
        element, sign, value = self._element(line, found[1]), found[2], self._expr(line, found[3])
        if sign in _COMBINERS:
            return Update(element.tensor, element.indices, _COMBINERS[sign], value)
        return Store(element.tensor, element.indices, value, "stream" in sign, "later" in sign, "ahead" in sign)


def _wrong(line: _Line, expected: str) -> NoReturn:
    raise ProgramError(f"line {line.number} is no loop IR", expected=expected, found=line.text)
