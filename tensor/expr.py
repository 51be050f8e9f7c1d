"""Scalar expressions: the right-hand sides of stages, and their indices.

Grammar:

    expr  = Const(value, dtype)            a literal
          | Var(name)                      an axis (or, in loop IR, a loop variable); always i64
          | Read(tensor, indices, dtype)   one element of a tensor (or, in loop IR, of a buffer)
          | Op(name, args, dtype)          arithmetic, comparison, logic, select, mathematics, words; see language.py
          | Cast(arg, dtype)               conversion, rounding toward zero from float to integer
          | Local(name, dtype)             a value named inside the body of a fold

Nodes are frozen and hashable; nothing is evaluated here. Python operators on nodes build nodes, with the dtype rules of
`binary`: both operands have one dtype, and a Python number takes the dtype of the other operand.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import is_not
from typing import Any, Union

from ..common.errors import ProgramError
from .dtype import DType, boolean, i64
from .language import OPERATORS
from .limits import TreeSize

PythonNumber = Union[int, float, bool]
Operand = Union["Expr", int, float, bool]


class Expr:
    """Base of all nodes. `dtype` is known for every node.

    Nodes never change, so what is asked of the same ones again and again stays with them: their hash, the names of their
    variables, how many nodes and levels they have, their affine form (indices/forms.py), what they become when simplified
    (indices/affine.py) and their range (indices/operator_ranges.py). None of it is compared, copied or pickled.
    """

    __slots__ = ("_affine", "_hash", "_reach", "_simple", "_size", "_variables")
    dtype: DType
    _affine: Any
    _hash: int
    _reach: Any
    _simple: Any
    _size: TreeSize
    _variables: frozenset[str]

    def __add__(self, other: Operand) -> Expr:
        return binary("add", self, other)

    def __radd__(self, other: Operand) -> Expr:
        return binary("add", other, self)

    def __sub__(self, other: Operand) -> Expr:
        return binary("sub", self, other)

    def __rsub__(self, other: Operand) -> Expr:
        return binary("sub", other, self)

    def __mul__(self, other: Operand) -> Expr:
        return binary("mul", self, other)

    def __rmul__(self, other: Operand) -> Expr:
        return binary("mul", other, self)

    def __truediv__(self, other: Operand) -> Expr:
        return binary("div", self, other)

    def __rtruediv__(self, other: Operand) -> Expr:
        return binary("div", other, self)

    def __floordiv__(self, other: Operand) -> Expr:
        return binary("floordiv", self, other)

    def __mod__(self, other: Operand) -> Expr:
        return binary("mod", self, other)

    def __neg__(self) -> Expr:
        return Op("neg", (self,), self.dtype)

    def __lt__(self, other: Operand) -> Expr:
        return binary("lt", self, other)

    def __le__(self, other: Operand) -> Expr:
        return binary("le", self, other)

    def __gt__(self, other: Operand) -> Expr:
        return binary("gt", self, other)

    def __ge__(self, other: Operand) -> Expr:
        return binary("ge", self, other)

    def equal(self, other: Operand) -> Expr:
        """Element equality. (`==` compares the nodes themselves.)"""
        return binary("eq", self, other)

    def not_equal(self, other: Operand) -> Expr:
        """Element inequality. (`!=` compares the nodes themselves.)"""
        return binary("ne", self, other)

    def __and__(self, other: Operand) -> Expr:
        return binary("and", self, other)

    def __or__(self, other: Operand) -> Expr:
        return binary("or", self, other)

    def __invert__(self) -> Expr:
        return Op("not", (self,), boolean)

    def cast(self, dtype: DType) -> Expr:
        """This value converted to `dtype`."""
        return self if dtype == self.dtype else Cast(self, dtype)

    def __bool__(self) -> bool:
        raise ProgramError(
            "a tensor expression has no truth value while a program is written",
            advice="use select(condition, a, b) for a choice between elements",
        )

    def __pow__(self, exponent: object) -> Expr:
        raise ProgramError(
            "an expression has no **", advice="write tilesmith.power(x, y), of floats; a square is x * x"
        )


@dataclass(frozen=True, slots=True, eq=True)
class Const(Expr):
    """A literal. `value` is bool for bool, int for integers, float for floats (inf and nan included).

    Literals are equal if they are the same value, bit for bit: -0.0 is not 0.0, and nan is nan.
    """

    value: PythonNumber
    dtype: DType

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Const):
            return NotImplemented
        a, b = self.value, other.value
        same = a == b and (a != 0 or math.copysign(1, a) == math.copysign(1, b))
        return self.dtype is other.dtype and (same or (math.isnan(a) and math.isnan(b)))

    def __hash__(self) -> int:
        return hash((None if math.isnan(self.value) else self.value, self.dtype))


@dataclass(frozen=True, slots=True, eq=True)
class Var(Expr):
    """An axis of the stage, or a loop variable in loop IR."""

    name: str

    @property
    def dtype(self) -> DType:  # type: ignore[override]
        """Returns i64, in which all axes count."""
        return i64


@dataclass(frozen=True, slots=True, eq=True)
class Read(Expr):
    """An element of `tensor`. In a fold body, a read of one of the fold's own tensors is its value before this step."""

    tensor: str
    indices: tuple[Expr, ...]
    dtype: DType

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            return _keep_hash(self, hash((self.tensor, self.indices, self.dtype)))


