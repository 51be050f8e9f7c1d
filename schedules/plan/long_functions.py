"""Functions that are long chains of instructions: what is computed of them for several vectors at a time.

exp, sigmoid or gelu are thirty instructions of which each waits for the one before. A processor looks a few hundred ahead and
sees about three such chains where one vector is computed after another: it waits. So code computes them for several vectors
abreast, where copies of a store are written out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...common.remembered import remembered
from ...tensor.dtype import f32, f64
from ...tensor.expr import Expr, Op, children
from ...tensor.language import MATHEMATICS
from ...tensor.program import Stage
from ...tensor.wholes import WHOLES, whole

LONG = 10.0  # slots of a function from which on its chain is worth the trouble; divisions and roots are one instruction
ABREAST = 4  # vectors at a time: the values of more find no room in registers


@dataclass(frozen=True, slots=True)
class LongFunction:
    """A function and its arguments, which may be written otherwise in the program: `gelu` stands for an expression."""

    name: str
    args: tuple[Expr, ...]

    @property
    def slots(self) -> float:
        """Its price, that of a sum of vectors being 1."""
        return WHOLES[self.name] if self.name in WHOLES else MATHEMATICS[self.name].slots


def long_functions(expr: Expr) -> tuple[LongFunction, ...]:
    """The long functions of an expression, inner ones first; none of a choice, whose arms may not be computed everywhere."""
    return tuple(dict.fromkeys(_found(expr)))


@remembered
def long_slots(stage: Stage) -> float:
    """The price of the long functions of a stage at one point."""
    return sum(function.slots for body in stage.bodies for function in long_functions(body))


def _found(expr: Expr) -> Iterator[LongFunction]:
    if not isinstance(expr, Op):
        for child in children(expr):
            yield from _found(child)
        return
    if expr.name == "select":
        return
    named = whole(expr)
    function = LongFunction(expr.name, expr.args) if named is None else LongFunction(named[0], (named[1],))
    for child in function.args:
        yield from _found(child)
    known = function.name in WHOLES or (
        function.name in MATHEMATICS and MATHEMATICS[function.name].rounding is not None
    )
    if known and expr.dtype in (f32, f64) and function.slots > LONG:
        yield function
