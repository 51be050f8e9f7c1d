"""The types of expressions in loop IR: each operator is given what it takes, and gives what it says."""

from __future__ import annotations

from functools import lru_cache

from ...common.errors import ProgramError
from ...tensor.dtype import DType, boolean
from ...tensor.expr import Cast, Const, Expr, Local, Op, Read, Var, call


def type_fault(expr: Expr) -> str:
    """Returns what is wrong with one node, its operands not included; empty if nothing is."""
    match expr:
        case Op(name=name, args=args, dtype=dtype):
            return _operator_fault(name, tuple([arg.dtype for arg in args]), dtype)
        case Const(value=value, dtype=dtype):
            wanted = bool if dtype == boolean else float if dtype.is_float else int
            return "" if type(value) is wanted else f"the literal {value!r} is no {dtype}"
        case Local(name=name):
            return f"{name!r} is a name inside of a fold, which loop IR does not have"
        case Read() | Var() | Cast():
            return ""
    return f"unknown expression node {type(expr).__name__}"


@lru_cache(maxsize=1 << 12)
def _operator_fault(name: str, operands: tuple[DType, ...], dtype: DType) -> str:
    """Returns what is wrong with an operator on operands of these types; a program has few of these, and each very often."""
    try:
        found = call(name, *(Local("", operand) for operand in operands)).dtype
    except ProgramError as error:
        return " ".join(str(error).split())
    return "" if found == dtype else f"{name!r} gives {found}, not {dtype}"
