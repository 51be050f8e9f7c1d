"""The pipelines for which OpenCV has operations, as its users would write them: a call or two over the whole picture.

OpenCV computes a border too, which is cut off before outputs are compared; pictures are large beside it. It rounds sums of
integers once, at the end and to the nearest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cv2
import numpy as np

from tilesmith.measure.compare.contender import MissingContender

from .images import RADIUS, half_column
from .programs import BINOMIAL

Array = np.ndarray[Any, Any]
Call = Callable[[], Array]
Way = Callable[[Array], Call]
REPLICATE = cv2.BORDER_REPLICATE


def _blur3(x: Array) -> Call:
    target = np.empty_like(x)
    return lambda: cv2.blur(x, (3, 3), target, borderType=REPLICATE)


def _gauss3(x: Array) -> Call:
    target = np.empty_like(x)
    return lambda: cv2.GaussianBlur(x, (3, 3), 0, target, borderType=REPLICATE)


def _blur9(x: Array) -> Call:
    target, weights = np.empty_like(x), np.array(BINOMIAL, np.float32) / sum(BINOMIAL)
    return lambda: cv2.sepFilter2D(x, -1, weights, weights, target, borderType=REPLICATE)


def _harris(x: Array) -> Call:
    """OpenCV divides gradients by 12; corners are sums of products of four."""
    larger, target = x * np.float32(12), np.empty_like(x)
    return lambda: cv2.cornerHarris(larger, 3, 3, 0.04, target, borderType=REPLICATE)


def _sobel(x: Array) -> Call:
    across, down, target = (np.empty_like(x) for _ in range(3))

    def call() -> Array:
        cv2.Sobel(x, -1, 1, 0, across, borderType=REPLICATE)
        cv2.Sobel(x, -1, 0, 1, down, borderType=REPLICATE)
        return cv2.magnitude(across, down, target)

    return call


def _largest(x: Array) -> Call:
    target, window = np.empty_like(x), np.ones((9, 9), np.uint8)
    return lambda: cv2.dilate(x, window, target, borderType=REPLICATE)


def _disc(x: Array) -> Call:
    places = range(-RADIUS, RADIUS + 1)
    inside = [[abs(row) <= half_column(column, RADIUS) for column in places] for row in places]
    target, window = np.empty_like(x), np.array(inside, np.uint8)

    def call() -> Array:
        for colour, result in zip(x, target, strict=True):
            cv2.dilate(colour, window, result, borderType=REPLICATE)
        return target

    return call


def _equalised(x: Array) -> Call:
    target = np.empty_like(x)
    return lambda: cv2.equalizeHist(x, target)


def _repeated(weights: Array, stages: int, border: int) -> Way:
    """Filters of 3x3, one after another, each a call."""

    def way(x: Array) -> Call:
        between = [np.empty_like(x) for _ in range(2)]

        def call() -> Array:
            last = x
            for stage in range(stages):
                last = cv2.filter2D(last, -1, weights, between[stage % 2], borderType=border)
            return last

        return call

    return way


STAR = np.array([[1, 0, 1], [0, 4, 0], [1, 0, 1]], np.float32) / 8
CROSS = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], np.float64) / 4
WAYS: dict[str, Way] = {
    "blur 3x3": _blur3,
    "blur 3x3 u8": _gauss3,
    "blur 3x3 u16": _blur3,
    "blur 9x9": _blur9,
    "blur 9x9 u8": _blur9,
    "blur 9x9 u16": _blur9,
    "harris": _harris,
    "sobel": _sobel,
    "max 9x9": _largest,
    "max of a disc": _disc,
    "equalised": _equalised,
    **{f"chain of {stages}": _repeated(STAR, stages, REPLICATE) for stages in (8, 32)},
    **{f"jacobi {sweeps}": _repeated(CROSS, sweeps, cv2.BORDER_CONSTANT) for sweeps in (1, 4, 16)},
}


def prepared(name: str, array: Array, output: Array, threads: int) -> Callable[[], object]:
    """Prepares a pipeline and returns the call of it; `output` gets what it computes once.

    Errors: MissingContender for one that OpenCV has not.
    """
    if name not in WAYS:
        raise MissingContender("OpenCV has no such operation")
    cv2.setNumThreads(threads)
    call = WAYS[name](array)
    whole = call()
    rim = [(size - kept) // 2 for size, kept in zip(whole.shape, output.shape, strict=True)]
    output[...] = whole[tuple(slice(r, r + kept) for r, kept in zip(rim, output.shape, strict=True))]
    return call
