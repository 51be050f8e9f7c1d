"""The types of expressions in loop IR: each operator is given what it takes, and gives what it says."""

from __future__ import annotations

from ...common.errors import ProgramError
from ...tensor.dtype import boolean
from ...tensor.expr import Cast, Const, Expr, Local, Op, Read, Var, call


def type_fault(expr: Expr) -> str:
    """Returns what is wrong with one node, its operands not included; empty if nothing is."""
    match expr:
        case Op(name=name, args=args, dtype=dtype):
            try:
                found = call(name, *args).dtype
            except ProgramError as error:
                return " ".join(str(error).split())
            return "" if found == dtype else f"{name!r} gives {found}, not {dtype}"
        case Const(value=value, dtype=dtype):
            wanted = bool if dtype == boolean else float if dtype.is_float else int
            return "" if type(value) is wanted else f"the literal {value!r} is no {dtype}"
        case Local(name=name):
            return f"{name!r} is a name inside of a fold, which loop IR does not have"
        case Read() | Var() | Cast():
            return ""
    return f"unknown expression node {type(expr).__name__}"
