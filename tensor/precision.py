"""In which dtype operators compute: narrow elements are widened when they are read, and results are rounded once."""

from __future__ import annotations

from collections.abc import Callable

from .build import compute
from .dtype import DType, Kind, accumulator, i32, i64, u16, u64
from .expr import Cast, Const, Expr, Op, walk
from .indices.affine import round_to
from .language import rounds
from .program import Tensor


def precise(value: Expr) -> Expr:
    """An operand as one computes with it: float16 and bfloat16 in float32, anything else as it is."""
    return value.cast(accumulator(value.dtype))


def wide(value: Expr) -> Expr:
    """A factor in the dtype in which products are summed: float16 and bfloat16 in float32, narrow integers in int32, and
    those of u16, of which two would not fit there, in int64."""
    if value.dtype.is_integer and value.dtype.bits < 32:
        return value.cast(i64 if value.dtype == u16 else i32)
    return precise(value)


def summand(value: Expr) -> Expr:
    """A term of a sum or a factor of a product of elements, which NumPy takes of integers in int64, or in uint64 of those.
    Narrow floats stay: reductions of them accumulate in float32 and round once by themselves."""
    return value.cast(i64) if value.dtype.is_integer and value.dtype != u64 else value


def rounded_once(body: Callable[..., Expr], *values: Expr) -> Expr:
    """`body` of values; where in narrow floats it would round more than once, it is in float32 and rounds at the end."""
    plain = body(*values)
    if sum(_rounds(node) for node in walk(plain)) < 2:
        return plain
    return body(*map(precise, values)).cast(plain.dtype)


def _rounds(node: Expr) -> bool:
    """Says whether a node rounds to a narrow float."""
    if accumulator(node.dtype) == node.dtype:
        return False
    match node:
        case Const(value=value):
            return round_to(value, node.dtype) != value
        case Op(name=name):
            return rounds(name)
    return isinstance(node, Cast)


def narrowed(tensor: Tensor, dtype: DType) -> Tensor:
    """The result back in the operands' dtype; sums of integers stay as wide as they are."""
    if tensor.dtype == dtype or dtype.kind in (Kind.SIGNED, Kind.UNSIGNED):
        return tensor
    return compute(tensor.shape, lambda *i: tensor[i].cast(dtype), name=f"{tensor.name}_{dtype}")
