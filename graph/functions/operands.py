"""Operands of elementwise functions: how shapes broadcast and dtypes meet, as in torch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from ...common.errors import ArgumentError
from ...tensor.dtype import DType, Kind, boolean, f32, i16, i32, i64
from ...tensor.expr import Expr, Read, const
from ...tensor.program import Tensor

Operand = Tensor | float | int | bool


def broadcast_shape(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape to which all broadcast. Errors: ArgumentError for those that do not fit."""
    rank = max(map(len, shapes), default=0)
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    found = tuple(next((size for size in sizes if size != 1), 1) for sizes in zip(*padded, strict=True))
    if any(size not in (1, wanted) for shape in padded for size, wanted in zip(shape, found, strict=True)):
        raise ArgumentError("the shapes do not broadcast", found=" and ".join(str(tuple(shape)) for shape in shapes))
    return found


def shape_of(value: Operand) -> tuple[int, ...]:
    """The shape of a tensor; a number has that of a scalar."""
    return value.shape if isinstance(value, Tensor) else ()


def at(tensor: Tensor, indices: Sequence[Expr]) -> Read:
    """The element of a tensor that broadcasts against others, at indices of the result."""
    own = indices[len(indices) - len(tensor.shape) :]
    return tensor[tuple(index if size > 1 else 0 for index, size in zip(own, tensor.shape, strict=True))]


def element(value: Operand, indices: Sequence[Expr], dtype: DType) -> Expr:
    """The element of an operand at indices of the result, in the dtype of a computation."""
    if isinstance(value, Tensor):
        return at(value, indices).cast(dtype)
    return const(int(value) if dtype.is_integer else value, dtype)


def promoted(*values: Operand) -> DType:
    """The dtype in which operands meet: tensors with axes count most, then scalars, then numbers; a lesser one counts only if
    it is of a higher kind (bool, integers, floats)."""
    axes = [value.dtype for value in values if isinstance(value, Tensor) and value.shape]
    scalars = [value.dtype for value in values if isinstance(value, Tensor) and not value.shape]
    numbers = [dtype_of(value) for value in values if not isinstance(value, Tensor)]
    groups = [reduce(common, group) for group in (axes, scalars, numbers) if group]
    return reduce(_outranked, groups[::-1])


def common(left: DType, right: DType) -> DType:
    """The least dtype that stands for both."""
    if left is right:
        return left
    if left.is_float or right.is_float:
        if left.is_float and right.is_float:
            return f32 if left.bits == right.bits else max(left, right, key=lambda dtype: dtype.bits)
        return left if left.is_float else right
    if boolean in (left, right):
        return left if right == boolean else right
    if left.kind != right.kind:  # a signed type that holds all of an unsigned one, where there is one
        signed, unsigned = (left, right) if left.kind is Kind.SIGNED else (right, left)
        return signed if signed.bits > unsigned.bits else _SIGNED[min(2 * unsigned.bits, 64)]
    return max(left, right, key=lambda dtype: dtype.bits)


_SIGNED = {16: i16, 32: i32, 64: i64}


def floating(dtype: DType) -> DType:
    """The dtype in which functions of real numbers are computed: float32 for integers and bool."""
    return dtype if dtype.is_float else f32


def dtype_of(value: Operand) -> DType:
    """The dtype of a tensor, or that which a number has by itself."""
    if isinstance(value, Tensor):
        return value.dtype
    return boolean if isinstance(value, bool) else i64 if isinstance(value, int) else f32


def _rank(dtype: DType) -> int:
    return 0 if dtype == boolean else 2 if dtype.is_float else 1


def _outranked(lesser: DType, greater: DType) -> DType:
    if _rank(lesser) > _rank(greater) or greater == boolean:
        return common(lesser, greater) if _rank(lesser) > _rank(greater) else greater
    return greater
