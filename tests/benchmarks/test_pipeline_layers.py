"""Blurs of integers and layers of networks in the race of pipelines: what NumPy says of them, at sizes that nothing divides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from pipeline.layers import dense, dense_in_numpy, separable, separable_in_numpy
from pipeline.programs import BINOMIAL, blur3_words, blur9_integers

import tilesmith
from tilesmith.tensor.oracle.random_inputs import random_inputs
from tilesmith.tensor.oracle.reference import evaluate
from tilesmith.tensor.program import Program

Array = np.ndarray[Any, Any]


def thirds(x: Array) -> Array:
    """Sums of three that wrap at 16 bits."""
    for axis in (1, 0):
        x = sliding_window_view(x, 3, axis).astype(np.int64).sum(-1) % (1 << 16) // 3
    return x


def rounded(x: Array) -> Array:
    for axis in (1, 0):
        x = (sliding_window_view(x, 9, axis).astype(np.int64) @ np.array(BINOMIAL) + 128) // 256
    return x


CASES: dict[str, tuple[Callable[[], str], Callable[..., Array]]] = {
    "blur 3x3 u16": (lambda: blur3_words(13, 71), thirds),
    "blur 9x9 u8": (lambda: blur9_integers(8, 19, 83), rounded),
    "blur 9x9 u16": (lambda: blur9_integers(16, 19, 45), rounded),
    "depthwise, pointwise": (lambda: separable(squeeze=False, channels=12, size=9), separable_in_numpy),
    "depthwise, squeeze, pointwise": (lambda: separable(squeeze=True, channels=12, size=9), separable_in_numpy),
    "dense 3": (lambda: dense(3, rows=7, width=19), dense_in_numpy),
}


def case(name: str) -> tuple[Program, tuple[Array, ...], Array]:
    """A program, inputs, and what NumPy makes of them."""
    text, truth = CASES[name]
    program = tilesmith.parse(text())
    inputs = random_inputs(program, seed=2)
    return program, inputs, truth(*inputs)


@pytest.mark.parametrize("name", CASES)
def test_programs_mean_what_numpy_says(name: str) -> None:
    program, inputs, wanted = case(name)
    (found,) = evaluate(program, list(inputs))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_kernels_compute_what_numpy_says(name: str) -> None:
    program, inputs, wanted = case(name)
    found = np.asarray(tilesmith.compile(program, threads=1)(*inputs))
    exact = found.dtype.kind == "u"
    np.testing.assert_allclose(found, wanted, rtol=0 if exact else 1e-4, atol=0 if exact else 1e-4)
