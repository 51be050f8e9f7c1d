"""ONNX's pools."""

from __future__ import annotations

from collections.abc import Sequence

from ....tensor import build
from ....tensor.build import compute
from ....tensor.expr import Expr
from ....tensor.ops.pool import pooled
from ....tensor.ops.window import Window
from ....tensor.program import Tensor
from ...functions import reductions
from ...functions.elementwise import cast, mapped
from ...functions.function import NotCovered, function
from .convolutions import Pairs, kernel_of, window_pads
from .registry import Node, onnx


def _window(node: Node, x: Tensor, least: int = 0) -> tuple[Window, Pairs]:
    """(the window, the padding as it is given); with ceil_mode the window reaches further, up to its last start inside."""
    sizes, kernel = x.shape[2:], kernel_of(node)
    rank = len(kernel)
    if rank not in (1, 2, 3):
        raise NotCovered("a window over more than three dimensions")
    stride, dilation = node.ints("strides") or [1] * rank, node.ints("dilations") or [1] * rank
    given = window_pads(node, sizes, kernel, stride, dilation)
    pads = list(given)
    if node.integer("ceil_mode") and node.text("auto_pad", "NOTSET") in ("NOTSET", "VALID"):
        pads = [_reaching(*one) for one in zip(sizes, kernel, stride, dilation, given, strict=True)]
    front, behind = tuple(p[0] for p in pads), tuple(p[1] for p in pads)
    return Window(tuple(sizes), tuple(kernel), tuple(stride), front, tuple(dilation), behind), given


def _reaching(size: int, kernel: int, stride: int, dilation: int, pads: tuple[int, int]) -> tuple[int, int]:
    reach = dilation * (kernel - 1) + 1
    count = -(-(size + pads[0] + pads[1] - reach) // stride) + 1
    if (count - 1) * stride >= size + pads[0]:  # a window has to start inside
        count -= 1
    return pads[0], (count - 1) * stride + reach - size - pads[0]


@onnx("MaxPool")
def max_pool(node: Node) -> Tensor | tuple[Tensor, Tensor]:
    """The greatest of each window, and where it is in the whole tensor"""
    x = node.tensor(0)
    window, _ = _window(node, x)
    made = _combined(x, window, "max")
    return (made, _places(x, made, window, bool(node.integer("storage_order")))) if node.wants(1) else made


@function
def _combined(x: Tensor, window: Window, combiner: str) -> Tensor:
    return pooled(x, window, combiner)


@function
def _places(x: Tensor, greatest: Tensor, window: Window, by_columns: bool) -> Tensor:
    """The flat index of the first element of each window that is its greatest; of columns, if rows lie beside each other."""
    from ....tensor.build import literal, reduce_axis, select
    from ....tensor.dtype import i64
    from ....tensor.ops.window import all_of

    over = [reduce_axis(size, name) for size, name in zip(window.kernel, "rst", strict=False)]
    sizes = x.shape[2:]
    most = literal(2**62, i64)

    def element(*i: Expr) -> build.Reduction:
        places = window.places(i[2:], over)
        inside = [*window.inside(places)]
        value = x[(*i[:2], *places)]
        hit = value.equal(greatest[i])
        met = select(all_of(inside), hit, literal(False, hit.dtype)) if inside else hit
        flat: Expr = i[0] * x.shape[1] + i[1]
        order = range(len(sizes))
        inner: Expr = literal(0, i64)
        for d in reversed(order) if by_columns else order:
            inner = inner * sizes[d] + places[d]
        whole = 1
        for size in sizes:
            whole *= size
        return build.min(select(met, flat * whole + inner, most), over)

    return compute(greatest.shape, element)


@onnx("AveragePool")
def average_pool(node: Node) -> Tensor:
    """The mean of each window; padding counts as zeros, or not at all."""
    x = node.tensor(0)
    window, given = _window(node, x)
    return _mean(x, window, given, bool(node.integer("count_include_pad")))


@function
def _mean(x: Tensor, window: Window, given: Sequence[tuple[int, int]], padding_counts: bool) -> Tensor:
    sums = pooled(x, window, "sum")

    def element(*i: Expr) -> Expr:
        count: Expr | None = None
        fixed = 1
        for d, position in enumerate(i[2:]):
            length = _length(position, window, d, given[d] if padding_counts else (0, 0))
            if isinstance(length, int):
                fixed *= length
            else:
                count = length if count is None else count * length
        value = sums[i]
        if count is None:
            return (value / float(fixed)).cast(x.dtype)
        return (value / (count * fixed).cast(value.dtype)).cast(x.dtype)

    return compute(sums.shape, element)


def _length(position: Expr, window: Window, d: int, counted: tuple[int, int]) -> Expr | int:
    """Says how many elements of a window lie in the image and the padding that counts."""
    kernel, step, size = window.kernel[d], window.dilation[d], window.sizes[d]
    last = (window.counts[d] - 1) * window.stride[d] - window.padding[d] + (kernel - 1) * step
    if window.padding[d] <= counted[0] and last < size + counted[1]:
        return kernel
    start = position * window.stride[d] - window.padding[d]
    low, high = -counted[0], size + counted[1] - 1
    first = build.maximum((low - start + (step - 1)) // step, 0)
    end = build.minimum((high - start) // step, kernel - 1)
    return build.maximum(end - first + 1, 0)


@onnx("LpPool")
def lp_pool(node: Node) -> Tensor:
    """The norm of each window"""
    x, order = node.tensor(0), node.integer("p", 2)
    window, _ = _window(node, x)
    powers = mapped(lambda v: build.power(build.absolute(v), float(order)), x)
    sums = _combined(powers, window, "sum")
    return cast(mapped(lambda v: build.power(v, 1.0 / order), sums), x.dtype)


@onnx("GlobalAveragePool")
def global_average_pool(node: Node) -> Tensor:
    """The mean of each channel"""
    return reductions.mean(node.tensor(0), list(range(2, node.rank())), True)


@onnx("GlobalMaxPool")
def global_max_pool(node: Node) -> Tensor:
    """The greatest of each channel"""
    return reductions.max(node.tensor(0), list(range(2, node.rank())), True)


@onnx("GlobalLpPool")
def global_lp_pool(node: Node) -> Tensor:
    """The norm of each channel"""
    return reductions.norm(node.tensor(0), node.integer("p", 2), list(range(2, node.rank())), True)
