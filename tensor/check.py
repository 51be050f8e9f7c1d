"""Refuses wrong programs when they are made. Every rule of what a program may say stands in this file.

* Names are identifiers, not words of the text form, and unique among tensors; axes are unique within their stage.
* Extents and dimensions are positive. What is larger than limits.py says is refused. A table has as many values as elements.
* A stage is pointwise, a reduction (one tensor, not bool for sum and prod) or a fold, never a mixture.
* An expression uses axes of its stage, tensors defined before it, operators with operands of one fitting dtype.
* An index is i64 and stays inside its tensor for every point of the axes. Inside the arms of `select` the condition
  counts: select(i >= 1, A[i - 1], 0) is right. What is read from a tensor may be an index where it is clamped:
  A[min(max(x, 0), 9)].
* A fold goes over one ordered axis; its tensors keep leading axes of the stage, at least one keeps all; a body uses
  only the axes that its tensor keeps; tensors of the fold are read at their own axes only.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from ..common.errors import ProgramError
from .dtype import DTYPES, DType, boolean, i64
from .expr import Cast, Const, Expr, Local, Op, Read, Var, call, children, walk
from .indices.intervals import Known, interval
from .limits import AXES, ELEMENTS, EXTENT, POINTS, SMALLER, excess
from .printing import print_expr, print_input, print_stage, print_table
from .program import COMBINERS, Axis, Input, Program, Stage, Table, Tensor
from .reserved import RESERVED

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z_0-9]*\Z")


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


def check_program(program: Program, like: Program | None = None) -> None:
    """Raises ProgramError for the first fault; `where` is the printed line with an arrow.

    `like`: a checked program; what it has too, and in the same surroundings, is not checked again.
    """
    fault = next(_faults(program.inputs, program.stages, program.outputs, program.tables, like), None)
    if fault is not None:
        raise fault.error(_mark(fault))


def check_stage(stage: Stage, tensors: Mapping[str, Tensor]) -> None:
    """Raises ProgramError if the stage is wrong by itself; `tensors` are those it may read."""
    fault = next(chain(_axis_faults(stage), _stage_faults(stage, tensors)), None)
    if fault is not None:
        raise fault.error(_mark(fault))


def find_fault(
    inputs: Sequence[Input], stages: Sequence[Stage], outputs: Sequence[str], tables: Sequence[Table] = ()
) -> Fault | None:
    """The first fault of a program's parts, or None."""
    return next(_faults(inputs, stages, outputs, tables), None)


def _mark(fault: Fault) -> str:
    """The printed line at fault with an arrow at its end, and the expression at fault below it."""
    for place in fault.places:
        match place:
            case Stage():
                shown = print_stage(place)
            case Input():
                shown = print_input(place)
            case Table():
                shown = print_table(place)
            case str():
                shown = f"return {place}"
            case _:
                continue
        narrow = fault.places[0]
        detail = f": {print_expr(narrow)}" if isinstance(narrow, Expr) else ""
        detail = f": {narrow.name}" if isinstance(narrow, Axis | Tensor) else detail
        return f"{shown}    <-- here{detail}"
    return ""


def _faults(
    inputs: Sequence[Input],
    stages: Sequence[Stage],
    outputs: Sequence[str],
    tables: Sequence[Table],
    like: Program | None = None,
) -> Iterator[Fault]:
    tensors: dict[str, Tensor] = {}
    declared: list[Input | Table] = [*inputs, *tables]
    for item in declared:
        yield from _tensor_faults(item.tensor, item, tensors)
        tensors[item.tensor.name] = item.tensor
    for table in tables:
        yield from _table_faults(table)
    for stage in stages:
        yield from _axis_faults(stage)
        for tensor in stage.tensors:
            yield from _tensor_faults(tensor, stage, tensors)
        if like is None or not _was_checked(stage, tensors, like):
            yield from _stage_faults(stage, tensors)
        tensors.update((tensor.name, tensor) for tensor in stage.tensors)
    produced = {tensor.name for stage in stages for tensor in stage.tensors}
    if not outputs:
        yield Fault("the program has no output", (), advice="return at least one tensor")
    for name in outputs:
        if name not in produced:
            what = "an input" if name in tensors else "unknown"
            known = ", ".join(sorted(produced)) or "there is none"
            yield Fault(f"output {name!r} is {what}", (name,), expected=f"a tensor that a stage defines: {known}")
    if len(set(outputs)) < len(outputs):
        yield Fault("an output is returned twice", (), found=", ".join(outputs))


