"""Interpolation of images: nearest and bilinear."""

from __future__ import annotations

from collections.abc import Sequence

from ..build import compute, literal, maximum, minimum
from ..dtype import DType, accumulator
from ..expr import Expr
from ..indices.affine import simplify
from ..precision import precise
from ..program import Program
from .arguments import Size, Sizes, per_dimension
from .operator import Operands, floats, operator
from .window import channels_first


@operator
def resize_nearest(
    n: Size, c: Size, h: Size, w: Size, to: Sizes, layout: str = "nchw", dtype: str = "f32",
    constants: Sequence[str] = (),
) -> Program:  # fmt: skip
    """y[n, c, p, q] = X[n, c, p * h // rows, q * w // columns], (rows, columns) being `to`, one number or two.

    Unlike ONNX's by default, and as torch's "nearest", it takes the element at a place rounded down.
    """
    operand = Operands(dtype, constants)
    first = channels_first("resize_nearest", layout, 2)
    rows, columns = per_dimension("resize_nearest", "to", to, 2)
    x = operand("X", *((n, c, h, w) if first else (n, h, w, c)))

    def element(*i: Expr) -> Expr:
        p, q = (i[2], i[3]) if first else (i[1], i[2])
        row, column = simplify(p * h // rows), simplify(q * w // columns)
        return x[(i[0], i[1], row, column) if first else (i[0], row, column, i[3])]

    return operand.program(
        compute((n, c, rows, columns) if first else (n, rows, columns, c), element, name="y", axes=_names(first))
    )


@operator
def resize_bilinear(
    n: Size, c: Size, h: Size, w: Size, to: Sizes, align_corners: bool = False, layout: str = "nchw",
    dtype: str = "f32", constants: Sequence[str] = (),
) -> Program:  # fmt: skip
    """y[n, c, p, q] = the four elements around a place of X[n, c], weighted by their nearness. `to` is the size of y.

    The place of row p is max((p + 1/2) * h / rows - 1/2, 0), or p * (h - 1) / (rows - 1) with `align_corners`; columns
    likewise. Floats only.
    """
    operand = floats("resize_bilinear", dtype, constants)
    first = channels_first("resize_bilinear", layout, 2)
    rows, columns = per_dimension("resize_bilinear", "to", to, 2)
    x = operand("X", *((n, c, h, w) if first else (n, h, w, c)))

    def element(*i: Expr) -> Expr:
        p, q = (i[2], i[3]) if first else (i[1], i[2])
        (top, bottom, down), (left, right, across) = (
            between(position, size, count, align_corners, accumulator(operand.dtype))
            for position, size, count in ((p, h, rows), (q, w, columns))
        )

        def at(row: Expr, column: Expr) -> Expr:
            return precise(x[(i[0], i[1], row, column) if first else (i[0], row, column, i[3])])

        upper = at(top, left) * (1 - across) + at(top, right) * across
        lower = at(bottom, left) * (1 - across) + at(bottom, right) * across
        return (upper * (1 - down) + lower * down).cast(operand.dtype)

    return operand.program(
        compute((n, c, rows, columns) if first else (n, rows, columns, c), element, name="y", axes=_names(first))
    )


def between(position: Expr, size: int, count: int, align: bool, dtype: DType) -> tuple[Expr, Expr, Expr]:
    """(element before the place, element behind it, how far the place is towards the second). Exact: places are fractions."""
    if align and count == 1:
        return simplify(position), simplify(position), literal(0.0, dtype)
    divisor = count - 1 if align else 2 * count
    place = position * (size - 1) if align else maximum(simplify((2 * position + 1) * size - count), 0)
    before = simplify(place // divisor)
    far = (place % divisor).cast(dtype) / float(divisor)
    return minimum(before, size - 1), minimum(before + 1, size - 1), far


def _names(first: bool) -> tuple[str, ...]:
    return ("n", "c", "p", "q") if first else ("n", "p", "q", "c")
