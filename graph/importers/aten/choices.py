"""ATen's functions that choose elements by indices, or write to such."""

from __future__ import annotations

from collections.abc import Sequence

from ....tensor.dtype import i32, i64
from ....tensor.program import Tensor
from ...functions import bags, indexing, shape
from ...functions import scatter as scattering
from ...functions.elementwise import add, cast, compare, where
from ...functions.function import NotCovered, axis_of
from .registry import Missing, aten

_COMBINED = {"sum": "sum", "prod": "prod", "mean": "mean", "amax": "max", "amin": "min"}


@aten("embedding.default")
def embedding(
    weight: Tensor, indices: Tensor, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Tensor:
    """weight[indices]"""
    return indexing.embedding(indices, weight)


@aten("_embedding_bag.default", "_embedding_bag_forward_only.default")
def embedding_bag(
    weight: Tensor, indices: Tensor, offsets: Tensor, scale_grad_by_freq: bool = False, mode: int = 0, sparse: bool = False,
    per_sample_weights: Tensor | None = None, include_last_offset: bool = False, padding_idx: int = -1,
) -> tuple[Tensor, Missing, Missing, Missing]:  # fmt: skip
    """Rows of weights in bags: their sums, means or greatest"""
    made = bags.embedding_bag(
        weight, indices, offsets, bags.MODES[mode], per_sample_weights, include_last_offset, padding_idx
    )
    saved = Missing("what a bag of embeddings saves for training")
    return made, saved, saved, saved


@aten("index_select.default")
def index_select(x: Tensor, dim: int, index: Tensor) -> Tensor:
    """x[..., index, ...]"""
    if not x.shape:
        return shape.reshape(x, [])
    chosen = index if index.shape else shape.reshape(index, [1])
    return indexing.take(x, chosen, dim, negative=False)


@aten("gather.default")
def gather(x: Tensor, dim: int, index: Tensor, sparse_grad: bool = False) -> Tensor:
    """x[..., index[..., k, ...], ...]"""
    if not x.shape:
        return shape.expand(x, index.shape)
    if not index.shape:
        return shape.reshape(gather(x, dim, shape.reshape(index, [1])), [])
    return indexing.take_along_axis(x, index, dim, negative=False)


@aten("take.default")
def take(x: Tensor, index: Tensor) -> Tensor:
    """Elements of x as one row"""
    return indexing.take(shape.reshape(x, [-1]), index, 0)


@aten("index.Tensor", "_unsafe_index.Tensor")
def index(x: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    """x[indices]"""
    return indexing.take_points(x, indices)


@aten("slice_scatter.default")
def slice_scatter(
    x: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """x with x[start:end:step] replaced"""
    size = x.shape[axis_of(dim, len(x.shape))]
    return indexing.replaced(x, cast(src, x.dtype), dim, start or 0, size if end is None else end, step)


@aten("select_scatter.default")
def select_scatter(x: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """x with x[index] replaced"""
    place = axis_of(dim, len(x.shape))
    at = index % x.shape[place]
    return indexing.replaced(x, shape.unsqueeze(cast(src, x.dtype), place), place, at, at + 1)


@aten("index_put.default", "_unsafe_index_put.default")
def index_put(
    x: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False
) -> Tensor:  # fmt: skip
    """x with x[indices] replaced, or added to"""
    chosen = [index for index in indices if index is not None]
    if len(chosen) == 1 and chosen[0].dtype.name == "bool" and indices[0] is not None:
        return _masked_put(x, chosen[0], values, accumulate)
    return scattering.put_points(x, indices, cast(values, x.dtype), "sum" if accumulate else scattering.LAST)


def _masked_put(x: Tensor, mask: Tensor, values: Tensor, accumulate: bool) -> Tensor:
    """Says where the values are one number, a mask says where it stands."""
    if values.shape not in ((), (1,)):
        raise NotCovered("elements chosen by bool, whose number depends on data")
    wide_mask = shape.reshape(mask, [*mask.shape, *[1] * (len(x.shape) - len(mask.shape))])
    one = shape.reshape(cast(values, x.dtype), [])
    return cast(where(wide_mask, add(x, one) if accumulate else one, x), x.dtype)


@aten("scatter.src", "scatter.value")
def scatter(x: Tensor, dim: int, index: Tensor, src: Tensor | float) -> Tensor:
    """x with elements replaced along an axis; of several for one place the last stays"""
    return scattering.put_along_axis(x, index, src, dim)


@aten("scatter_add.default")
def scatter_add(x: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """x with elements added to along an axis"""
    return scattering.put_along_axis(x, index, src, dim, "sum")


@aten("scatter_reduce.two")
def scatter_reduce(
    x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, include_self: bool = True
) -> Tensor:  # fmt: skip
    """x with elements combined along an axis"""
    return scattering.put_along_axis(x, index, src, dim, _COMBINED[reduce], include_self)


@aten("index_reduce.default")
def index_reduce(
    x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, include_self: bool = True
) -> Tensor:  # fmt: skip
    """x with slices combined along an axis"""
    place = axis_of(dim, len(x.shape))
    own = [index.shape[0] if axis == place else 1 for axis in range(len(x.shape))] if index.shape else [1]
    if not x.shape or not index.shape:
        raise NotCovered("a scalar with slices combined")
    spread = shape.expand(shape.reshape(index, own), source.shape)
    return scattering.put_along_axis(x, spread, source, place, _COMBINED[reduce], include_self)


@aten("masked_scatter.default")
def masked_scatter(x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """x with elements at which the mask holds replaced"""
    return indexing.masked_scatter(x, mask, source)


@aten("kthvalue.default")
def kth_value(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The k-th of the elements in order, and where it was"""
    found = indexing.sorted_along(x, dim, False)
    if not x.shape:
        return found
    values, places = (shape.slice_axis(part, dim, k - 1, k) for part in found)
    return (values, places) if keepdim else (shape.squeeze(values, dim), shape.squeeze(places, dim))


@aten("topk.default")
def topk(x: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> tuple[Tensor, Tensor]:
    """The k greatest or least, and where they were"""
    return indexing.sorted_along(x, dim, largest, k)


@aten("sort.default", "sort.stable")
def sort(x: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> tuple[Tensor, Tensor]:
    """All in order, and where they were"""
    return indexing.sorted_along(x, dim, descending)


@aten("argsort.default", "argsort.stable")
def argsort(x: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Tensor:
    """Where the elements in order were"""
    return indexing.sorted_along(x, dim, descending)[1]


@aten("median.default", "median.dim")
def median(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor | tuple[Tensor, Tensor]:
    """The element in the middle of the order, the lesser of two, or NaN where there is one; and where it was"""
    if dim is None or not x.shape:
        flat = shape.reshape(x, [-1])
        found = tuple(shape.reshape(part, []) for part in _middle(flat, 0))
        return found[0] if dim is None else (found[0], found[1])
    values, places = _middle(x, dim)
    return (values, places) if keepdim else (shape.squeeze(values, dim), shape.squeeze(places, dim))


def _middle(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """NaN comes last in order: where the last element is none, the one in the middle is the median."""
    in_order, count = indexing.sorted_along(x, dim, False), x.shape[axis_of(dim, len(x.shape))]
    middle, last = ([shape.slice_axis(part, dim, n, n + 1) for part in in_order] for n in ((count - 1) // 2, count - 1))
    has_nan = compare("not_equal", last[0], last[0])
    return where(has_nan, last[0], middle[0]), where(has_nan, last[1], middle[1])


@aten("bucketize.Tensor")
def bucketize(x: Tensor, boundaries: Tensor, out_int32: bool = False, right: bool = False) -> Tensor:
    """How many boundaries lie before each element"""
    return _counted(boundaries, x, out_int32, right)


@aten("searchsorted.Tensor")
def searchsorted(
    sequence: Tensor, x: Tensor, out_int32: bool = False, right: bool = False, side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Where each element would stand in a sorted sequence, that of its row where there are rows"""
    ordered = sequence if sorter is None else indexing.take_along_axis(sequence, sorter, -1)
    return _counted(ordered, x, out_int32, right or side == "right")


def _counted(ordered: Tensor, x: Tensor, short: bool, right: bool) -> Tensor:
    return cast(indexing.places_among(ordered, x, right), i32 if short else i64)
