"""ATen's reductions and scans."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....tensor.dtype import DType
from ....tensor.program import Tensor
from ...functions import reductions
from ...functions.elementwise import cast
from .registry import CONVERTERS, Missing, aten

Axes = int | Sequence[int] | None


@aten("sum.dim_IntList", "sum.default")
def summed(x: Tensor, dim: Axes = None, keepdim: bool = False, dtype: DType | None = None) -> Tensor:
    """The sum"""
    return reductions.sum(x, dim, keepdim, dtype)


@aten("mean.dim", "mean.default")
def mean(x: Tensor, dim: Axes = None, keepdim: bool = False, dtype: DType | None = None) -> Tensor:
    """The mean"""
    return reductions.mean(x, dim, keepdim, dtype)


@aten("prod.dim_int", "prod.default")
def product(x: Tensor, dim: Axes = None, keepdim: bool = False, dtype: DType | None = None) -> Tensor:
    """The product"""
    return reductions.prod_of(x, dim, keepdim, dtype)


for _name, _function in (("amax", reductions.max), ("amin", reductions.min)):
    CONVERTERS[f"{_name}.default"] = lambda x, dim=(), keepdim=False, f=_function: f(x, dim, keepdim)
for _name, _function in (("any", reductions.any), ("all", reductions.all)):
    for _kind in ("default", "dim", "dims"):
        CONVERTERS[f"{_name}.{_kind}"] = lambda x, dim=None, keepdim=False, f=_function: f(x, dim, keepdim)
CONVERTERS["max.default"] = reductions.max
CONVERTERS["min.default"] = reductions.min


def _extreme(x: Tensor, dim: int, keepdim: bool, greatest: bool) -> tuple[Tensor, Tensor]:
    """The greatest or least along an axis, and where it is. Who uses the values alone pays for nothing else."""
    place = reductions.extreme_index(x, dim, keepdim, greatest)
    return (reductions.max if greatest else reductions.min)(x, dim, keepdim), place


CONVERTERS["max.dim"] = lambda x, dim, keepdim=False: _extreme(x, dim, keepdim, True)
CONVERTERS["min.dim"] = lambda x, dim, keepdim=False: _extreme(x, dim, keepdim, False)
CONVERTERS["argmax.default"] = lambda x, dim=None, keepdim=False: reductions.extreme_index(x, dim, keepdim)
CONVERTERS["argmin.default"] = lambda x, dim=None, keepdim=False: reductions.extreme_index(x, dim, keepdim, False)


def _spread(name: str, which: Callable[[Tensor, Axes, bool, float], Tensor]) -> None:
    """Registers variance or deviation, whose parameters differ from overload to overload."""

    def corrected(x: Tensor, dim: Axes = None, correction: float | None = None, keepdim: bool = False) -> Tensor:
        return which(x, dim, keepdim, 1 if correction is None else correction)

    def biased(x: Tensor, dim: Axes, unbiased: bool = True, keepdim: bool = False) -> Tensor:
        return which(x, dim, keepdim, float(unbiased))

    def with_mean(
        x: Tensor, dim: Axes = None, correction: float | None = None, keepdim: bool = False
    ) -> tuple[Tensor, Tensor]:
        return corrected(x, dim, correction, keepdim), reductions.mean(x, dim, keepdim)

    CONVERTERS[f"{name}.correction"], CONVERTERS[f"{name}.dim"] = corrected, biased
    CONVERTERS[f"{name}.default"] = lambda x, unbiased=True: which(x, None, False, float(unbiased))
    CONVERTERS[f"{name}_mean.correction"] = with_mean


_spread("var", reductions.variance)
_spread("std", reductions.deviation)


@aten("logsumexp.default")
def log_sum_exp(x: Tensor, dim: Axes, keepdim: bool = False) -> Tensor:
    """log of the sum of exp(x)"""
    return reductions.log_sum_exp(x, dim, keepdim)


@aten("linalg_vector_norm.default")
def vector_norm(
    x: Tensor, ord: float = 2, dim: Axes = None, keepdim: bool = False, dtype: DType | None = None
) -> Tensor:
    """The norm"""
    return reductions.norm(x if dtype is None else cast(x, dtype), ord, dim, keepdim)


@aten("norm.ScalarOpt_dim", "norm.Scalar")
def norm(x: Tensor, p: float | None = 2, dim: Axes = None, keepdim: bool = False) -> Tensor:
    """The norm"""
    return reductions.norm(x, 2 if p is None else p, dim, keepdim)


@aten("cumsum.default")
def cumsum(x: Tensor, dim: int, dtype: DType | None = None) -> Tensor:
    """Sums up to each place"""
    return reductions.scan(x, dim, "sum", dtype)


@aten("cumprod.default")
def cumprod(x: Tensor, dim: int, dtype: DType | None = None) -> Tensor:
    """Products up to each place"""
    return reductions.scan(x, dim, "prod", dtype)


@aten("cummax.default")
def cummax(x: Tensor, dim: int) -> tuple[Tensor, Missing]:
    """The greatest up to each place"""
    return reductions.scan(x, dim, "max"), Missing("the places of a running maximum")


@aten("cummin.default")
def cummin(x: Tensor, dim: int) -> tuple[Tensor, Missing]:
    """The least up to each place"""
    return reductions.scan(x, dim, "min"), Missing("the places of a running minimum")


@aten("histc.default")
def histogram(x: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """How many elements lie in each part of a range"""
    return reductions.histogram(x, bins, min, max)
