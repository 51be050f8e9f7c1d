"""ONNX's transforms to frequencies, as products with known matrices, in float64: terms of one size cancel."""

from __future__ import annotations

import numpy as np

from ....tensor import build
from ....tensor.build import compute, reduce_axis
from ....tensor.dtype import f64
from ....tensor.expr import Expr
from ....tensor.program import Tensor
from ...functions.elementwise import cast
from ...functions.function import NotCovered, axis_of, function
from .registry import Array, Node, onnx


def _matrix(rows: int, length: int, terms: int, parts: int, inverse: bool) -> Array:
    """M[k, c, t, d]: what the part d of the element t contributes to the part c (real, imaginary) of the frequency k."""
    angle = 2 * np.pi * (np.outer(np.arange(rows), np.arange(terms)) % length) / length
    cosine, sine = np.cos(angle), np.sin(angle) * (1 if inverse else -1)
    whole = np.stack([np.stack([cosine, -sine], -1), np.stack([sine, cosine], -1)], 1)
    return np.asarray(whole[..., :parts] / (length if inverse else 1))


def _real_inverse(length: int, terms: int, parts: int) -> Array:
    """The same from frequencies up to the middle to real elements: those between the ends stand for two."""
    whole = _matrix(length, length, terms, parts, True)[:, :1]
    k = np.arange(terms)
    times = np.where((k == 0) | (2 * k == length), 1.0, np.where(2 * k < length, 2.0, 0.0))
    return np.asarray(whole * times[None, None, :, None])


@onnx("DFT")
def dft(node: Node) -> Tensor:
    """The discrete Fourier transform along an axis; the last axis holds real and imaginary parts."""
    x, inverse, one_sided = node.tensor(0), bool(node.integer("inverse")), bool(node.integer("onesided"))
    axis = int(node.number(2, -2)) if node.version >= 20 else node.integer("axis", 1)
    place, parts = axis_of(axis, len(x.shape)), x.shape[-1]
    size = x.shape[place]
    length = int(node.number(1, 2 * (size - 1) if inverse and one_sided else size))
    terms = min(size, length)
    if inverse and one_sided:
        matrix = _real_inverse(length, terms, parts)
    else:
        rows = length // 2 + 1 if one_sided else length
        matrix = _matrix(rows, length, terms, parts, inverse)
    return _transformed(x, node.constant(matrix), place)


@function
def _transformed(x: Tensor, matrix: Tensor, axis: int) -> Tensor:
    rows, results, terms, parts = matrix.shape
    t, d = reduce_axis(terms, "t"), reduce_axis(parts, "d")

    def element(*i: Expr) -> build.Reduction:
        value = x[(*i[:axis], t, *i[axis + 1 : -1], d)].cast(f64)
        return build.sum(value * matrix[i[axis], i[-1], t, d], [t, d])

    shape = (*x.shape[:axis], rows, *x.shape[axis + 1 : -1], results)
    return cast(compute(shape, element, name="sums"), x.dtype)


@onnx("STFT")
def stft(node: Node) -> Tensor:
    """The Fourier transform of windows that move along a signal"""
    x, step, window = node.tensor(0), int(node.number(1, 1)), node.maybe(2)
    length = int(node.number(3, window.shape[0] if window is not None else 0))
    if length < 1:
        raise NotCovered("neither a window nor a length")
    rows = length // 2 + 1 if node.integer("onesided", 1) else length
    return _framed(x, node.constant(_matrix(rows, length, length, x.shape[-1], False)), window, step)


@function
def _framed(x: Tensor, matrix: Tensor, window: Tensor | None, step: int) -> Tensor:
    rows, results, length, parts = matrix.shape
    t, d = reduce_axis(length, "t"), reduce_axis(parts, "d")

    def element(b: Expr, f: Expr, k: Expr, c: Expr) -> build.Reduction:
        value = x[b, f * step + t, d].cast(f64) * matrix[k, c, t, d]
        return build.sum(value if window is None else value * window[t].cast(f64), [t, d])

    shape = (x.shape[0], (x.shape[1] - length) // step + 1, rows, results)
    return cast(compute(shape, element, name="sums"), x.dtype)
