"""The grammar of the text form, by recursive descent. What names and numbers mean is decided in parse.py.

    program    = { statement NEWLINE }
    statement  = ("input" | "constant") NAME ":" type
               | "table" NAME ":" type "=" "[" [ number { "," number } ] "]"
               | NAME { "," NAME } axes "=" ( combiner axes "(" expr ")" | expr { "," expr } )
               | "fold" axes "{" { NAME axes ":" DTYPE "=" expr | "let" NAME "=" expr | NAME "=" expr } "}"
               | "return" NAME { "," NAME }
    type       = DTYPE [ "[" [ NUMBER { "," NUMBER } ] "]" ]
    axes       = "[" [ NAME ":" NUMBER { "," NAME ":" NUMBER } ] "]"
    combiner   = "sum" | "prod" | "max" | "min"

    expr       = and { "or" and }
    and        = not { "and" not }
    not        = "not" not | comparison
    comparison = sum [ ("<" | "<=" | ">" | ">=" | "==" | "!=") sum ]
    sum        = product { ("+" | "-") product }
    product    = unary { ("*" | "/" | "//" | "%") unary }
    unary      = "-" unary | atom              "-" before a number is part of the number
    atom       = number | "true" | "false" | NAME | NAME "[" [ expr { "," expr } ] "]"
               | NAME "(" expr { "," expr } ")" | "(" expr ")"

A comment runs from # to the end of the line. Lines may be broken inside ( ) and [ ].
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ...common.errors import ProgramError
from ..language import COMPARED, INFIX, MULTIPLIED, SUMMED
from ..limits import DEPTH, DIGITS, SMALLER, excess
from ..program import COMBINERS
from ..reserved import RESERVED
from .hints import advice_at, character_advice
from .source import SourceText, Span, Token, tokens
from .syntax import (
    Applied,
    AxisText,
    DeclarationText,
    FoldText,
    Indexed,
    Name,
    Number,
    ReturnText,
    StageText,
    StatementText,
    StateText,
    SyntaxNode,
)

_COMPARISONS, _SUMS, _PRODUCTS = (
    {infix.sign: name for name, infix in INFIX.items() if infix.level == level}
    for level in (COMPARED, SUMMED, MULTIPLIED)
)


def _children(node: SyntaxNode) -> tuple[SyntaxNode, ...]:
    return node.args if isinstance(node, Applied) else node.indices if isinstance(node, Indexed) else ()


LITERALS: dict[str, float | bool] = {"inf": math.inf, "nan": math.nan, "true": True, "false": False}


class Parser:
    """Reads one text from left to right."""

    def __init__(self, source: SourceText) -> None:
        self.source = source
        self._tokens = tokens(source, character_advice)
        self._position = 0
        self._inside = 0  # parentheses, minus signs and the like around what is read

    # tokens

    @property
    def _next(self) -> Token:
        return self._tokens[self._position]

    def _take(self) -> Token:
        token = self._next
        if token.kind != "end":
            self._position += 1
        return token

    def _at(self, *texts: str) -> bool:
        return self._next.kind in ("symbol", "name") and self._next.text in texts

    def _accept(self, text: str) -> Token | None:
        return self._take() if self._at(text) else None

    def _expect(self, text: str, purpose: str = "") -> Token:
        if self._at(text):
            return self._take()
        raise self._unexpected(f"{text!r}{' ' + purpose if purpose else ''}")

    def _unexpected(self, expected: str, advice: str = "") -> ProgramError:
        token = self._next
        found = {"newline": "the end of the line", "end": "the end of the text"}.get(token.kind, repr(token.text))
        advice = advice or advice_at(self.source, self._tokens, self._position)
        return self.source.error(token.span, "syntax error", expected=expected, found=found, advice=advice)

    def _close(self, closing: str) -> Token:
        """The end of a list."""
        if not self._at(closing):
            raise self._unexpected(f"',' or {closing!r}")
        return self._take()

    def _name(self, what: str) -> Name:
        token = self._next
        if token.kind != "name":
            raise self._unexpected(what)
        if token.text in RESERVED:
            raise self.source.error(
                token.span,
                f"{token.text!r} is a word of the language and cannot be {what}",
                advice="let stands inside of a fold" if token.text == "let" else "choose another name",
            )
        self._take()
        return Name(token.text, token.span)

    # statements

    def program(self) -> tuple[StatementText, ...]:
        """All statements up to the end of the text."""
        found: list[StatementText] = []
        while True:
            while self._next.kind == "newline":
                self._take()
            if self._next.kind == "end":
                return tuple(found)
            found.append(self._statement())
            self._end_of_line()

    def lone_expression(self) -> SyntaxNode:
        """One expression and nothing after it."""
        node = self.expression()
        self._end_of_line()
        return node

    def _end_of_line(self, expected: str = "an operator or the end of the line") -> None:
        if self._next.kind not in ("newline", "end"):
            raise self._unexpected(expected)

    def _statement(self) -> StatementText:
        if self._at("input", "constant", "table"):
            return self._declaration(self._take().text)
        if self._at("fold"):
            return self._fold()
        if self._at("return"):
            self._take()
            names = [self._name("the name of an output")]
            while self._accept(","):
                names.append(self._name("the name of an output"))
            self._end_of_line("',' and another output, or the end of the line")
            return ReturnText(tuple(names))
        return self._stage()

    def _declaration(self, keyword: str) -> DeclarationText:
        name = self._name("the name of a tensor")
        self._expect(":", "and a type, as in f32[64, 64]")
        dtype = self._dtype()
        shape: list[Number] = []
        if self._accept("["):
            while not self._at("]"):
                shape.append(self._size())
                if not self._accept(","):
                    break
            self._close("]")
        values: list[Number] = []
        if keyword == "table":
            self._expect("=")
            self._expect("[", "and the values in row-major order")
            while not self._at("]"):
                values.append(self._signed())
                if not self._accept(","):
                    break
            self._close("]")
        self._end_of_line("the end of the line" if shape else "'[' and a shape, or the end of the line")
        return DeclarationText(keyword, name, dtype, tuple(shape), tuple(values))

    def _dtype(self) -> Name:
        token = self._next
        if token.kind != "name":
            raise self._unexpected("a dtype, as in f32")
        self._take()
        return Name(token.text, token.span)

    def _stage(self) -> StageText:
        names = [self._name("the name of a tensor")]
        while self._accept(","):
            names.append(self._name("the name of a tensor"))
        axes = self._axes()
        self._expect("=")
        after = self._tokens[self._position + 1]
        if self._at(*COMBINERS) and after.text == "[":
            combiner = self._take().text
            reduction = self._axes()
            self._expect("(")
            body = self.expression()
            self._expect(")")
            return StageText(tuple(names), axes, combiner, reduction, (body,))
        bodies = [self.expression()]
        while self._accept(","):
            bodies.append(self.expression())
        return StageText(tuple(names), axes, None, (), tuple(bodies))

    def _fold(self) -> FoldText:
        keyword = self._take()
        axis = self._axes()
        self._expect("{")
        states: list[StateText] = []
        steps: list[tuple[bool, Name, SyntaxNode]] = []
        while True:
            while self._next.kind == "newline":
                self._take()
            if self._accept("}"):
                return FoldText(axis, tuple(states), tuple(steps), keyword.span)
            let = self._accept("let") is not None
            name = self._name("the name of a tensor of the fold, let, or '}'")
            if not let and self._at("["):
                axes = self._axes()
                self._expect(":", "and a dtype")
                dtype = self._dtype()
                self._expect("=", "and the value to start from")
                states.append(StateText(name, axes, dtype, self.expression()))
            else:
                self._expect("=")
                steps.append((let, name, self.expression()))
            self._end_of_line()

    def _axes(self) -> tuple[AxisText, ...]:
        self._expect("[", "and axes, as in [i: 64, j: 64]")
        found: list[AxisText] = []
        while not self._at("]"):
            name = self._name("the name of an axis")
            self._expect(":", "and an extent, as in i: 64")
            found.append(AxisText(name, self._size()))
            if not self._accept(","):
                break
        self._close("]")
        return tuple(found)

    def _size(self) -> Number:
        if self._next.kind == "name":
            raise self.source.error(
                self._next.span,
                f"the size {self._next.text!r} is no number",
                expected="an integer, as in f32[64, 4] or [i: 64]",
                advice="sizes are part of a program, and every size is a kernel of its own: put the number into the text, as "
                "in parse(f'input A: f32[{n}, 4] ...')",
            )
        number = self._signed()
        if type(number.value) is not int:
            raise self.source.error(number.span, "a size must be an integer", found=str(number.value))
        return number

    def _signed(self) -> Number:
        """A number with or without a sign, or true or false."""
        node = self._unary()
        if not isinstance(node, Number):
            raise self.source.error(node.span, "syntax error", expected="a number")
        return node

    # expressions

    def expression(self) -> SyntaxNode:
        """An expression. Errors: one that is deeper than limits.py allows."""
        found = self._deeper(self._disjunction)
        if self._inside == 0:
            most = excess(found, _children)
            if most:
                raise self.source.error(found.span, "the expression is too large", expected=most, advice=SMALLER)
        return found

    def _deeper(self, read: Callable[[], SyntaxNode]) -> SyntaxNode:
        """Reads what stands inside of a parenthesis, or behind a sign. Errors: it is too deep."""
        if self._inside >= DEPTH:
            raise self.source.error(
                self._next.span, "the expression is too deep",
                expected=f"at most {DEPTH} parentheses, signs and functions inside each other", advice=SMALLER,
            )  # fmt: skip
        self._inside += 1
        found = read()
        self._inside -= 1
        return found

    def _disjunction(self) -> SyntaxNode:
        left = self._conjunction()
        while self._at("or"):
            left = self._binary(left, "or", self._conjunction)
        return left

    def _conjunction(self) -> SyntaxNode:
        left = self._negation()
        while self._at("and"):
            left = self._binary(left, "and", self._negation)
        return left

    def _negation(self) -> SyntaxNode:
        if self._at("not"):
            token = self._take()
            arg = self._deeper(self._negation)
            return Applied(Name("not", token.span), (arg,), token.span.to(arg.span))
        left = self._sum()
        if self._at(*_COMPARISONS):
            left = self._binary(left, _COMPARISONS[self._next.text], self._sum)
            if self._at(*_COMPARISONS):
                raise self._unexpected("'and' between two comparisons", advice="write a < b and b < c")
        return left

    def _sum(self) -> SyntaxNode:
        left = self._product()
        while self._at(*_SUMS):
            left = self._binary(left, _SUMS[self._next.text], self._product)
        return left

    def _product(self) -> SyntaxNode:
        left = self._unary()
        while self._at(*_PRODUCTS):
            left = self._binary(left, _PRODUCTS[self._next.text], self._unary)
        return left

    def _binary(self, left: SyntaxNode, name: str, operand: Callable[[], SyntaxNode]) -> SyntaxNode:
        token = self._take()
        right = operand()
        return Applied(Name(name, token.span), (left, right), left.span.to(right.span))

    def _unary(self) -> SyntaxNode:
        if not self._at("-"):
            return self._atom()
        sign = self._take()
        bare = self._next.kind == "number" or self._at("inf", "nan")
        arg = self._deeper(self._unary)
        span = sign.span.to(arg.span)
        if bare and isinstance(arg, Number):
            return Number(-arg.value, span)
        return Applied(Name("neg", sign.span), (arg,), span)

    def _atom(self) -> SyntaxNode:
        token = self._next
        if token.kind == "number":
            self._take()
            integer = token.text.isdigit()
            if integer and len(token.text) > DIGITS:
                raise self.source.error(
                    token.span, f"a number of {len(token.text)} digits", expected=f"at most {DIGITS} digits"
                )
            return Number(int(token.text) if integer else float(token.text), token.span)
        if token.kind == "name" and token.text in LITERALS:
            self._take()
            return Number(LITERALS[token.text], token.span)
        if token.kind == "name":
            return self._named()
        if self._accept("("):
            inner = self.expression()
            self._expect(")")
            return inner
        raise self._unexpected("a value: a number, NAME[...], function(...) or (...)")

    def _named(self) -> SyntaxNode:
        token = self._take()
        name = Name(token.text, token.span)
        if self._at("["):
            if token.text in COMBINERS:
                raise self.source.error(
                    token.span,
                    "a reduction inside an expression",
                    expected="a reduction as the whole right-hand side of a stage",
                    advice="give the reduction a stage of its own and read that",
                )
            self._take()
            args, end = self._arguments("]")
            return Indexed(name, args, token.span.to(end))
        if self._accept("("):
            args, end = self._arguments(")")
            return Applied(name, args, token.span.to(end))
        return name

    def _arguments(self, closing: str) -> tuple[tuple[SyntaxNode, ...], Span]:
        found: list[SyntaxNode] = []
        while not self._at(closing):
            found.append(self.expression())
            if not self._accept(","):
                break
        return tuple(found), self._close(closing).span