def _was_checked(stage: Stage, tensors: Mapping[str, Tensor], like: Program) -> bool:
    """Says whether a checked program has this very stage, and the same tensors for it to read."""
    return like.producers.get(stage.name) is stage and all(
        tensors.get(read.tensor) == like.tensors[read.tensor] for read in stage.reads()
    )


def _tensor_faults(tensor: Tensor, owner: object, before: Mapping[str, Tensor]) -> Iterator[Fault]:
    places = (tensor, owner)
    yield from _name_faults(tensor.name, places)
    if tensor.name in before or sum(t.name == tensor.name for t in getattr(owner, "tensors", ())) > 1:
        yield Fault(f"two tensors are called {tensor.name!r}", places, advice="give each its own name")
    for size in tensor.shape:
        if type(size) is not int or size < 1:
            yield Fault(f"tensor {tensor.name} has the dimension {size}", places, expected="positive integers")
        elif size > EXTENT:
            yield Fault(f"tensor {tensor.name} has the dimension {size}", places, expected=f"at most {EXTENT}")
    if len(tensor.shape) > AXES:
        yield Fault(f"tensor {tensor.name} has {len(tensor.shape)} dimensions", places, expected=f"at most {AXES}")
    elif math.prod(tensor.shape) > ELEMENTS:
        count = math.prod(tensor.shape)
        yield Fault(f"tensor {tensor.name} has {count} elements", places, expected=f"at most {ELEMENTS}")


def _name_faults(name: str, places: tuple[object, ...]) -> Iterator[Fault]:
    if not _IDENTIFIER.match(name):
        yield Fault(f"{name!r} is no name", places, expected="letters, digits and _, not a digit first")
    if name in RESERVED:
        yield Fault(f"the name {name!r} is a word of the language", places, advice="choose another name")


def _table_faults(table: Table) -> Iterator[Fault]:
    count = math.prod(table.tensor.shape)
    if len(table.values) != count:
        yield Fault(
            f"table {table.tensor.name} has the wrong number of values", (table.tensor, table),
            expected=f"{count} for the shape {list(table.tensor.shape)}", found=str(len(table.values)),
        )  # fmt: skip
    for value in table.values:
        if not _holds(table.tensor.dtype, value):
            yield Fault(f"{value!r} is no value of dtype {table.tensor.dtype}", (table.tensor, table))


def _holds(dtype: DType, value: object) -> bool:
    if dtype == boolean:
        return type(value) is bool
    if dtype.is_float:
        return type(value) is float
    if type(value) is not int:
        return False
    return interval(Const(value, dtype), {}) == (value, value)  # that of the dtype where it does not fit


def check_size(name: str, expressions: Iterable[Expr]) -> None:
    """Raises ProgramError for an expression of a stage that is too large to be looked at."""
    for expression in expressions:
        most = excess(expression, children)
        if most:
            raise ProgramError(f"an expression of {name} is too large", expected=most, advice=SMALLER)


def _size_faults(stage: Stage) -> Iterator[Fault]:
    for expression in stage.expressions:
        most = excess(expression, children)
        if most:  # the place is the tensor: such an expression is not printed
            yield Fault(
                f"an expression of {stage.name} is too large", (stage.tensors[0],), expected=most, advice=SMALLER
            )


def _stage_faults(stage: Stage, tensors: Mapping[str, Tensor]) -> Iterator[Fault]:
    yield from _form_faults(stage)
    yield from _size_faults(stage)
    for index, (tensor, body) in enumerate(zip(stage.tensors, stage.bodies, strict=True)):
        shape = tuple(axis.extent for axis in stage.axes_of(index))
        if tensor.shape != shape:
            yield Fault(
                f"the shape of {tensor.name} is not that of its axes", (tensor, stage),
                expected=str(list(shape)), found=str(list(tensor.shape)),
            )  # fmt: skip
        if body.dtype != tensor.dtype:
            yield Fault(
                f"{tensor.name} and its expression differ in dtype", (body, stage),
                expected=str(tensor.dtype), found=str(body.dtype), advice=f"cast it: {tensor.dtype}(...)",
            )  # fmt: skip
    yield from _fold_faults(stage) if stage.fold else ()
    checker = _ExpressionChecker(stage, tensors)
    for expression, visible in _scopes(stage):
        yield from checker.faults(expression, visible)


