"""Identity elements of the reductions: what the least prior value is that changes nothing."""

from __future__ import annotations

from .dtype import DType, Kind, boolean
from .expr import Const, const


def identity(combiner: str, dtype: DType) -> Const:
    """The identity of sum, prod, max or min in a dtype. Raises KeyError for another combiner."""
    if combiner in ("sum", "prod"):
        return const(0 if combiner == "sum" else 1, dtype)
    least, greatest = _range(dtype)
    return const({"max": least, "min": greatest}[combiner], dtype)


def _range(dtype: DType) -> tuple[float, float]:
    if dtype.is_float:
        return float("-inf"), float("inf")
    if dtype == boolean:
        return False, True
    if dtype.kind is Kind.UNSIGNED:
        return 0, 2**dtype.bits - 1
    return -(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1
