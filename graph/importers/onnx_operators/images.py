"""ONNX's interpolation of images: places and weights are known while reading, but for grids that are data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ....tensor import build
from ....tensor.build import compute, reduce_axis
from ....tensor.expr import Expr
from ....tensor.ops.movement import clamped
from ....tensor.precision import precise
from ....tensor.program import Tensor
from ...functions import resize as simple
from ...functions.elementwise import cast
from ...functions.function import NotCovered, axis_of, function
from .registry import Array, Node, onnx


@dataclass(frozen=True)
class _Axis:
    """Says how one axis is resized."""

    size: int
    count: int
    scale: float
    low: float = 0.0  # the region of interest
    high: float = 1.0

    def places(self, mode: str) -> Array:
        """Says where each element of the result lies in the image."""
        p, whole = np.arange(self.count, dtype=np.float64), self.scale * self.size
        if mode == "align_corners":
            return p * 0 if whole == 1 else p * (self.size - 1) / (whole - 1)
        if mode == "asymmetric":
            return p / self.scale
        if mode == "tf_crop_and_resize":
            span = (self.high - self.low) * (self.size - 1)
            return (p * 0 + span / 2 if whole == 1 else p * span / (whole - 1)) + self.low * (self.size - 1)
        if mode == "pytorch_half_pixel" and whole == 1:
            return p * 0 - 0.5
        found = (p + 0.5) / self.scale - 0.5
        if mode == "half_pixel_symmetric":
            return found + self.size / 2 * (1 - self.count / whole)
        if mode in ("half_pixel", "pytorch_half_pixel"):
            return found
        raise NotCovered(f"the coordinates {mode}")


def _nearest(places: Array, mode: str) -> tuple[Array, Array]:
    """(the element of each place, its weight)"""
    below = np.floor(places)
    away = places - below
    up = {
        "round_prefer_floor": away > 0.5, "round_prefer_ceil": away >= 0.5, "floor": away > 1, "ceil": away > 0,
    }[mode]  # fmt: skip
    index = (below + up).astype(np.int64)
    return index[:, None], np.ones((len(index), 1))


def _spread(places: Array, scale: float, mode: str, a: float) -> tuple[Array, Array]:
    """(elements around each place, their weights): by distance (linear), or by Keys' cubic; `scale` < 1 widens both."""
    reach = 1 if mode == "linear" else 2
    first = math.floor(-reach / scale) + 1
    count = 2 * (1 - first)
    below = np.ceil(places).astype(np.int64) - 1  # the place before, where it is whole
    index = below[:, None] + np.arange(first, first + count)[None, :]
    x = np.abs(index - places[:, None]) * scale
    if mode == "linear":
        weights = np.clip(1 - x, 0, 1)
    else:
        near = (a + 2) * x**3 - (a + 3) * x**2 + 1
        far = a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a
        weights = np.where(x <= 1, near, np.where(x < 2, far, 0.0))
    return index, weights / weights.sum(1, keepdims=True)


@onnx("Resize")
def resize(node: Node) -> Tensor:
    """x interpolated: nearest, linear or cubic along each axis"""
    x = node.tensor(0)
    rank = len(x.shape)
    chosen = [axis_of(axis, rank) for axis in node.ints("axes") or range(rank)]
    axes = _axes(node, x, chosen)
    mode, coordinates = node.text("mode", "nearest"), node.text("coordinate_transformation_mode", "half_pixel")
    changed = [axis for axis in chosen if coordinates == "tf_crop_and_resize" or axes[axis].count != axes[axis].size
               or axes[axis].scale != 1]  # fmt: skip
    if (plain := _plain(node, x, axes, changed, mode, coordinates)) is not None:
        return plain
    made, outside = x, {}
    for axis in changed:
        one = axes[axis]
        places = one.places(coordinates)
        if mode == "nearest":
            index, weights = _nearest(places, node.text("nearest_mode", "round_prefer_floor"))
        else:
            scale = min(one.scale, 1.0) if node.integer("antialias") else 1.0
            index, weights = _spread(places, scale, mode, node.real("cubic_coeff_a", -0.75))
        if node.integer("exclude_outside"):
            weights = np.where((index < 0) | (index >= one.size), 0.0, weights)
            sums = weights.sum(1, keepdims=True)
            weights = weights / np.where(sums == 0, 1.0, sums)
        if coordinates == "tf_crop_and_resize":
            outside[axis] = (places < 0) | (places > one.size - 1)
        made = _along(node, made, axis, np.clip(index, 0, one.size - 1), weights)
    made = cast(made, x.dtype)
    for axis, mask in outside.items():
        made = _filled(made, axis, node.constant(mask), node.real("extrapolation_value"))
    return made