@dataclass(frozen=True, slots=True, eq=True)
class Op(Expr):
    """An operator applied; `name` is that of an entry of the table in language.py."""

    name: str
    args: tuple[Expr, ...]
    dtype: DType

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            return _keep_hash(self, hash((self.name, self.args, self.dtype)))


@dataclass(frozen=True, slots=True, eq=True)
class Cast(Expr):
    """`arg` converted to `dtype`."""

    arg: Expr
    dtype: DType

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            return _keep_hash(self, hash((self.arg, self.dtype)))


@dataclass(frozen=True, slots=True, eq=True)
class Local(Expr):
    """A value that a fold body has named."""

    name: str
    dtype: DType


_LEAVES = (Var, Const, Local)  # a tuple is looked through in a fifth of the time that `Var | Const | Local` takes

_LEAF: TreeSize = (1, 1)

_keep = object.__setattr__  # nodes are frozen for everybody else


def _keep_hash(node: Expr, found: int) -> int:
    _keep(node, "_hash", found)
    return found


def const(value: PythonNumber, dtype: DType) -> Const:
    """A literal of `dtype`; refuses a number that the dtype cannot hold (2.5 as an integer)."""
    if dtype == boolean:
        return Const(bool(value), dtype)
    if dtype.is_float:
        return Const(float(value), dtype)
    if not math.isfinite(value) or int(value) != value:
        raise ProgramError(f"the number {value} is not an integer", expected=f"a value of dtype {dtype}")
    return Const(int(value), dtype)


def as_expr(value: Operand, like: Expr) -> Expr:
    """`value` as a node; a Python number takes the dtype of `like`."""
    return value if isinstance(value, Expr) else const(value, like.dtype)


def binary(name: str, left: Operand, right: Operand) -> Expr:
    """A two-operand node. Errors: operands of two dtypes, or an operator that the dtype lacks."""
    if not isinstance(left, Expr):
        if not isinstance(right, Expr):
            raise ProgramError(f"{name} of two Python numbers is no tensor expression")
        left = as_expr(left, right)
    right = as_expr(right, left)
    if left.dtype != right.dtype:
        raise ProgramError(
            f"operands of {name!r} differ in dtype",
            expected=f"{left.dtype} on both sides",
            found=f"{left.dtype} and {right.dtype}",
            advice="cast one of them explicitly",
        )
    return Op(name, (left, right), _result(name, left.dtype))


def call(name: str, *args: Expr) -> Expr:
    """A function or `select` applied. Errors: as for `binary`, and a wrong number of arguments."""
    operator = OPERATORS.get(name)
    if operator is None or operator.arity != len(args):
        raise ProgramError(
            f"unknown function {name!r}" if operator is None else f"{name} takes {operator.arity} arguments",
            found=f"{len(args)} arguments",
            advice="functions: " + ", ".join(sorted(OPERATORS)),
        )
    if name == "select":
        condition, yes, no = args
        if condition.dtype != boolean or yes.dtype != no.dtype:
            raise ProgramError(
                "select needs a bool condition and two values of one dtype",
                found=f"select({condition.dtype}, {yes.dtype}, {no.dtype})",
            )
        return Op(name, args, yes.dtype)
    if len(args) == 2:
        return binary(name, *args)
    return Op(name, args, _result(name, args[0].dtype))


