"""Expressions that code and cost models take as a whole, which is less work than their parts one by one.

Programs say them in the operators of the language, so their text and their meaning are those of the parts.
"""

from __future__ import annotations

from .activations import gelu
from .composites import is_negative
from .expr import Const, Expr, Op

# Name -> slots: what it costs, as for the operators of language.py.
WHOLES = {"gelu": 19.0, "is_negative": 1.0}


def whole(expr: Expr) -> tuple[str, Expr] | None:
    """("gelu", x) or ("is_negative", x) where the expression is what that function gives for x."""
    match expr:
        case Op(name="mul", args=(_, Op(name="erfc", args=(Op(name="mul", args=(x, _)),)))):
            return ("gelu", x) if gelu(x) == expr else None
        case Op(name="lt", args=(Op(name="select", args=(_, _, x)), Const())) if x.dtype.is_float:
            return ("is_negative", x) if is_negative(x) == expr else None
    return None
