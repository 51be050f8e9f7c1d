"""ATen's pooling and interpolation."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....tensor.build import compute
from ....tensor.program import Tensor
from ...functions import columns, pool_gradients, pooling, resize, sampling
from ...functions.convolution import spread
from ...functions.function import NotCovered, axis_of, function
from ...functions.shape import squeeze, unsqueeze
from .registry import CONVERTERS, Missing, aten

Spans = int | Sequence[int]


def _spread(
    rank: int, kernel: Spans, stride: Spans, padding: Spans
) -> tuple[tuple[int, ...], tuple[int, ...] | None, tuple[int, ...]]:
    """Gives kernel, stride and padding a number for each dimension; no stride is that of the kernel."""
    return spread(kernel, rank), spread(stride, rank) if stride else None, spread(padding, rank)


def _max_pool(rank: int) -> Callable[..., Tensor]:
    def convert(
        x: Tensor,
        kernel_size: Spans,
        stride: Spans = (),
        padding: Spans = 0,
        dilation: Spans = 1,
        ceil_mode: bool = False,
    ) -> Tensor:
        return pooling.max_pool(x, *_spread(rank, kernel_size, stride, padding), dilation, ceil_mode)

    return convert


def _max_pool_places(rank: int) -> Callable[..., tuple[Tensor, Tensor]]:
    def convert(
        x: Tensor,
        kernel_size: Spans,
        stride: Spans = (),
        padding: Spans = 0,
        dilation: Spans = 1,
        ceil_mode: bool = False,
    ) -> tuple[Tensor, Tensor]:
        window = _spread(rank, kernel_size, stride, padding)
        return pool_gradients.max_pool_with_places(x, *window, dilation, ceil_mode)

    return convert


def _max_pool_backward(rank: int) -> Callable[..., Tensor]:
    def convert(
        gradient: Tensor, x: Tensor, kernel_size: Spans, stride: Spans, padding: Spans, dilation: Spans, ceil_mode: bool,
        places: Tensor,
    ) -> Tensor:  # fmt: skip
        window = _spread(rank, kernel_size, stride, padding)
        return pool_gradients.max_pool_gradient(gradient, x, places, *window, dilation, ceil_mode)

    return convert


def _avg_pool_backward(rank: int) -> Callable[..., Tensor]:
    def convert(
        gradient: Tensor, x: Tensor, kernel_size: Spans, stride: Spans, padding: Spans, ceil_mode: bool,
        count_include_pad: bool, divisor_override: int | None,
    ) -> Tensor:  # fmt: skip
        window = _spread(rank, kernel_size, stride, padding)
        return pool_gradients.avg_pool_gradient(gradient, x, *window, ceil_mode, count_include_pad, divisor_override)

    return convert


def _avg_pool(rank: int) -> Callable[..., Tensor]:
    def convert(
        x: Tensor, kernel_size: Spans, stride: Spans = (), padding: Spans = 0, ceil_mode: bool = False,
        count_include_pad: bool = True, divisor_override: int | None = None,
    ) -> Tensor:  # fmt: skip
        window = _spread(rank, kernel_size, stride, padding)
        return pooling.avg_pool(x, *window, ceil_mode, count_include_pad, divisor_override)

    return convert


def _register() -> None:
    for rank in (1, 2, 3):
        pool = _max_pool(rank)
        CONVERTERS[f"max_pool{rank}d.default"] = pool
        CONVERTERS[f"max_pool{rank}d_with_indices.default"] = _max_pool_places(rank)
        CONVERTERS[f"max_pool{rank}d_with_indices_backward.default"] = _max_pool_backward(rank)
        CONVERTERS[f"avg_pool{rank}d_backward.default"] = _avg_pool_backward(rank)
        CONVERTERS[f"_adaptive_avg_pool{rank}d_backward.default"] = pool_gradients.adaptive_avg_pool_gradient
        CONVERTERS[f"avg_pool{rank}d.default"] = _avg_pool(rank)
        CONVERTERS[f"adaptive_avg_pool{rank}d.default"] = lambda x, size, rank=rank: pooling.adaptive_avg_pool(
            x, _to(x, size, rank)
        )
        CONVERTERS[f"_adaptive_avg_pool{rank}d.default"] = CONVERTERS[f"adaptive_avg_pool{rank}d.default"]
        CONVERTERS[f"adaptive_max_pool{rank}d.default"] = lambda x, size, rank=rank: (
            pooling.adaptive_max_pool(x, _to(x, size, rank)),
            Missing("the places of greatest elements of windows"),
        )


def _to(x: Tensor, size: Spans, rank: int) -> tuple[int, ...]:
    return tuple(x.shape[d - rank] if n is None else n for d, n in enumerate(spread(size, rank)))


_register()


def _sizes(x: Tensor, size: Sequence[int] | None, scales: Sequence[float] | None) -> tuple[int, ...]:
    if size is not None:
        return tuple(size)
    return tuple(int(n * scale) for n, scale in zip(x.shape[2:], scales or (), strict=True))


def _nearest(exact: bool) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
    """(the overload of sizes and a scale each, that of lists)"""

    def plain(x: Tensor, output_size: Sequence[int], *scales: float | None, **named: float | None) -> Tensor:
        return resize.nearest(x, output_size, _scales(scales, named), exact)

    def listed(x: Tensor, size: Sequence[int] | None, scale_factors: Sequence[float] | None) -> Tensor:
        return resize.nearest(x, _sizes(x, size, scale_factors), scale_factors, exact)

    return plain, listed


def _smooth(function: Callable[..., Tensor]) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
    def plain(
        x: Tensor, output_size: Sequence[int], align_corners: bool, *scales: float | None, **named: float | None
    ) -> Tensor:
        return function(x, output_size, align_corners, _scales(scales, named))

    def listed(
        x: Tensor, size: Sequence[int] | None, align_corners: bool, scale_factors: Sequence[float] | None
    ) -> Tensor:
        return function(x, _sizes(x, size, scale_factors), align_corners, scale_factors)

    return plain, listed


def _scales(given: Sequence[float | None], named: dict[str, float | None]) -> list[float | None] | None:
    """One for each dimension; none, where there is none."""
    scales = [*given, *named.values()]
    return scales if any(scale is not None for scale in scales) else None


for _names, _pair in (
    (("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d"), _nearest(False)),
    (("_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d"), _nearest(True)),
    (("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d"), _smooth(resize.linear)),
    (("upsample_bicubic2d",), _smooth(resize.cubic)),
):
    for _name in _names:
        CONVERTERS[f"{_name}.default"], CONVERTERS[f"{_name}.vec"] = _pair


@aten("grid_sampler_2d.default", "grid_sampler.default")
def grid_sampler(x: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool) -> Tensor:
    """Images at places of a grid"""
    if len(x.shape) != 4 or interpolation_mode > 1:
        raise NotCovered("a grid of volumes, or of cubic interpolation")
    padding = ("zeros", "border", "reflection")[padding_mode]
    return sampling.grid_sample(x, grid, interpolation_mode == 1, padding, align_corners)


@aten("col2im.default")
def columns_to_image(
    x: Tensor, output_size: Sequence[int], kernel_size: Sequence[int], dilation: Sequence[int], padding: Sequence[int],
    stride: Sequence[int],
) -> Tensor:  # fmt: skip
    """Windows added up where they lie in an image"""
    if len(x.shape) == 2:
        return squeeze(columns_to_image(unsqueeze(x, 0), output_size, kernel_size, dilation, padding, stride), 0)
    return columns.columns_to_image(x, output_size, kernel_size, stride, dilation, padding, padding)


@aten("im2col.default")
def image_to_columns(
    x: Tensor, kernel_size: Sequence[int], dilation: Sequence[int], padding: Sequence[int], stride: Sequence[int]
) -> Tensor:
    """Windows of an image as columns"""
    if len(x.shape) == 3:
        return squeeze(image_to_columns(unsqueeze(x, 0), kernel_size, dilation, padding, stride), 0)
    return columns.image_to_columns(x, kernel_size, stride, dilation, padding, padding)


@aten("unfold.default", "unfold_copy.default")
@function
def unfold(x: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Windows along an axis, as a new last axis"""
    if not x.shape:
        return unsqueeze(x, 0)
    place = axis_of(dimension, len(x.shape))
    count = (x.shape[place] - size) // step + 1
    shape = (*x.shape[:place], count, *x.shape[place + 1 :], size)
    return compute(shape, lambda *i: x[(*i[:place], i[place] * step + i[-1], *i[place + 1 : -1])])
