"""ATen's functions that only move elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from ....tensor.build import compute
from ....tensor.dtype import i64
from ....tensor.expr import Const, Expr
from ....tensor.indices.affine import simplify
from ....tensor.program import Tensor
from ...functions import shape
from ...functions.elementwise import cast
from ...functions.function import NotCovered, axis_of, function
from ...functions.operands import promoted
from .registry import CONVERTERS, Empty, aten


@aten("view.default", "_unsafe_view.default", "reshape.default", "view_copy.default")
def view(x: Tensor, size: Sequence[int]) -> Tensor:
    """x in another shape"""
    return shape.reshape(x, size)


@aten("flatten.using_ints")
def flatten(x: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Axes from one to another as one"""
    first, last = axis_of(start_dim, len(x.shape)), axis_of(end_dim, len(x.shape))
    return shape.reshape(x, [*x.shape[:first], prod(x.shape[first : last + 1]), *x.shape[last + 1 :]])


@aten("unflatten.int")
def unflatten(x: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """One axis as several"""
    place = axis_of(dim, len(x.shape))
    known = -prod(sizes)
    parts = [x.shape[place] // known if size == -1 else size for size in sizes]
    return shape.reshape(x, [*x.shape[:place], *parts, *x.shape[place + 1 :]])


@aten("squeeze.default", "squeeze.dim", "squeeze.dims", "squeeze_copy.dim")
def squeeze(x: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """x without axes of the size 1"""
    return shape.squeeze(x, dim)


@aten("unsqueeze.default", "unsqueeze_copy.default")
def unsqueeze(x: Tensor, dim: int) -> Tensor:
    """x with an axis of the size 1"""
    return shape.unsqueeze(x, dim)


@aten("permute.default", "permute_copy.default")
def permute(x: Tensor, dims: Sequence[int]) -> Tensor:
    """Axes in another order"""
    return shape.permute(x, dims)


@aten("transpose.int", "transpose_copy.int", "swapaxes.default")
def transpose(x: Tensor, dim0: int, dim1: int) -> Tensor:
    """Two axes exchanged"""
    return shape.transpose(x, dim0, dim1)


@aten("t.default", "numpy_T.default", "mT.default")
def turned(x: Tensor) -> Tensor:
    """Rows and columns exchanged"""
    return shape.transpose(x, -1, -2) if len(x.shape) > 1 else x


@aten("movedim.int", "movedim.intlist")
def movedim(x: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """Axes moved to other places"""
    rank = len(x.shape)
    sources = [axis_of(a, rank) for a in ([source] if isinstance(source, int) else source)]
    targets = [axis_of(a, rank) for a in ([destination] if isinstance(destination, int) else destination)]
    rest = iter(axis for axis in range(rank) if axis not in sources)
    return shape.permute(x, [sources[targets.index(a)] if a in targets else next(rest) for a in range(rank)])


@aten("expand.default", "expand_copy.default")
def expand(x: Tensor, size: Sequence[int], implicit: bool = False) -> Tensor:
    """x repeated along axes of the size 1"""
    return shape.expand(x, size)


@aten("expand_as.default")
def expand_as(x: Tensor, other: Tensor) -> Tensor:
    """x repeated to the shape of another"""
    return shape.expand(x, other.shape)


@aten("view_as.default", "reshape_as.default")
def view_as(x: Tensor, other: Tensor) -> Tensor:
    """x in the shape of another"""
    return shape.reshape(x, other.shape)


@aten("slice.Tensor", "slice_copy.Tensor")
def cut(x: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Tensor:
    """x[start:end:step]"""
    return shape.slice_axis(x, dim, start, end, step)


@aten("narrow.default", "narrow_copy.default")
def narrow(x: Tensor, dim: int, start: int, length: int) -> Tensor:
    """x[start:start + length]"""
    first = start % x.shape[axis_of(dim, len(x.shape))]
    return shape.slice_axis(x, dim, first, first + length)


@aten("select.int", "select_copy.int")
def select(x: Tensor, dim: int, index: int) -> Tensor:
    """x[index]"""
    return shape.select_axis(x, dim, index)


@aten("unbind.int", "unbind_copy.int")
def unbind(x: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """x at each index"""
    return tuple(shape.select_axis(x, dim, n) for n in range(x.shape[axis_of(dim, len(x.shape))]))


@aten("split.Tensor", "split_with_sizes.default", "split_with_sizes_copy.default", "split.sizes", "split_copy.Tensor")
def split(x: Tensor, split_size: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Parts of x"""
    return shape.split(x, split_size, dim)


@aten("chunk.default")
def chunk(x: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Equal parts of x"""
    return shape.chunk(x, chunks, dim)


@aten("cat.default", "concat.default", "concatenate.default")
def cat(tensors: Sequence[Tensor | Empty], dim: int = 0) -> Tensor:
    """One behind the other"""
    parts = [tensor for tensor in tensors if isinstance(tensor, Tensor)]
    dtype = promoted(*parts)
    return shape.concat([cast(tensor, dtype) for tensor in parts], dim)


@aten("stack.default")
def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Along a new axis"""
    dtype = promoted(*tensors)
    return shape.stack([cast(tensor, dtype) for tensor in tensors], dim)


@aten("repeat.default", "tile.default")
def repeat(x: Tensor, repeats: Sequence[int]) -> Tensor:
    """x laid beside itself"""
    return shape.tile(x, repeats)


@aten("repeat_interleave.self_int")
def repeat_interleave(x: Tensor, repeats: int, dim: int | None = None, output_size: int | None = None) -> Tensor:
    """Each element so many times"""
    return shape.repeat_each(x if dim is not None else shape.reshape(x, [-1]), repeats, dim or 0)


@aten("flip.default")
def flip(x: Tensor, dims: Sequence[int]) -> Tensor:
    """From the end"""
    return shape.flip(x, dims)


@aten("roll.default")
def roll(x: Tensor, shifts: int | Sequence[int], dims: int | Sequence[int] = ()) -> Tensor:
    """Moved around"""
    by, axes = ((n,) if isinstance(n, int) else tuple(n) for n in (shifts, dims))
    return shape.roll(x, by, axes)


@aten("diagonal.default", "diagonal_copy.default")
def diagonal(x: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The diagonal of two axes"""
    return shape.diagonal(x, offset, dim1, dim2)


@aten("constant_pad_nd.default")
def constant_pad(x: Tensor, pad: Sequence[int], value: float = 0) -> Tensor:
    """x with a number around it"""
    return _padded(x, pad, "constant", value)


def _padded(x: Tensor, pad: Sequence[int], mode: str, value: float = 0) -> Tensor:
    """`pad` has pairs for the last axes, the last one first."""
    before, after = [0] * len(x.shape), [0] * len(x.shape)
    for number in range(len(pad) // 2):
        before[-1 - number], after[-1 - number] = pad[2 * number], pad[2 * number + 1]
    if mode != "constant" and min(*pad, 0) < 0:
        raise NotCovered("a padding by elements that also cuts off")
    return shape.pad(x, before, after, mode, value if x.dtype.is_float else int(value))


for _rank in (1, 2, 3):
    CONVERTERS[f"reflection_pad{_rank}d.default"] = lambda x, padding: _padded(x, padding, "reflect")
    CONVERTERS[f"replication_pad{_rank}d.default"] = lambda x, padding: _padded(x, padding, "edge")


@aten("pad.default")
def pad(x: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """x with elements around it"""
    named = {"replicate": "edge", "circular": "wrap"}
    return _padded(x, pad, named.get(mode, mode), value or 0)


@aten("pixel_shuffle.default")
def pixel_shuffle(x: Tensor, upscale_factor: int) -> Tensor:
    """Channels as rows and columns"""
    return _images(x, lambda y: shape.depth_to_space(y, upscale_factor))


@aten("pixel_unshuffle.default")
def pixel_unshuffle(x: Tensor, downscale_factor: int) -> Tensor:
    """Rows and columns as channels"""
    return _images(x, lambda y: shape.space_to_depth(y, downscale_factor))


def _images(x: Tensor, change: Callable[[Tensor], Tensor]) -> Tensor:
    """A change of images of one batch, of x with any axes before."""
    outer = x.shape[:-3]
    made = change(shape.reshape(x, [-1, *x.shape[-3:]]))
    return shape.reshape(made, [*outer, *made.shape[1:]])


@aten("channel_shuffle.default", "native_channel_shuffle.default")
def channel_shuffle(x: Tensor, groups: int) -> Tensor:
    """Channels of groups mixed"""
    n, c, *rest = x.shape
    mixed = shape.transpose(shape.reshape(x, [n, groups, c // groups, *rest]), 1, 2)
    return shape.reshape(mixed, x.shape)


@aten("as_strided.default", "as_strided_copy.default")
@function
def as_strided(x: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Tensor:
    """Elements of x, as they lie in memory row by row, at other strides"""
    flat = shape.reshape(x, [-1])
    last = (storage_offset or 0) + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    if last >= flat.shape[0]:
        raise NotCovered("strides over the memory of a part of a tensor")

    def element(*i: Expr) -> Expr:
        place: Expr = Const(storage_offset or 0, i64)
        for index, step in zip(i, stride, strict=True):
            place = place + index * step
        return flat[simplify(place)]

    return compute(tuple(size), element)


@aten("meshgrid.indexing", "meshgrid.default")
def meshgrid(tensors: Sequence[Tensor], indexing: str = "ij") -> tuple[Tensor, ...]:
    """Each along an axis of its own"""
    rows = [shape.reshape(tensor, [-1]) for tensor in tensors]
    order = [1, 0, *range(2, len(rows))] if indexing == "xy" and len(rows) > 1 else list(range(len(rows)))
    sizes = [rows[axis].shape[0] for axis in order]

    def spread(number: int) -> Tensor:
        own = [1] * len(rows)
        own[order.index(number)] = rows[number].shape[0]
        return shape.expand(shape.reshape(rows[number], own), sizes)

    return tuple(spread(number) for number in range(len(rows)))