def _axes(node: Node, x: Tensor, chosen: Sequence[int]) -> dict[int, _Axis]:
    """Each axis by sizes, or by scales; regions where they are given."""
    scales = [float(one) for one in node.known(2).reshape(-1)] if node.has(2) and 0 not in node.shape(2) else None
    sizes = node.numbers(3)
    region = [float(one) for one in node.known(1).reshape(-1)] if node.has(1) and 0 not in node.shape(1) else []
    region = region or [0.0] * len(chosen) + [1.0] * len(chosen)
    policy = node.text("keep_aspect_ratio_policy", "stretch")
    if sizes is not None:
        ratios = [size / x.shape[axis] for size, axis in zip(sizes, chosen, strict=True)]
        if policy != "stretch":
            one = min(ratios) if policy == "not_larger" else max(ratios)
            ratios = [one] * len(chosen)
            sizes = [math.floor(one * x.shape[axis] + 0.5) for axis in chosen]
    else:
        ratios = scales or [1.0] * len(chosen)
        sizes = [math.floor(x.shape[axis] * ratio) for axis, ratio in zip(chosen, ratios, strict=True)]
    return {
        axis: _Axis(x.shape[axis], sizes[n], ratios[n], region[n], region[n + len(chosen)])
        for n, axis in enumerate(chosen)
    }


def _plain(
    node: Node, x: Tensor, axes: dict[int, _Axis], changed: Sequence[int], mode: str, coordinates: str
) -> Tensor | None:
    """The kinds that frameworks export, as functions whose places are affine."""
    if (
        len(x.shape) < 3
        or not changed
        or min(changed) < 2
        or node.integer("exclude_outside")
        or node.integer("antialias")
    ):
        return None
    inner = range(2, len(x.shape))
    to = [axes[a].count if a in axes else x.shape[a] for a in inner]
    if any(axes[a].scale * axes[a].size != axes[a].count for a in changed) or len(to) > 3:
        return None
    if mode == "nearest" and coordinates == "asymmetric" and node.text("nearest_mode") == "floor":
        return simple.nearest(x, to)
    if mode == "linear" and coordinates in ("half_pixel", "pytorch_half_pixel") and min(to) > 1 and x.dtype.is_float:
        return simple.linear(x, to)
    if mode == "linear" and coordinates == "align_corners" and min(to) > 1 and x.dtype.is_float:
        return simple.linear(x, to, align_corners=True)
    return None


def _along(node: Node, x: Tensor, axis: int, index: Array, weights: Array) -> Tensor:
    """x interpolated along an axis."""
    if index.shape[1] == 1:
        from ...functions.indexing import take

        return take(x, node.constant(index[:, 0].copy()), axis, negative=False)
    wide = precise(x[(0,) * len(x.shape)]).dtype
    inside = node.constant(weights.astype(np.float64 if wide.bits == 64 else np.float32))
    return _weighted(x, axis, node.constant(index), inside)


@function
def _weighted(x: Tensor, axis: int, index: Tensor, weights: Tensor) -> Tensor:
    """The sum of weighted elements along an axis; wide."""
    k = reduce_axis(index.shape[1], "k")
    size = x.shape[axis]

    def element(*i: Expr) -> build.Reduction:
        place = clamped(index[i[axis], k], size)
        value = precise(x[(*i[:axis], place, *i[axis + 1 :])]).cast(weights.dtype)
        return build.sum(value * weights[i[axis], k], k)

    return compute((*x.shape[:axis], index.shape[0], *x.shape[axis + 1 :]), element, name="sums")


@function
def _filled(x: Tensor, axis: int, outside: Tensor, value: float) -> Tensor:
    """x with a value where an axis lies outside."""
    return compute(x.shape, lambda *i: build.select(outside[i[axis]], build.literal(value, x.dtype), x[i]))