def _result(name: str, dtype: DType) -> DType:
    """The dtype of what an operator gives for operands of `dtype`. Errors: it is not defined on them."""
    signature = OPERATORS[name].signature
    if dtype not in signature.takes:
        raise ProgramError(f"{name!r} is not defined on {dtype}", advice="cast the operands explicitly")
    return signature.gives or dtype


def children(expr: Expr) -> tuple[Expr, ...]:
    """The direct subexpressions, in order. Raises TypeError for a node that is not in the grammar."""
    if isinstance(expr, Op):  # no match: this is called more often than anything else
        return expr.args
    if isinstance(expr, _LEAVES):
        return ()
    if isinstance(expr, Read):
        return expr.indices
    if isinstance(expr, Cast):
        return (expr.arg,)
    raise TypeError(f"unknown expression node {type(expr).__name__}")


def with_children(expr: Expr, new: tuple[Expr, ...]) -> Expr:
    """The node with its direct subexpressions replaced."""
    match expr:
        case Const() | Var() | Local():
            return expr
        case Read(tensor=tensor, dtype=dtype):
            return Read(tensor, new, dtype)
        case Op(name=name, dtype=dtype):
            return Op(name, new, dtype)
        case Cast(dtype=dtype):
            return Cast(new[0], dtype)
    raise TypeError(f"unknown expression node {type(expr).__name__}")


def walk(expr: Expr) -> Iterator[Expr]:
    """The visitor: every node of the tree, parents before children."""
    waiting = [expr]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, Op):
            waiting += node.args[::-1]
        elif isinstance(node, Read):
            waiting += node.indices[::-1]
        elif not isinstance(node, _LEAVES):
            waiting += children(node)


def rewrite(expr: Expr, replace: Callable[[Expr], Expr | None]) -> Expr:
    """The rewriter: from the leaves up, each node for which `replace` gives a node becomes that node."""
    old = children(expr)
    if old:
        new = tuple([rewrite(child, replace) for child in old])
        if any(map(is_not, old, new)):
            expr = with_children(expr, new)
    result = replace(expr)
    return expr if result is None else result


def substitute(expr: Expr, values: dict[str, Expr]) -> Expr:
    """Variables replaced by expressions, by name, all at once."""
    return rewrite(expr, lambda node: values.get(node.name) if isinstance(node, Var) else None)


def reads(expr: Expr) -> tuple[Read, ...]:
    """All reads, in order of appearance, each distinct one once."""
    return tuple(dict.fromkeys(node for node in walk(expr) if isinstance(node, Read)))


def size(expr: Expr) -> TreeSize:
    """Nodes, what occurs twice counted twice, and levels (limits.py)."""
    try:
        return expr._size
    except AttributeError:
        return _keep_sizes(expr)


def _keep_sizes(expr: Expr) -> TreeSize:
    """Works as `size_of` of limits.py, and each node keeps its own. Every node of every program comes here."""
    waiting = [expr]
    while waiting:
        node = waiting[-1]
        nodes, levels, left = 1, 0, len(waiting)
        for child in children(node):
            found = _LEAF if isinstance(child, _LEAVES) else getattr(child, "_size", None)
            if found is None:
                waiting.append(child)
            else:
                nodes += found[0]
                levels = max(levels, found[1])
        if len(waiting) == left:
            waiting.pop()
            _keep(node, "_size", (nodes, levels + 1))
    return expr._size


def variables(expr: Expr) -> frozenset[str]:
    """Names of the variables that occur."""
    try:
        return expr._variables
    except AttributeError:
        found = frozenset([node.name for node in walk(expr) if isinstance(node, Var)])
        _keep(expr, "_variables", found)
        return found
