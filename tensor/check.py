"""Refuses wrong programs when they are made. Every rule of what a program may say stands here; those of
expressions are checked in checks/expressions.py.

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
from itertools import chain

from ..common.errors import ProgramError
from .checks.expressions import ExpressionChecker, Fault, is_value
from .dtype import boolean
from .expr import Expr, size
from .limits import AXES, ELEMENTS, EXTENT, POINTS, SMALLER, excess_of
from .printing import print_expr, print_input, print_stage, print_table
from .program import COMBINERS, Axis, Input, Program, Stage, Table, Tensor, fold_axes
from .reserved import RESERVED

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z_0-9]*\Z")


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
    """Says whether a checked program has this very stage, of whatever origin, and the same tensors for it to read."""
    old = like.producers.get(stage.name)
    if old is None or not (old is stage or (old.bodies is stage.bodies and old.fold is stage.fold and old == stage)):
        return False
    return all(tensors.get(read.tensor) == like.tensors[read.tensor] for read in stage.reads())


def _tensor_faults(tensor: Tensor, owner: object, before: Mapping[str, Tensor]) -> Iterator[Fault]:
    places = (tensor, owner)
    yield from _name_faults(tensor.name, places)
    if tensor.name in before or sum(t.name == tensor.name for t in getattr(owner, "tensors", ())) > 1:
        yield Fault(f"two tensors are called {tensor.name!r}", places, advice="give each its own name")
    for extent in tensor.shape:
        if type(extent) is not int or extent < 1:
            yield Fault(f"tensor {tensor.name} has the dimension {extent}", places, expected="positive integers")
        elif extent > EXTENT:
            yield Fault(f"tensor {tensor.name} has the dimension {extent}", places, expected=f"at most {EXTENT}")
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
        if not is_value(table.tensor.dtype, value):
            yield Fault(f"{value!r} is no value of dtype {table.tensor.dtype}", (table.tensor, table))


def check_size(name: str, expressions: Iterable[Expr]) -> None:
    """Raises ProgramError for an expression of a stage that is too large to be looked at."""
    for expression in expressions:
        most = excess_of(*size(expression))
        if most:
            raise ProgramError(f"an expression of {name} is too large", expected=most, advice=SMALLER)


def _size_faults(stage: Stage) -> Iterator[Fault]:
    for expression in stage.expressions:
        most = excess_of(*size(expression))
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
    checker = ExpressionChecker(stage, tensors)
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
        if len(set(kept)) < len(kept) or set(kept) != set(axes[: len(kept)]):
            yield Fault(
                f"{tensor.name} may only drop trailing axes of the fold", (tensor, stage),
                expected="leading axes of [" + ", ".join(axes) + "]", found="[" + ", ".join(kept) + "]",
            )  # fmt: skip
        if first.dtype != tensor.dtype or not is_value(first.dtype, first.value):
            yield Fault(
                f"{tensor.name} and its first value differ in dtype", (tensor, stage),
                expected=str(tensor.dtype), found=str(first.dtype),
            )  # fmt: skip
    if all(len(kept) != len(axes) for kept in fold.tensor_axes):
        yield Fault("no tensor of the fold keeps all axes", (stage,))
    elif axes != fold_axes(fold.tensor_axes):
        yield Fault(
            f"the axes of the fold {stage.name} are not in order", (stage,),
            expected="[" + ", ".join(fold_axes(fold.tensor_axes)) + "]", found="[" + ", ".join(axes) + "]",
        )  # fmt: skip
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
