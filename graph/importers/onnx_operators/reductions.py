"""ONNX's reductions: axes are an attribute or a known input; none are all, or with noop_with_empty_axes nothing."""

from __future__ import annotations

from collections.abc import Callable

from ....tensor import build
from ....tensor.dtype import f64
from ....tensor.program import Tensor
from ...functions import reductions
from ...functions.elementwise import cast, mapped
from ...functions.shape import unsqueeze
from .registry import CONVERTERS, Node

Reduce = Callable[[Tensor, list[int] | None, bool], Tensor]


def _mean(x: Tensor, axes: list[int] | None, keep: bool) -> Tensor:
    if x.dtype.is_float:
        return reductions.mean(x, axes, keep)
    return cast(reductions.mean(cast(x, f64), axes, keep), x.dtype)


def _squares(x: Tensor, axes: list[int] | None, keep: bool) -> Tensor:
    return reductions.sum(mapped(lambda v: v * v, x), axes, keep, x.dtype)


def _norm(x: Tensor, axes: list[int] | None, keep: bool) -> Tensor:
    if x.dtype.is_float:
        return reductions.norm(x, 2, axes, keep)
    return cast(reductions.norm(cast(x, f64), 2, axes, keep), x.dtype)


def _magnitudes(x: Tensor, axes: list[int] | None, keep: bool) -> Tensor:
    return reductions.sum(mapped(build.absolute, x), axes, keep, x.dtype)


def _log_sum(x: Tensor, axes: list[int] | None, keep: bool) -> Tensor:
    wide = x if x.dtype.is_float else cast(x, f64)
    return cast(mapped(build.log, reductions.sum(wide, axes, keep)), x.dtype)


def _log_sum_exp(x: Tensor, axes: list[int] | None, keep: bool) -> Tensor:
    wide = x if x.dtype.is_float else cast(x, f64)
    return cast(reductions.log_sum_exp(wide, axes, keep), x.dtype)


_REDUCTIONS: dict[str, Reduce] = {
    "ReduceSum": lambda x, axes, keep: reductions.sum(x, axes, keep, x.dtype),
    "ReduceProd": lambda x, axes, keep: reductions.prod_of(x, axes, keep, x.dtype),
    "ReduceMean": _mean,
    "ReduceMax": reductions.max,
    "ReduceMin": reductions.min,
    "ReduceL1": _magnitudes,
    "ReduceL2": _norm,
    "ReduceSumSquare": _squares,
    "ReduceLogSum": _log_sum,
    "ReduceLogSumExp": _log_sum_exp,
}


def _converter(reduce: Reduce) -> Callable[[Node], Tensor]:
    def convert(node: Node) -> Tensor:
        x, keep = node.tensor(0), bool(node.integer("keepdims", 1))
        axes = node.numbers(1) if node.has(1) else node.ints("axes")
        if axes:
            return reduce(x, axes, keep)
        if node.integer("noop_with_empty_axes"):  # what is done to one element is done all the same
            return reduce(unsqueeze(x, len(x.shape)), [len(x.shape)], False)
        return reduce(x, None, keep)

    return convert


CONVERTERS.update({name: _converter(reduce) for name, reduce in _REDUCTIONS.items()})
