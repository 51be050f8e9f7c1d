"""In which dtype operators compute: sums of narrow elements are wide, and what they give is as narrow as what they take."""

from __future__ import annotations

from .build import compute
from .dtype import DType, Kind, f32, i32
from .expr import Expr
from .program import Tensor


def wide(value: Expr) -> Expr:
    """A factor in the dtype in which products are summed: float16 and bfloat16 in float32, narrow integers in int32."""
    dtype = value.dtype
    if dtype.is_float and dtype.bits < 32:
        return value.cast(f32)
    return value.cast(i32) if dtype.is_integer and dtype.bits < 32 else value


def narrowed(tensor: Tensor, dtype: DType) -> Tensor:
    """The result back in the operands' dtype; sums of narrow integers stay int32."""
    if tensor.dtype == dtype or dtype.kind in (Kind.SIGNED, Kind.UNSIGNED):
        return tensor
    return compute(tensor.shape, lambda *i: tensor[i].cast(dtype), name=f"{tensor.name}_{dtype}")
