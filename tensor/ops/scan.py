"""Scans: each result combines all elements up to its place.

They are folds of which every step leaves an element: the tensor of results has the scanned axis beside the others, and the
step k changes its elements at k alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .. import build
from ..build import reduce_axis, select
from ..expr import Const, Expr
from ..precision import precise, summand
from ..program import Program, Tensor
from ..stage_edits import identity_of
from .arguments import Index, Shape, axis_of
from .operator import Operands, operator


def _scan(
    name: str, meaning: str, combiner: str, combine: Callable[[Expr, Expr], Expr],
    term: Callable[[Expr], Expr] = lambda element: element, more: str = "",
) -> None:  # fmt: skip
    """Registers a scan. `term`: what is combined for an element; `more`: what else there is to say, in sentences."""

    def build_scan(
        shape: Shape, axis: Index = -1, reverse: bool = False, dtype: str = "f32", constants: Sequence[str] = ()
    ) -> Program:
        operand = Operands(dtype, constants)
        place = axis_of(name, "axis", axis, len(shape))
        return operand.program(scanned(operand("x", *shape), place, combiner, combine, reverse, term))

    build_scan.__name__ = build_scan.__qualname__ = name
    build_scan.__doc__ = (
        f"out[..., k, ...] = {meaning} x[..., 0 .. k, ...] along the axis; of x[..., k .., ...] in `reverse`."
    ) + (f"\n\n{more}" if more else "")
    operator(build_scan)


def scanned(
    x: Tensor, axis: int, combiner: str, combine: Callable[[Expr, Expr], Expr], reverse: bool = False,
    term: Callable[[Expr], Expr] = lambda element: element,
) -> Tensor:  # fmt: skip
    """All elements up to each place along an axis, counted from the front, combined; those from it on if `reverse`."""
    size = x.shape[axis]
    over = reduce_axis(size, "k")
    outer = (*x.shape[:axis], *x.shape[axis + 1 :])
    at: Expr = size - 1 - over if reverse else over

    def step(*given: Expr) -> list[Expr]:
        i, j, so_far, results = given[: len(outer)], given[len(outer)], given[-2], given[-1]
        new = build.named("new", combine(so_far, term(x[(*i[:axis], at, *i[axis:])])))
        return [new, select(j.equal(at), new.cast(results.dtype), results)]

    order = (*range(axis), len(outer), *range(axis, len(outer)))  # the scanned axis stands where it does in x
    inside = term(Const(0, x.dtype)).dtype  # of the sum so far; results of floats are as narrow as x
    states = [
        build.State("so_far", len(outer), identity_of(combiner, Const(0, inside)).value, inside),
        build.State("results", len(outer) + 1, 0, x.dtype if inside.is_float else inside, order),
    ]
    return build.fold((*outer, size), over, states, step)[1]


_WIDE = (
    "Of f16 and bf16 in f32, each result rounded once. Integers are taken in i64, and the result is i64, as in torch. \
Unlike NumPy's, that of u8 is i64 too; ONNX keeps the dtype."
)
_scan("cumsum", "sum of", "sum", lambda a, b: a + b, lambda x: precise(summand(x)), _WIDE)
_scan("cumprod", "product of", "prod", lambda a, b: a * b, lambda x: precise(summand(x)), _WIDE)
_scan("cummax", "max of", "max", build.maximum)
_scan("cummin", "min of", "min", build.minimum)