def _axis_faults(stage: Stage) -> Iterator[Fault]:
    names = [axis.name for axis in stage.all_axes]
    if len(names) > AXES:
        yield Fault(f"stage {stage.name} has {len(names)} axes", (stage,), expected=f"at most {AXES}")
    for axis in stage.all_axes:
        yield from _name_faults(axis.name, (axis, stage))
        if type(axis.extent) is not int or axis.extent < 1:
            yield Fault(f"axis {axis.name} has the extent {axis.extent}", (axis, stage), expected="a positive integer")
        elif axis.extent > EXTENT:
            yield Fault(f"axis {axis.name} has the extent {axis.extent}", (axis, stage), expected=f"at most {EXTENT}")
        if names.count(axis.name) > 1:
            yield Fault(f"two axes are called {axis.name!r}", (axis, stage), advice="give each its own name")
    points = math.prod(axis.extent for axis in stage.all_axes)
    if points > POINTS:
        yield Fault(f"the axes of {stage.name} have {points} points together", (stage,), expected=f"at most {POINTS}")


def _form_faults(stage: Stage) -> Iterator[Fault]:
    """Says whether the parts fit together as one of the three kinds of stage."""
    combiner = stage.combiner
    if len(stage.tensors) != len(stage.bodies) or not stage.tensors:
        yield Fault("a stage needs one expression for each tensor", (stage,), found=f"{len(stage.bodies)} expressions")
    elif combiner is None and (stage.reduction or stage.fold):
        yield Fault(
            f"stage {stage.name} has reduction axes and no combiner", (stage,), expected="one of " + " ".join(COMBINERS)
        )
    elif combiner == "fold" and (stage.fold is None or len(stage.reduction) != 1):
        yield Fault("a fold goes over exactly one ordered axis", (stage,), found=f"{len(stage.reduction)} axes")
    elif combiner in COMBINERS and (len(stage.tensors) != 1 or not stage.reduction or stage.fold is not None):
        yield Fault(f"the reduction {stage.name} needs one tensor and at least one reduction axis", (stage,))
    elif combiner not in (None, "fold", *COMBINERS):
        yield Fault(f"unknown combiner {combiner!r}", (stage,), expected="one of " + " ".join(COMBINERS))
    elif combiner in ("sum", "prod") and stage.bodies[0].dtype == boolean:
        yield Fault(
            f"{combiner} of bool", (stage.bodies[0], stage), advice="cast it, as in i32(...), or use max or min"
        )


def _fold_faults(stage: Stage) -> Iterator[Fault]:
    fold = stage.fold
    assert fold is not None
    axes = tuple(axis.name for axis in stage.axes)
    if len(fold.tensor_axes) != len(stage.tensors) or len(fold.initial) != len(stage.tensors):
        yield Fault("a fold needs axes and a first value for each tensor", ())  # it could not be printed
        return
    for tensor, kept, first in zip(stage.tensors, fold.tensor_axes, fold.initial, strict=True):
        if kept != axes[: len(kept)]:
            yield Fault(
                f"{tensor.name} may only drop trailing axes of the fold", (tensor, stage),
                expected="leading axes of [" + ", ".join(axes) + "]", found="[" + ", ".join(kept) + "]",
            )  # fmt: skip
        if first.dtype != tensor.dtype or not _holds(first.dtype, first.value):
            yield Fault(
                f"{tensor.name} and its first value differ in dtype", (tensor, stage),
                expected=str(tensor.dtype), found=str(first.dtype),
            )  # fmt: skip
    if axes not in fold.tensor_axes:
        yield Fault("no tensor of the fold keeps all axes", (stage,))
    taken = {*axes, stage.reduction[0].name, *(t.name for t in stage.tensors)}
    for name, _ in fold.locals:
        yield from _name_faults(name, (stage,))
        if name in taken:
            yield Fault(f"the name {name!r} is taken", (stage,), advice="choose another name for the value")
        taken.add(name)


def _scopes(stage: Stage) -> Iterator[tuple[Expr, frozenset[str]]]:
    """Each expression of the stage with the axes that it may use."""
    everything = frozenset(axis.name for axis in stage.all_axes)
    if stage.fold is None:
        yield from ((body, everything) for body in stage.bodies)
        return
    yield from ((value, everything) for _, value in stage.fold.locals)
    ordered = {axis.name for axis in stage.reduction}
    for kept, body in zip(stage.fold.tensor_axes, stage.bodies, strict=True):
        yield body, frozenset(kept) | ordered


class _ExpressionChecker:
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
        yield from self._node_faults(expr, visible)
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
            case Const(value=value, dtype=dtype) if not _holds(dtype, value):
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
        depends = any(isinstance(node, Read | Local) for node in walk(index))
        yield Fault(
            f"index {position} of {read.tensor} may be out of bounds", places,
            expected=f"0 .. {size - 1}", found=f"{print_expr(index, known=True)} in {low} .. {high}",
            advice=f"clamp it: min(max(..., 0), {size - 1})" if depends
            else "guard the read: select(condition, read, other value), or change an extent",
        )  # fmt: skip
