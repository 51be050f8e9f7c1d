"""Refuses wrong expressions: of axes and tensors that are not there, of dtypes that do not fit, of reads out of bounds.

The rules stand at the top of check.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from ...common.errors import ProgramError
from ..dtype import DTYPES, DType, boolean, i64
from ..expr import Cast, Const, Expr, Local, Op, Read, Var, call, children, walk
from ..indices.intervals import Known, interval
from ..printing import print_expr
from ..program import Stage, Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Fault:
    """Holds what is wrong. `places` are the nodes, axes, tensors or stages at fault, the narrowest first."""

    problem: str
    places: tuple[object, ...]
    expected: str = ""
    found: str = ""
    advice: str = ""

    def error(self, where: str) -> ProgramError:
        """The error to raise; `where` is the marked text."""
        return ProgramError(self.problem, expected=self.expected, found=self.found, advice=self.advice, where=where)


def is_value(dtype: DType, value: object) -> bool:
    """Says whether a constant of a dtype may have this value."""
    if dtype == boolean:
        return type(value) is bool
    if dtype.is_float:
        return type(value) is float
    if type(value) is not int:
        return False
    return interval(Const(value, dtype), {}) == (value, value)  # that of the dtype where it does not fit


@lru_cache(maxsize=1 << 12)
def _gives(name: str, operands: tuple[DType, ...], dtype: DType) -> bool:
    """Says whether an operator is defined on operands of these types, and gives that one."""
    try:
        return call(name, *(Local("", operand) for operand in operands)).dtype == dtype
    except ProgramError:
        return False


class ExpressionChecker:
    """Checks the expressions of one stage."""

    def __init__(self, stage: Stage, tensors: Mapping[str, Tensor]) -> None:
        self._stage = stage
        self._tensors = tensors
        self._own = {t.name: i for i, t in enumerate(stage.tensors)} if stage.fold else {}
        self._locals: dict[str, Expr] = dict(stage.fold.locals) if stage.fold else {}
        self._defined: dict[str, frozenset[str]] = {}  # local -> all axes on which its value depends
        self._bounds = {axis.name: (0, axis.extent - 1) for axis in stage.all_axes}

    def faults(self, expression: Expr, visible: frozenset[str]) -> Iterator[Fault]:
        """All faults of one expression; then it counts as defined, if it is that of a local."""
        yield from self._visit(expression, Known(self._bounds), visible)
        for name, value in self._locals.items():
            if value is expression and name not in self._defined:
                self._defined[name] = self._axes_of(value)
                break

    def _axes_of(self, expression: Expr) -> frozenset[str]:
        found: set[str] = set()
        for node in walk(expression):
            if isinstance(node, Var):
                found.add(node.name)
            elif isinstance(node, Local):
                found |= self._defined.get(node.name, frozenset())
        return frozenset(found)

    def _visit(self, expr: Expr, known: Known, visible: frozenset[str]) -> Iterator[Fault]:
        """Faults of `expr` at a place where `known` holds."""
        if not self._is_fine(expr, visible):
            yield from self._node_faults(expr, visible)
        if isinstance(expr, (Var, Const, Local)):
            return
        if isinstance(expr, Op) and expr.name == "select":
            condition, yes, no = expr.args
            yield from self._visit(condition, known, visible)
            for arm, holds in ((yes, True), (no, False)):
                inside = known.assume(condition, holds)
                if inside is not None:  # what is never reached reads nothing
                    yield from self._visit(arm, inside, visible)
            return
        for child in children(expr):
            yield from self._visit(child, known, visible)
        if isinstance(expr, Read):
            yield from self._read_faults(expr, known)

    def _is_fine(self, node: Expr, visible: frozenset[str]) -> bool:
        """Says whether a node has no fault for certain: nearly all have none, and what they could be is long."""
        if type(node) is Var:
            return node.name in visible
        if type(node) is Op:
            return _gives(node.name, tuple([arg.dtype for arg in node.args]), node.dtype)
        if type(node) is Const:
            return is_value(node.dtype, node.value)
        return type(node) is Read

    def _node_faults(self, node: Expr, visible: frozenset[str]) -> Iterator[Fault]:
        places = (node, self._stage)
        match node:
            case Var(name=name) if name not in visible:
                yield Fault(
                    f"unknown axis {name!r}", places,
                    expected="one of " + ", ".join(a.name for a in self._stage.all_axes if a.name in visible),
                    advice="a body of a fold sees only the axes of its tensor" if name in self._bounds else "",
                )  # fmt: skip
            case Local(name=name) if name not in self._defined or self._locals[name].dtype != node.dtype:
                yield Fault(f"unknown value {name!r}", places, advice="a fold names its values before it uses them")
            case Local(name=name) if not self._defined[name] <= visible:
                extra = ", ".join(sorted(self._defined[name] - visible))
                yield Fault(
                    f"the value {name!r} depends on {extra}, which this tensor of the fold does not keep", places
                )
            case Const(value=value, dtype=dtype) if not is_value(dtype, value):
                yield Fault(f"{value!r} is no value of dtype {dtype}", places)
            case Op(name=name, args=args, dtype=dtype):
                try:
                    fits = call(name, *args).dtype == dtype
                except ProgramError as error:
                    yield Fault(error.problem, places, error.expected, error.found, error.advice)
                else:
                    if not fits:
                        yield Fault(f"{name!r} does not give {dtype}", places)
            case Cast(dtype=dtype) if DTYPES.get(dtype.name) != dtype:
                yield Fault(f"unknown dtype {dtype}", places)

    def _read_faults(self, read: Read, known: Known) -> Iterator[Fault]:
        places = (read, self._stage)
        if read.tensor in self._own:
            number = self._own[read.tensor]
            wanted = tuple(axis.var for axis in self._stage.axes_of(number))
            if read.indices != wanted or read.dtype != self._stage.tensors[number].dtype:
                yield Fault(
                    f"{read.tensor} of the fold is read elsewhere than at its own axes", places,
                    expected=print_expr(Read(read.tensor, wanted, read.dtype)), found=print_expr(read),
                )  # fmt: skip
            return
        tensor = self._tensors.get(read.tensor)
        if tensor is None:
            own = read.tensor in (t.name for t in self._stage.tensors)
            yield Fault(
                f"{read.tensor} is read in its own definition" if own else f"unknown tensor {read.tensor!r}", places,
                expected="an input, a table, or a tensor of an earlier stage: " + ", ".join(self._tensors),
                advice="a recurrence is written as a fold" if own else "",
            )  # fmt: skip
        elif len(read.indices) != len(tensor.shape):
            yield Fault(
                f"{tensor.name} is indexed with the wrong rank", places,
                expected=f"{len(tensor.shape)} indices for the shape {list(tensor.shape)}",
                found=str(len(read.indices)),
            )  # fmt: skip
        elif read.dtype != tensor.dtype:
            yield Fault(f"{tensor.name} is read as {read.dtype}", places, expected=str(tensor.dtype))
        else:
            for position, (index, size) in enumerate(zip(read.indices, tensor.shape, strict=True)):
                yield from self._index_faults(read, position, index, size, known)

    def _index_faults(self, read: Read, position: int, index: Expr, size: int, known: Known) -> Iterator[Fault]:
        places = (index, read, self._stage)
        if index.dtype != i64:
            yield Fault(
                "an index must be an integer",
                places,
                expected="i64",
                found=str(index.dtype),
                advice="cast it: i64(...)",
            )
            return
        low, high = known.interval(index)
        if low >= 0 and high < size:
            return
        depends = any(isinstance(node, (Read, Local)) for node in walk(index))
        yield Fault(
            f"index {position} of {read.tensor} may be out of bounds", places,
            expected=f"0 .. {size - 1}", found=f"{print_expr(index, known=True)} in {low} .. {high}",
            advice=f"clamp it: min(max(..., 0), {size - 1})" if depends
            else "guard the read: select(condition, read, other value), or change an extent",
        )  # fmt: skip
