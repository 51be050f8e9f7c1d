"""The greatest or the mean element of windows that slide over images of one to three dimensions; [n, c, ...]."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps

from ...tensor.build import compute
from ...tensor.ops.pool import adapted, adapted_mean, pooled, pooled_mean
from ...tensor.ops.window import Window
from ...tensor.program import Tensor
from .convolution import Pairs, spread, window_of
from .elementwise import cast
from .function import NotCovered, function
from .shape import squeeze, unsqueeze


def _batched(pool: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Makes it work on an image without a batch, too: `sizes`, the second argument, says how many dimensions it has."""

    @wraps(pool)
    def called(x: Tensor, sizes: Sequence[int], *args: object, **kwargs: object) -> Tensor:
        if len(x.shape) == len(sizes) + 1:
            return squeeze(pool(unsqueeze(x, 0), sizes, *args, **kwargs), 0)
        return pool(x, sizes, *args, **kwargs)

    return called


@_batched
@function
def max_pool(
    x: Tensor, kernel: Sequence[int], stride: Sequence[int] | None = None, padding: int | Pairs = 0,
    dilation: int | Sequence[int] = 1, ceil_mode: bool = False,
) -> Tensor:  # fmt: skip
    """The greatest element of each window; what lies outside does not count."""
    return pooled(x, window_of_pool(x, kernel, stride, padding, dilation, ceil_mode), "max")


@_batched
@function
def avg_pool(
    x: Tensor, kernel: Sequence[int], stride: Sequence[int] | None = None, padding: int | Pairs = 0,
    ceil_mode: bool = False, count_include_pad: bool = True, divisor: int | None = None,
) -> Tensor:  # fmt: skip
    """The mean of each window. Padding counts as zeros, or not at all; `divisor` stands for the number of elements."""
    window = window_of_pool(x, kernel, stride, padding, 1, ceil_mode)
    sums = pooled(x, window, "sum")
    if divisor is not None:
        return compute(sums.shape, lambda *i: (sums[i] / float(divisor)).cast(x.dtype), name="mean")
    return cast(pooled_mean(sums, window, count_include_pad), x.dtype)


@_batched
@function
def adaptive_avg_pool(x: Tensor, to: Sequence[int]) -> Tensor:
    """The mean over windows that cover the image as evenly as they can, `to` along each dimension."""
    return cast(adapted_mean(adapted(x, to, "sum"), x.shape[2:]), x.dtype)


@_batched
@function
def adaptive_max_pool(x: Tensor, to: Sequence[int]) -> Tensor:
    """The greatest element over such windows."""
    return adapted(x, to, "max")


def window_of_pool(
    x: Tensor, kernel: Sequence[int], stride: Sequence[int] | None, padding: int | Pairs, dilation: int | Sequence[int],
    ceil_mode: bool,
) -> Window:  # fmt: skip
    """The window of a pooling; `ceil_mode`: what does not fill the last one has one too."""
    sizes = x.shape[2:]
    window = window_of(sizes, spread(kernel, len(sizes)), stride or spread(kernel, len(sizes)), padding, dilation)
    if not ceil_mode:
        return window
    behind = list(window.behind or window.padding)
    if behind != list(window.padding):
        raise NotCovered("ceil_mode with another padding behind than in front")
    for d, size in enumerate(sizes):
        reach = window.dilation[d] * (window.kernel[d] - 1) + 1
        count = -(-(size + window.padding[d] + behind[d] - reach) // window.stride[d]) + 1
        if (count - 1) * window.stride[d] >= size + window.padding[d]:  # a window has to start inside
            count -= 1
        behind[d] = (count - 1) * window.stride[d] + reach - size - window.padding[d]
    return replace(window, behind=tuple(behind))
