"""Convolutions of images of one to three dimensions, and their transposes; [n, c, ...], weights [o, c / groups, ...]."""

from __future__ import annotations

from collections.abc import Sequence

from ...common.errors import ArgumentError
from ...tensor.build import compute
from ...tensor.ops.conv import convolved, transposed
from ...tensor.ops.window import Window
from ...tensor.precision import wide
from ...tensor.program import Tensor
from .function import NotCovered, function
from .phases import has_phases, transposed_by_phases
from .shape import squeeze, unsqueeze

Pairs = Sequence[int | tuple[int, int]]


@function
def convolution(
    x: Tensor, weights: Tensor, bias: Tensor | None = None, stride: int | Sequence[int] = 1,
    padding: int | Pairs = 0, dilation: int | Sequence[int] = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """Computes torch's conv1d, conv2d and conv3d; `padding` is one number or a pair (in front, behind) for each dimension. An
    image without a batch has none in the result either."""
    rank = len(weights.shape) - 2
    if len(x.shape) == rank + 1:
        return squeeze(convolution(unsqueeze(x, 0), weights, bias, stride, padding, dilation, groups), 0)
    _check(x, weights, rank, weights.shape[1] * groups, weights.shape[0] % groups)
    window = window_of(x.shape[2:], weights.shape[2:], stride, padding, dilation)
    return _finished(convolved(x, weights, window, groups), bias, x)


@function
def transposed_convolution(
    x: Tensor, weights: Tensor, bias: Tensor | None = None, stride: int | Sequence[int] = 1,
    padding: int | Pairs = 0, dilation: int | Sequence[int] = 1, groups: int = 1,
    output_padding: int | Sequence[int] = 0,
) -> Tensor:  # fmt: skip
    """Computes torch's conv_transpose1d to 3d, with weights [c, o / groups, ...]; `padding` may be pairs."""
    rank = len(weights.shape) - 2
    if len(x.shape) == rank + 1:
        whole = unsqueeze(x, 0)
        return squeeze(
            transposed_convolution(whole, weights, bias, stride, padding, dilation, groups, output_padding), 0
        )
    _check(x, weights, rank, weights.shape[0], x.shape[1] % groups)
    window = window_of(x.shape[2:], weights.shape[2:], stride, padding, dilation, reach=False)
    extra = spread(output_padding, rank)
    behind = window.behind or window.padding
    counts = [
        (window.sizes[d] - 1) * window.stride[d] - window.padding[d] - behind[d]
        + window.dilation[d] * (window.kernel[d] - 1) + extra[d] + 1
        for d in range(rank)
    ]  # fmt: skip
    if min(counts) < 1:
        raise ArgumentError("the padding leaves nothing of the result", found=str(padding))
    made = transposed_by_phases if has_phases(window) else transposed
    return _finished(made(x, weights, window, counts, groups), bias, x)


def window_of(
    sizes: Sequence[int], kernel: Sequence[int], stride: int | Sequence[int], padding: int | Pairs,
    dilation: int | Sequence[int], reach: bool = True,
) -> Window:  # fmt: skip
    """The window of these arguments. Errors: ArgumentError for one that is larger than the padded image, if it has to reach."""
    rank = len(sizes)
    given = [padding] * rank if isinstance(padding, int) else list(padding)
    given = given * rank if len(given) == 1 else given
    pairs = [(p, p) if isinstance(p, int) else tuple(p) for p in given]
    front, behind = tuple(p[0] for p in pairs), tuple(p[1] for p in pairs)
    window = Window(
        tuple(sizes), tuple(kernel), spread(stride, rank), front, spread(dilation, rank),
        None if front == behind else behind,
    )  # fmt: skip
    if reach and min(window.counts, default=1) < 1:
        raise ArgumentError("the window is larger than the image", found=f"{tuple(kernel)} on {tuple(sizes)}")
    return window


def spread(value: int | Sequence[int], rank: int) -> tuple[int, ...]:
    """One number for each dimension."""
    numbers = (value,) if isinstance(value, int) else tuple(value)
    return numbers * rank if len(numbers) == 1 else numbers


def _check(x: Tensor, weights: Tensor, rank: int, channels: int, rest: int) -> None:
    if rank not in (1, 2, 3):
        raise NotCovered("a convolution over more than three dimensions", found=str(weights.shape))
    if len(x.shape) != rank + 2 or x.shape[1] != channels or rest or x.dtype != weights.dtype:
        raise ArgumentError(
            "image and weights do not fit", found=f"{x.dtype}{x.shape} and {weights.dtype}{weights.shape}"
        )


def _finished(sums: Tensor, bias: Tensor | None, x: Tensor) -> Tensor:
    """Adds the bias and goes back in the dtype of x."""
    if bias is not None:
        return compute(sums.shape, lambda *i: (sums[i] + wide(bias[i[1]])).cast(x.dtype), name="biased")
    return sums if sums.dtype == x.dtype else compute(sums.shape, lambda *i: sums[i].cast(x.dtype), name="rounded")
