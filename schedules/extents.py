"""Extents in their four lives: one code for all.

    not known yet                `Sym`: an expression over tunables, axis extents and target numbers; it prints and parses
    of one config                int
    of a population              NumPy int64 array, one entry for each candidate
    of any population, later     `Column`: what is done to it is written down, and played for one population after another

A template runs on the first, and so does the opening of a sketch for a program (opened.py), after which only tunables are not
known; from what has been opened come the other lives. Lowering asks for the second, cost models take the last three.

Arithmetic that must work in all four is written with + - * // %, comparisons, and the functions below. `bool()` of a Sym or a
Column raises: what depends on a tunable cannot steer Python code.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Union

import numpy as np
from numpy.typing import NDArray

from ..common.errors import TemplateError
from ..tensor.limits import size_of
from .recording import Column

Array = NDArray[np.int64]
KnownExtent = Union[int, Array, Column]
Extent = Union[KnownExtent, "Sym"]
Condition = Union[Extent, bool, NDArray[np.bool_]]  # what a comparison of extents gives
Environment = Mapping[str, KnownExtent]

# Leaves name a number: a tunable ("i.tile"), or a function of a name: extent(t0.a1), lanes(f32), target(vector_registers).
LEAF_FUNCTIONS = ("extent", "lanes", "target")
_INFIX = {
    "+": 4, "-": 4, "*": 5, "//": 5, "%": 5,
    "<=": 1, "<": 1, ">=": 1, ">": 1, "==": 1, "!=": 1, "&": 3, "|": 2,
}  # fmt: skip  # as in Python, whose parser reads the text: & binds closer than a comparison
_PREFIX = ("ceildiv", "min", "max")


@dataclass(frozen=True, slots=True, eq=False)
class Sym:
    """An extent that is not known yet. `op` is "leaf" (args = (name,)), an infix operator, or ceildiv, min, max."""

    op: str
    args: tuple[Union[int, str, Sym], ...]

    def __add__(self, other: Extent) -> Sym:
        return _infix("+", self, other)

    def __radd__(self, other: Extent) -> Sym:
        return _infix("+", other, self)

    def __sub__(self, other: Extent) -> Sym:
        return _infix("-", self, other)

    def __rsub__(self, other: Extent) -> Sym:
        return _infix("-", other, self)

    def __mul__(self, other: Extent) -> Sym:
        return _infix("*", self, other)

    def __rmul__(self, other: Extent) -> Sym:
        return _infix("*", other, self)

    def __floordiv__(self, other: Extent) -> Sym:
        return _infix("//", self, other)

    def __rfloordiv__(self, other: Extent) -> Sym:
        return _infix("//", other, self)

    def __mod__(self, other: Extent) -> Sym:
        return _infix("%", self, other)

    def __rmod__(self, other: Extent) -> Sym:
        return _infix("%", other, self)

    def __le__(self, other: Extent) -> Sym:
        return _infix("<=", self, other)

    def __lt__(self, other: Extent) -> Sym:
        return _infix("<", self, other)

    def __ge__(self, other: Extent) -> Sym:
        return _infix(">=", self, other)

    def __gt__(self, other: Extent) -> Sym:
        return _infix(">", self, other)

    def __eq__(self, other: object) -> Sym:  # type: ignore[override]
        return _infix("==", self, other)  # type: ignore[arg-type]

    def __ne__(self, other: object) -> Sym:  # type: ignore[override]
        return _infix("!=", self, other)  # type: ignore[arg-type]

    def __and__(self, other: Extent) -> Sym:
        return _infix("&", self, other)

    def __or__(self, other: Extent) -> Sym:
        return _infix("|", self, other)

    __hash__ = None  # type: ignore[assignment]  # equality of two unknown numbers is unknown too

    def __bool__(self) -> bool:
        raise TemplateError(
            f"the truth of '{self}' is not known while a template runs",
            expected="Python code that does not depend on tunables",
            advice="use s.require(condition, reason) to rule configs out, or s.variant(name, options) to choose a structure",
        )

    def __index__(self) -> int:
        raise TemplateError(
            f"the number '{self}' is not known while a template runs",
            advice="pass it on as it is: steps take expressions",
        )

    def __str__(self) -> str:
        return to_text(self)


def as_extent(condition: Condition) -> Extent:
    """A condition as a number: 1 where it holds, 0 elsewhere. A symbolic one stays as it is."""
    if isinstance(condition, Sym):
        return condition
    return _number(condition) if isinstance(condition, (np.ndarray, Column)) else int(condition)


def _number(condition: NDArray[Any] | Column) -> Array | Column:
    found: Array | Column = condition.astype(np.int64)
    return found


def leaf(name: str) -> Sym:
    """A named number: "i.tile", "extent(t0.a0)", "lanes(f32)", "target(cores)"."""
    return Sym("leaf", (name,))


def _infix(op: str, left: Extent, right: Extent) -> Sym:
    neutral = {"*": 1, "+": 0}.get(op)
    for this, other in ((left, right), (right, left)):
        if isinstance(this, int) and this == neutral and isinstance(other, Sym):
            return other
    return Sym(op, (_argument(left), _argument(right)))


def _argument(value: Extent) -> int | Sym:
    if isinstance(value, Sym):
        return value
    if isinstance(value, (np.ndarray, Column)):
        raise TypeError("arrays and unknown extents do not mix")
    return int(value)


def ceildiv(a: Extent, b: Extent) -> Extent:
    """a / b rounded up, for a >= 0 and b >= 1."""
    if isinstance(a, Sym) or isinstance(b, Sym):
        if not isinstance(b, Sym) and isinstance(b, int) and b == 1:
            return a
        return Sym("ceildiv", (_argument(a), _argument(b)))
    return -(-a // b)


def minimum(a: Extent, b: Extent) -> Extent:
    """The smaller one, entry by entry."""
    if isinstance(a, Sym) or isinstance(b, Sym):
        return Sym("min", (_argument(a), _argument(b)))
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b)
    return np.minimum(a, b)


def maximum(a: Extent, b: Extent) -> Extent:
    """The larger one, entry by entry."""
    if isinstance(a, Sym) or isinstance(b, Sym):
        return Sym("max", (_argument(a), _argument(b)))
    if isinstance(a, int) and isinstance(b, int):
        return max(a, b)
    return np.maximum(a, b)


_FUNCTIONS = {"ceildiv": ceildiv, "min": minimum, "max": maximum}


def round_up(a: Extent, b: Extent) -> Extent:
    """The smallest multiple of b that is at least a."""
    return ceildiv(a, b) * b


def product(values: Iterator[Extent] | list[Extent] | tuple[Extent, ...]) -> Extent:
    """The product; 1 for none."""
    total: Extent = 1
    for value in values:
        total = value if isinstance(total, int) and total == 1 else total * value
    return total


def evaluate(value: Extent, environment: Environment) -> KnownExtent:
    """The number (or the array or column of numbers) that an extent stands for. KeyError: a leaf that the environment lacks."""
    result = substitute(value, environment)
    assert not isinstance(result, Sym)
    return result


def substitute(value: Extent, known: Mapping[str, Extent]) -> Extent:
    """The extent with its leaves replaced: a number where all of them are numbers. KeyError: a leaf that is not known."""
    if not isinstance(value, Sym):
        return value
    if value.op == "leaf":
        return known[str(value.args[0])]
    left, right = (a if isinstance(a, int) else substitute(a, known) for a in value.args if not isinstance(a, str))
    return combine(value.op, left, right)


def combine(op: str, a: Extent, b: Extent) -> Extent:
    """`a op b`, for an infix operator or ceildiv, min, max."""
    if op in _FUNCTIONS:
        return _FUNCTIONS[op](a, b)
    return _infix(op, a, b) if isinstance(a, Sym) or isinstance(b, Sym) else _apply(op, a, b)


def _apply(op: str, a: KnownExtent, b: KnownExtent) -> KnownExtent:
    match op:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "//":
            return a // b
        case "%":
            return a % b
        case "&" | "|":
            both = np.logical_and(a, b) if op == "&" else np.logical_or(a, b)
        case "<=":
            both = np.less_equal(a, b)
        case "<":
            both = np.less(a, b)
        case ">=":
            both = np.greater_equal(a, b)
        case ">":
            both = np.greater(a, b)
        case "==":
            both = np.equal(a, b)
        case "!=":
            both = np.not_equal(a, b)
        case _:
            raise TypeError(f"unknown extent operator {op!r}")
    return int(both) if isinstance(both, np.bool_) else _number(both)


def leaves(value: Extent) -> frozenset[str]:
    """The names that an extent depends on."""
    if not isinstance(value, Sym):
        return frozenset()
    if value.op == "leaf":
        return frozenset((str(value.args[0]),))
    return frozenset().union(*(leaves(a) for a in value.args if isinstance(a, Sym)))


def to_text(value: Extent) -> str:
    """The text of an extent; `parse_extent` gives it back."""
    return _text(value, 0)


def _text(value: Extent | str, outer: int) -> str:
    if not isinstance(value, Sym):
        return str(value)
    if value.op == "leaf":
        return str(value.args[0])
    if value.op in _PREFIX:
        return f"{value.op}({', '.join(_text(a, 0) for a in value.args)})"
    level = _INFIX[value.op]
    left, right = value.args
    text = f"{_text(left, level)} {value.op} {_text(right, level + 1)}"
    chained = level == outer == 1  # a < b < c means something else
    return f"({text})" if level < outer or chained else text


def parse_extent(text: str) -> Extent:
    """The extent that a text stands for. The text is data: it is parsed, never run. ValueError for anything else."""
    return _from_node(parsed_expression(text))


_LONGEST = 4000  # characters of one expression
_DEEPEST = 200  # operators and calls inside each other
_NO_PART = re.compile(r"[\\\x00-\x08\x0e-\x1f\x7f]")  # of a backslash Python makes warnings


def parsed_expression(text: str) -> ast.expr:
    """The syntax tree of an extent, a step or a rewrite. ValueError for anything that none of these can be."""
    stripped = text.strip()
    strange = _NO_PART.search(stripped)
    if len(stripped) > _LONGEST or strange:
        what = f"{strange[0]!r} in it" if strange else f"{len(stripped)} characters"
        raise ValueError(f"not an expression of at most {_LONGEST} characters: {what}")
    try:
        tree: ast.AST = ast.parse(stripped, mode="eval")
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(f"not an expression: {stripped[:80]!r} ({error})") from None
    if size_of(tree, _parts)[1] > _DEEPEST:
        raise ValueError(f"more than {_DEEPEST} operators inside each other: {stripped[:80]!r}")
    assert isinstance(tree, ast.Expression)
    return tree.body


def _parts(node: ast.AST) -> list[ast.AST]:
    return list(ast.iter_child_nodes(node))


_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Mod: "%", ast.BitAnd: "&", ast.BitOr: "|",
    ast.LtE: "<=", ast.Lt: "<", ast.GtE: ">=", ast.Gt: ">", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip


def dotted(node: ast.AST) -> str:
    """The dotted name that a parsed expression spells. ValueError if it is anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    raise ValueError(f"expected a name, found {ast.unparse(node)!r}")


def _from_node(node: ast.AST) -> Extent:
    match node:
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(number))):
            return -number
        case ast.Name() | ast.Attribute():
            return leaf(dotted(node))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return Sym(_OPERATORS[type(op)], (_operand(left), _operand(right)))
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return Sym(_OPERATORS[type(op)], (_operand(left), _operand(right)))
        case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in LEAF_FUNCTIONS:
            return leaf(f"{name}({dotted(argument)})")
        case ast.Call(func=ast.Name(id=name), args=[left, right], keywords=[]) if name in _PREFIX:
            return Sym(name, (_operand(left), _operand(right)))
    raise ValueError(f"not an extent: {ast.unparse(node)!r}")


def _operand(node: ast.AST) -> int | Sym:
    value = _from_node(node)
    assert isinstance(value, (Sym, int))  # a text has no arrays
    return value


def symbolic(node: ast.AST) -> Extent:
    """Works as `parse_extent`, from a node of an already parsed text."""
    return _from_node(node)
