"""Gradients that torch does not take apart: those of convolutions are convolutions again.

    y[n, o, p] = sum over c, r of x[n, c, p * stride + r * dilation - padding] * w[o, c, r]

The gradient of x is a transposed convolution of that of y. That of w is a convolution too, in which images and channels have
changed places, and so have stride and dilation: the gradient of y slides over x.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...graph.functions.softmax import keeps_scores
from ...graph.importers.torch_export import torch_module


def gradients() -> dict[Any, Callable[..., Any]]:
    """Operators and functions of torch tensors that they are made of here."""
    aten = torch_module().ops.aten
    return {
        aten.convolution_backward.default: convolution_backward,
        aten._scaled_dot_product_flash_attention_for_cpu_backward.default: attention_backward,
    }


def attention_backward(
    gradient: Any, query: Any, key: Any, value: Any, out: Any, sums: Any, dropout: float, causal: bool, *,
    attn_mask: Any = None, scale: float | None = None,
) -> Any:  # fmt: skip
    """The gradients of attention's queries, keys and values. `sums`: logarithms of the sums of each query's powers."""
    if dropout or not keeps_scores(query.shape, key.shape):  # torch goes on with its own operator
        return NotImplemented
    torch = torch_module()
    dtype = sums.dtype
    gradient, q, k, v, out = (one.to(dtype) for one in (gradient, query, key, value, out))
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    scores = q @ k.mT * factor
    if attn_mask is not None:
        hidden = attn_mask.dtype == torch.bool
        scores = scores.masked_fill(~attn_mask, -torch.inf) if hidden else scores + attn_mask
    if causal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(later, -torch.inf)
    chances = (scores - sums.unsqueeze(-1)).exp()
    chances = chances.masked_fill(sums.unsqueeze(-1).isneginf(), 0)  # a query that sees no key
    of_chances = gradient @ v.mT
    of_scores = chances * (of_chances - (gradient * out).sum(-1, keepdim=True)) * factor
    found = of_scores @ k, of_scores.mT @ q, chances.mT @ gradient
    return tuple(one.to(query.dtype) for one in found)


def convolution_backward(
    gradient: Any, x: Any, weight: Any, bias_sizes: Sequence[int] | None, stride: Sequence[int],
    padding: Sequence[int], dilation: Sequence[int], transposed: bool, output_padding: Sequence[int], groups: int,
    output_mask: Sequence[bool],
) -> Any:  # fmt: skip
    """The gradients of a convolution's image, weights and bias; None for those that nobody asks for.

    Of an empty batch torch goes on with its own operator: as images and channels change places, a convolution would have no
    channels then, whose shape is none of the weights.
    """
    if 0 in (*gradient.shape, *x.shape):
        return NotImplemented
    rank = weight.dim() - 2
    steps, around, gaps = (_spread(numbers, rank) for numbers in (stride, padding, dilation))
    of_image = of_weight = of_bias = None
    if output_mask[0]:
        of_image = _of_image(gradient, x, weight, steps, around, gaps, groups, transposed=transposed)
    if output_mask[1]:
        image, sliding = (gradient, x) if transposed else (x, gradient)
        of_weight = _of_weight(image, sliding, weight, steps, around, gaps, groups)
    if output_mask[2]:
        of_bias = gradient.sum([0, *range(2, rank + 2)])
    return of_image, of_weight, of_bias


def _spread(numbers: Sequence[int], rank: int) -> list[int]:
    return list(numbers) * rank if len(numbers) == 1 else list(numbers)


def _of_image(
    gradient: Any, x: Any, weight: Any, stride: list[int], padding: list[int], dilation: list[int], groups: int,
    *, transposed: bool,
) -> Any:  # fmt: skip
    convolution = torch_module().ops.aten.convolution.default
    more = [0] * len(stride)
    if not transposed:  # what the last window did not reach has to come back
        more = [
            size - ((count - 1) * s - 2 * p + d * (kernel - 1) + 1)
            for size, count, kernel, s, p, d in zip(
                x.shape[2:], gradient.shape[2:], weight.shape[2:], stride, padding, dilation, strict=True
            )
        ]
    return convolution(gradient, weight, None, stride, padding, dilation, not transposed, more, groups)


def _of_weight(
    image: Any, sliding: Any, weight: Any, stride: list[int], padding: list[int], dilation: list[int], groups: int
) -> Any:
    """The gradient of weights [o, c / groups, ...] of a convolution that makes of `image` what has the gradient `sliding`."""
    batch, windows = image.shape[0], sliding.shape[2:]
    channels, outputs = image.shape[1] // groups, sliding.shape[1] // groups
    # Groups side by side, each with the images of the batch as its channels.
    image, padding = _reached(image, weight, windows, stride, padding, dilation)
    sizes = image.shape[2:]
    images = image.reshape(batch, groups, channels, *sizes).permute(2, 1, 0, *range(3, 3 + len(sizes)))
    slides = sliding.reshape(batch, groups, outputs, *windows).permute(1, 2, 0, *range(3, 3 + len(sizes)))
    found = torch_module().ops.aten.convolution.default(
        images.reshape(channels, groups * batch, *sizes), slides.reshape(groups * outputs, batch, *windows),
        None, dilation, padding, stride, False, [0] * len(stride), groups,
    )  # fmt: skip
    return found.transpose(0, 1)


def _reached(
    image: Any, weight: Any, windows: Sequence[int], stride: list[int], padding: list[int], dilation: list[int]
) -> tuple[Any, list[int]]:
    """An image, without what its last windows do not reach where the stride leaves that out, and the padding that it needs."""
    spare = [
        size + 2 * p - (count - 1) * s - d * (kernel - 1) - 1
        for size, kernel, count, s, p, d in zip(
            image.shape[2:], weight.shape[2:], windows, stride, padding, dilation, strict=True
        )
    ]
    if not any(spare):
        return image, padding
    around = [amount for p, more in reversed(list(zip(padding, spare, strict=True))) for amount in (p, p - more)]
    return torch_module().ops.aten.constant_pad_nd.default(image, around, 0), [0] * len(padding)
