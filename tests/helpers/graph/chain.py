"""A model of products that are worth threads, with small sums between them which are not."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import tilesmith as ts
from helpers.graph.cut import Builds, cut
from tilesmith.codegen.artifact import Artifact
from tilesmith.graph.executor.compose import compose
from tilesmith.tensor.program import Program

PICKED = {threads: Builds(threads, analytic=True) for threads in (1, 2, 3)}


def chain(count: int) -> Program:
    """Of so many products."""
    lines = ["input t0: f32[96, 96]", "constant w: f32[96, 96]"]
    for n in range(count):
        lines += [
            f"s{n}[j: 96] = max[i: 96](t{n}[i, j])",
            f"p{n}[i: 96, j: 96] = sum[k: 96](t{n}[i, k] * w[k, j])",
            f"t{n + 1}[i: 96, j: 96] = p{n}[i, j] - s{n}[j]",
        ]
    return ts.parse("\n".join([*lines, f"return t{count}"]))


CHAIN = chain(12)
W = np.random.default_rng(0).random((96, 96), np.float32) / 96
A = np.random.default_rng(1).random((96, 96), np.float32)


def model(*threads: int) -> Artifact:
    """The chain, its kernels by turns for so many threads."""
    kernels = cut(CHAIN)
    return compose(CHAIN, kernels, [PICKED[threads[n // 3 % len(threads)]](k) for n, k in enumerate(kernels)], {})


def expected(value: NDArray[np.float32]) -> NDArray[np.float32]:
    """What the model computes."""
    for _ in range(12):
        value = value @ W - value.max(axis=0)
    return value
