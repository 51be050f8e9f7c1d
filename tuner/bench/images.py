"""Operators on images and sequences, whose attributes stand in the sizes of a row: as torch calls and as ONNX models.

Libraries get images as they like them best, prepared beforehand: a row whose layout is nhwc is given to ONNX runtimes in nchw,
and torch sees both memory formats (`torch` and `torch.channels_last`). Results are seen in the row's layout to be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...measure.compare.serving import PlainCall
from .calls import Array, NamedArrays, Sizes

CONVOLUTIONS = ("conv2d", "conv2d_bias_relu", "depthwise_conv2d")
POOLS = ("max_pool2d", "avg_pool2d", "global_avg_pool2d")
OTHERS = ("group_norm", "rms_norm", "attention")
IMAGES = (*CONVOLUTIONS, *POOLS)


@dataclass(frozen=True)
class ReturnedElsewhere:
    """A result that lies elsewhere, seen in the row's own layout; and the memory that a library works on and does not hold."""

    seen: Callable[[], Array]
    held: object

    def numpy(self) -> Array:
        """Returns the result as an array of NumPy."""
        return self.seen()


def returning(run: PlainCall, result: ReturnedElsewhere) -> PlainCall:
    """A call that gives its result, which always lies in the same place."""

    def call() -> ReturnedElsewhere:
        run()
        return result

    return call


def is_nhwc(sizes: Sizes) -> bool:
    """Says whether images have their channels last."""
    return bool(sizes.get("layout", "nchw") == "nhwc")


def channels_first(operator: str, sizes: Sizes, arrays: NamedArrays) -> dict[str, Array]:
    """The arrays with images as [n, c, h, w] and filters as [o, c, kh, kw], contiguous."""
    nhwc, found = is_nhwc(sizes), dict(arrays)
    for name in ("X", "R"):
        if name in found and nhwc:
            found[name] = np.ascontiguousarray(found[name].transpose(0, 3, 1, 2))
    if "W" in found and operator == "depthwise_conv2d":
        filters = found["W"].transpose(2, 0, 1) if nhwc else found["W"]
        found["W"] = np.ascontiguousarray(filters[:, None])
    elif "W" in found and nhwc:
        found["W"] = np.ascontiguousarray(found["W"].transpose(3, 2, 0, 1))
    return found


def _window(sizes: Sizes) -> dict[str, Any]:
    return {name: sizes.get(name, usual) for name, usual in (("stride", 1), ("padding", 0), ("dilation", 1))}


def torch_way(operator: str, sizes: Sizes) -> Callable[..., Any] | None:
    """A function of torch tensors by name, images and filters channels first. None for an operator of another file."""
    import torch
    from torch.nn import functional

    groups = sizes.get("c", 1) if operator == "depthwise_conv2d" else sizes.get("groups", 1)
    kernel = sizes.get("kernel", 2)
    pool = {"stride": sizes.get("stride", kernel), "padding": sizes.get("padding", 0)}

    def finished(X: Any, W: Any, bias: Any, R: Any = None) -> Any:
        y = functional.conv2d(X, W, bias, groups=groups, **_window(sizes))
        return (y if R is None else y.add_(R)).relu_()

    def attended(Q: Any, K: Any, V: Any) -> Any:
        return functional.scaled_dot_product_attention(
            Q[None], K[None], V[None], is_causal=bool(sizes.get("causal", False))
        )[0]

    ways: dict[str, Callable[..., Any]] = {
        "conv2d": lambda X, W: functional.conv2d(X, W, groups=groups, **_window(sizes)),
        "depthwise_conv2d": lambda X, W: functional.conv2d(X, W, groups=groups, **_window(sizes)),
        "conv2d_bias_relu": finished,
        "max_pool2d": lambda X: functional.max_pool2d(X, kernel, **pool),
        "avg_pool2d": lambda X: functional.avg_pool2d(X, kernel, **pool),
        "global_avg_pool2d": lambda X: torch.mean(X, (2, 3)),
        "group_norm": lambda x, gamma, beta: functional.group_norm(x, sizes["groups"], gamma, beta),
        "rms_norm": lambda x, gamma: functional.rms_norm(x, (x.shape[-1],), gamma, 1e-5),
        "attention": attended,
    }
    return ways.get(operator)


