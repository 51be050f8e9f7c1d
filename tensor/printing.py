"""Prints programs and expressions in the text form. What is printed parses back to the same nodes, exactly.

A number is printed bare where the parser can take its dtype from around it, else as dtype(number).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from .expr import Cast, Const, Expr, Local, Op, Read, Var
from .language import ATOM, COMPARED, INFIX, NEGATED, NEGATIVE
from .program import Axis, Input, Program, Stage, Table, Tensor


def print_expr(expr: Expr, known: bool = False) -> str:
    """One expression. `known`: the dtype of the whole is known where it stands, so that a lone number may stay bare."""
    return _show(expr, known)[0]


def print_number(value: int | float | bool) -> str:
    """A literal: true and false, integers, and floats by repr; a float that is an integer loses its `.0`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if value == int(value) and abs(value) < 1e15 and not (value == 0 and math.copysign(1, value) < 0):
        return str(int(value))
    return repr(value)


def print_type(tensor: Tensor) -> str:
    """Prints a dtype and a shape: `f32[64, 64]`; a scalar is `f32[]`."""
    return f"{tensor.dtype}[{', '.join(map(str, tensor.shape))}]"


def print_axes(axes: Sequence[Axis]) -> str:
    """Prints axes: `[i: 64, j: 64]`."""
    return f"[{', '.join(f'{axis.name}: {axis.extent}' for axis in axes)}]"


def print_input(item: Input) -> str:
    """Prints a declaration: `input A: f32[64]` or `constant A: f32[64]`."""
    return f"{'constant' if item.constant else 'input'} {item.tensor.name}: {print_type(item.tensor)}"


def print_table(table: Table) -> str:
    """Prints a table: `table w: f32[2, 2] = [1, 0, 0, 1]`."""
    values = ", ".join(map(print_number, table.values))
    return f"table {table.tensor.name}: {print_type(table.tensor)} = [{values}]"


def print_stage(stage: Stage) -> str:
    """One stage: a line, or the lines of a fold."""
    if stage.fold is not None:
        return "\n".join(_fold_lines(stage))
    head = f"{', '.join(t.name for t in stage.tensors)}{print_axes(stage.axes)} = "
    if stage.reduction:
        return f"{head}{stage.combiner}{print_axes(stage.reduction)}({print_expr(stage.bodies[0])})"
    return head + ", ".join(map(print_expr, stage.bodies))


def print_program(program: Program) -> str:
    """The whole text, ending in a newline: inputs, tables, stages, outputs."""
    lines = [print_input(item) for item in program.inputs]
    lines += [print_table(table) for table in program.tables]
    lines += [print_stage(stage) for stage in program.stages]
    lines.append("return " + ", ".join(program.outputs))
    return "\n".join(lines) + "\n"


def _fold_lines(stage: Stage) -> list[str]:
    fold = stage.fold
    assert fold is not None
    lines = [f"fold{print_axes(stage.reduction)} {{"]
    for index, (tensor, initial) in enumerate(zip(stage.tensors, fold.initial, strict=True)):
        start = print_number(initial.value)
        lines.append(f"    {tensor.name}{print_axes(stage.axes_of(index))}: {tensor.dtype} = {start}")
    lines += [f"    let {name} = {print_expr(value)}" for name, value in fold.locals]
    for tensor, body in zip(stage.tensors, stage.bodies, strict=True):
        lines.append(f"    {tensor.name} = {print_expr(body, known=True)}")
    return [*lines, "}"]


def _show(expr: Expr, known: bool) -> tuple[str, int]:
    """Gives the text of an expression, and how tightly it binds."""
    match expr:
        case Const(value=value, dtype=dtype):
            number = print_number(value)
            return (number if known or dtype.name == "bool" else f"{dtype}({number})"), ATOM
        case Var(name=name) | Local(name=name):
            return name, ATOM
        case Read(tensor=tensor, indices=indices):
            return f"{tensor}[{', '.join(_show(index, True)[0] for index in indices)}]", ATOM
        case Cast(arg=arg, dtype=dtype):
            return f"{dtype}({_show(arg, False)[0]})", ATOM
        case Op():
            return _show_op(expr, known)
    raise TypeError(f"unknown expression node {type(expr).__name__}")


def _show_op(expr: Op, known: bool) -> tuple[str, int]:
    name, args = expr.name, expr.args
    if name == "select":
        yes, no = _operands(args[1], args[2], known)
        return f"select({_show(args[0], True)[0]}, {yes[0]}, {no[0]})", ATOM
    if name in INFIX:
        sign, level = INFIX[name].sign, INFIX[name].level
        left, right = _operands(args[0], args[1], known and level > COMPARED)
        # comparisons do not chain, so both sides bind tighter; elsewhere the left side may bind equally
        return f"{_wrap(left, level + (level == COMPARED))} {sign} {_wrap(right, level + 1)}", level
    if name == "not":
        return f"not {_wrap(_show(args[0], True), NEGATED)}", NEGATED
    if name == "neg":
        inner = _show(args[0], known)
        # -3 would be a number, -(3) is its negation
        literal = isinstance(args[0], Const)
        return f"-({inner[0]})" if literal else f"-{_wrap(inner, NEGATIVE)}", NEGATIVE
    if len(args) == 2:
        left, right = _operands(args[0], args[1], known)
        return f"{name}({left[0]}, {right[0]})", ATOM
    if len(args) > 2:
        return f"{name}({', '.join(_show(arg, False)[0] for arg in args)})", ATOM
    return f"{name}({_show(args[0], known)[0]})", ATOM


def _operands(left: Expr, right: Expr, known: bool) -> tuple[tuple[str, int], tuple[str, int]]:
    """Both operands of one dtype: a bare number takes it from the other one."""
    if isinstance(left, Const):
        return _show(left, known or not isinstance(right, Const)), _show(right, known)
    return _show(left, known), _show(right, True)


def _wrap(shown: tuple[str, int], level: int) -> str:
    return shown[0] if shown[1] >= level else f"({shown[0]})"
