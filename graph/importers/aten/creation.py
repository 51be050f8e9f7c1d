"""ATen's tensors that are made of nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ....tensor.dtype import DType, boolean, f32, i64
from ....tensor.program import Tensor
from ...functions import creation
from ...functions.elementwise import cast
from ...functions.function import NotCovered
from ...functions.shape import expand
from .registry import CONVERTERS, aten


def number(value: float, dtype: DType) -> float:
    """A number as a dtype has it. Errors: NotCovered for one that an integer cannot be."""
    if dtype == boolean:
        return bool(value)
    if dtype.is_integer:
        if not math.isfinite(value):
            raise NotCovered("an infinity or NaN as an integer")
        return int(value)
    return float(value)


def _own(value: float) -> DType:
    return boolean if isinstance(value, bool) else i64 if isinstance(value, int) else f32


@aten("full.default")
def full(size: Sequence[int], fill_value: float, dtype: DType | None = None, **_: object) -> Tensor:
    """One number everywhere"""
    out = dtype or _own(fill_value)
    return creation.full(size, number(fill_value, out), out)


@aten("scalar_tensor.default")
def scalar(value: float, dtype: DType | None = None, **_: object) -> Tensor:
    """A number as a tensor"""
    out = dtype or f32
    return creation.full((), number(value, out), out)


@aten("new_full.default")
def new_full(x: Tensor, size: Sequence[int], fill_value: float, dtype: DType | None = None, **_: object) -> Tensor:
    """One number everywhere"""
    return full(size, fill_value, dtype or x.dtype)


@aten("zeros.default", "empty.memory_format")
def zeros(size: Sequence[int], dtype: DType | None = None, **_: object) -> Tensor:
    """Zeros; so is what is left empty"""
    return full(size, 0, dtype or f32)


@aten("empty_strided.default", "empty_permuted.default")
def empty_strided(size: Sequence[int], order: Sequence[int], dtype: DType | None = None, **_: object) -> Tensor:
    """Zeros, for what is left empty"""
    return full(size, 0, dtype or f32)


@aten("new_empty_strided.default")
def new_empty_strided(
    x: Tensor, size: Sequence[int], stride: Sequence[int], dtype: DType | None = None, **_: object
) -> Tensor:  # fmt: skip
    """Zeros, for what is left empty"""
    return full(size, 0, dtype or x.dtype)


@aten("ones.default")
def ones(size: Sequence[int], dtype: DType | None = None, **_: object) -> Tensor:
    """Ones"""
    return full(size, 1, dtype or f32)


@aten("zeros_like.default", "empty_like.default")
def zeros_like(x: Tensor, dtype: DType | None = None, **_: object) -> Tensor:
    """Zeros in the shape of x"""
    return full(x.shape, 0, dtype or x.dtype)


@aten("ones_like.default")
def ones_like(x: Tensor, dtype: DType | None = None, **_: object) -> Tensor:
    """Ones in the shape of x"""
    return full(x.shape, 1, dtype or x.dtype)


@aten("new_zeros.default", "new_empty.default")
def new_zeros(x: Tensor, size: Sequence[int], dtype: DType | None = None, **_: object) -> Tensor:
    """Zeros"""
    return full(size, 0, dtype or x.dtype)


@aten("new_ones.default")
def new_ones(x: Tensor, size: Sequence[int], dtype: DType | None = None, **_: object) -> Tensor:
    """Ones"""
    return full(size, 1, dtype or x.dtype)


@aten("arange.start_step")
def arange(start: float, end: float, step: float = 1, dtype: DType | None = None, **_: object) -> Tensor:
    """start, start + step, ... below the end"""
    out = dtype or (i64 if all(isinstance(n, int) for n in (start, end, step)) else f32)
    return creation.arange(math.ceil((end - start) / step), start, step, out)


CONVERTERS["arange.default"] = lambda end, dtype=None, **_: arange(0, end, 1, dtype)
CONVERTERS["arange.start"] = lambda start, end, dtype=None, **_: arange(start, end, 1, dtype)


@aten("linspace.default")
def linspace(start: float, end: float, steps: int, dtype: DType | None = None, **_: object) -> Tensor:
    """From start to end in equal steps"""
    return creation.arange(steps, start, (end - start) / max(steps - 1, 1), dtype or f32)


@aten("eye.m")
def eye_m(n: int, m: int, dtype: DType | None = None, **_: object) -> Tensor:
    """1 on the diagonal"""
    return creation.eye(n, m, dtype or f32)


CONVERTERS["eye.default"] = lambda n, dtype=None, **_: creation.eye(n, n, dtype or f32)


@aten("tril.default")
def tril(x: Tensor, diagonal: int = 0) -> Tensor:
    """x below a diagonal"""
    return creation.triangle(x, False, diagonal)


@aten("triu.default")
def triu(x: Tensor, diagonal: int = 0) -> Tensor:
    """x above a diagonal"""
    return creation.triangle(x, True, diagonal)


@aten("tril_indices.default")
def tril_indices(row: int, col: int, offset: int = 0, dtype: DType | None = None, **_: object) -> Tensor:
    """Rows and columns of the places below a diagonal"""
    return cast(creation.triangle_indices(row, col, False, offset), dtype or i64)


@aten("triu_indices.default")
def triu_indices(row: int, col: int, offset: int = 0, dtype: DType | None = None, **_: object) -> Tensor:
    """Rows and columns of the places above a diagonal"""
    return cast(creation.triangle_indices(row, col, True, offset), dtype or i64)


@aten("one_hot.default")
def one_hot(x: Tensor, num_classes: int = -1) -> Tensor:
    """1 where the class is x"""
    if num_classes < 0:
        raise NotCovered("a number of classes that depends on data")
    return creation.one_hot(x, num_classes, i64)


@aten("copy.default")
def copy(x: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
    """The source in the shape and dtype of x"""
    return expand(cast(source, x.dtype), x.shape)
