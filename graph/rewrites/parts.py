"""How a tensor is put together of parts, as a concat and a stack are: by choices between what lies before and what behind."""

from __future__ import annotations

from ...tensor.expr import Const, Expr, Op, Var


def cut_of(node: Expr) -> tuple[str, int] | None:
    """The axis and its first value behind a part, of a choice between what lies before and what lies behind. Where parts were
    stacked, and their axis was put together with one of theirs, it is known by a quotient."""
    match node:
        case Op(name="select", args=(Op(name="lt", args=(place, Const(value=end))), _, _)):
            match place:
                case Var(name=axis):
                    return axis, int(end)
                case Op(name="floordiv", args=(Var(name=axis), Const(value=size))):
                    return axis, int(end) * int(size)
    return None