def torch_images(operator: str, sizes: Sizes, arrays: NamedArrays, channels_last: bool) -> Callable[[], Any] | None:
    """A call of torch, eager, on images in one of its two memory formats; None where there is no such format."""
    import torch

    way = torch_way(operator, sizes)
    if way is None or (channels_last and operator not in IMAGES):
        return None
    tensors = {name: torch.from_numpy(array) for name, array in channels_first(operator, sizes, arrays).items()}
    if channels_last:
        wide = {name: tensor for name, tensor in tensors.items() if tensor.dim() == 4}
        tensors |= {name: tensor.contiguous(memory_format=torch.channels_last) for name, tensor in wide.items()}
    turned = is_nhwc(sizes)

    def call() -> Any:
        with torch.no_grad():
            result = way(**tensors)
            return result.permute(0, 2, 3, 1) if turned and result.dim() == 4 else result

    return call


# ONNX


def onnx_nodes(
    operator: str, sizes: Sizes, names: Collection[str]
) -> Sequence[tuple[str, Sequence[str], str, dict[str, Any]]] | None:
    """(operator, inputs, result, attributes) of each node, for arrays of `channels_first`; None where there is no way.

    Inputs that are no operands are numbers: "#0.125" a scalar.
    """
    window = _window(sizes)
    kernel = sizes.get("kernel", 2)
    slid = {"pads": [window["padding"]] * 4, "strides": [window["stride"]] * 2, "dilations": [window["dilation"]] * 2}
    pool = {
        "kernel_shape": [kernel] * 2, "strides": [sizes.get("stride", kernel)] * 2, "pads": [sizes.get("padding", 0)] * 4,
    }  # fmt: skip
    if operator == "conv2d":
        return [("Conv", ["X", "W"], "out", slid)]
    if operator == "depthwise_conv2d":
        return [("Conv", ["X", "W"], "out", {**slid, "group": sizes["c"]})]
    if operator == "conv2d_bias_relu":
        added: list[tuple[str, Sequence[str], str, dict[str, Any]]] = (
            [("Add", ["y", "R"], "z", {})] if "R" in names else []
        )
        return [("Conv", ["X", "W", "bias"], "y", slid), *added, ("Relu", ["z" if added else "y"], "out", {})]
    if operator == "max_pool2d":
        return [("MaxPool", ["X"], "out", pool)]
    if operator == "avg_pool2d":
        return [("AveragePool", ["X"], "out", {**pool, "count_include_pad": 1})]
    if operator == "global_avg_pool2d":
        return [("GlobalAveragePool", ["X"], "out", {})]
    if operator == "rms_norm":
        return [
            ("Mul", ["x", "x"], "s", {}), ("ReduceMean", ["s", "#axis-1"], "m", {"keepdims": 1}),
            ("Add", ["m", "#1e-5"], "e", {}), ("Sqrt", ["e"], "r", {}), ("Div", ["x", "r"], "d", {}),
            ("Mul", ["d", "gamma"], "out", {}),
        ]  # fmt: skip
    if operator == "group_norm":
        return [("GroupNormalization", ["x", "gamma", "beta"], "out", {"num_groups": sizes["groups"], "epsilon": 1e-5})]
    if operator == "attention" and not sizes.get("causal", False):
        return [
            ("Transpose", ["K"], "T", {"perm": [0, 2, 1]}), ("MatMul", ["Q", "T"], "s", {}),
            ("Mul", ["s", f"#{sizes['width'] ** -0.5}"], "t", {}), ("Softmax", ["t"], "p", {"axis": -1}),
            ("MatMul", ["p", "V"], "out", {}),
        ]  # fmt: skip
    return None


def onnx_shape(operator: str, sizes: Sizes, out: Array) -> tuple[int, ...]:
    """The shape of the result, channels first."""
    if operator == "global_avg_pool2d":
        return (*out.shape, 1, 1)
    if operator in IMAGES and is_nhwc(sizes):
        n, h, w, c = out.shape
        return (n, c, h, w)
    return tuple(out.shape)


def seen_back(operator: str, sizes: Sizes, found: Array, out: Array) -> Array:
    """A result of `onnx_shape` in the row's own layout."""
    if operator in IMAGES and is_nhwc(sizes) and found.ndim == 4 and out.ndim == 4:
        return found.transpose(0, 2, 3, 1)
    return found.reshape(out.shape)
