"""The same computation, written differently, has the same space and the same best score: nothing looks at names."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from tilesmith.schedules.task import Task
from tilesmith.targets.ceilings import default_ceilings
from tilesmith.targets.target import parse_target
from tilesmith.tensor import ops
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.parse import parse
from tilesmith.tuner.effort import UNTUNED
from tilesmith.tuner.search.draft import draft
from tilesmith.tuner.task_space import TaskSpace

RENAMED = """
input weights: f32[256, 64]
input pixels: f32[64, 784]
anything[row: 256, column: 784] = sum[deep: 64](weights[row, deep] * pixels[deep, column])
return anything
"""

SWAPPED = """
input A: f32[256, 64]
input B: f32[64, 784]
C[i: 256, j: 784] = sum[k: 64](B[k, j] * A[i, k])
return C
"""

OPERANDS_SWAPPED = """
input B: f32[64, 784]
input A: f32[256, 64]
C[i: 256, j: 784] = sum[k: 64](A[i, k] * B[k, j])
return C
"""

UNIT_AXIS = """
input A: f32[1, 256, 64]
input B: f32[64, 784]
C[b: 1, i: 256, j: 784] = sum[k: 64](A[b, i, k] * B[k, j])
return C
"""

# columns of two axes that are only used together, and the reduction in two axes as well
SPLIT_AXES = """
input A: f32[256, 8, 8]
input B: f32[8, 8, 28, 28]
C[i: 256, h: 28, w: 28] = sum[c: 8, d: 8](A[i, c, d] * B[c, d, h, w])
return C
"""

VARIATIONS = {
    "renamed": parse(RENAMED),
    "factors swapped": parse(SWAPPED),
    "operands swapped": parse(OPERANDS_SWAPPED),
    "unit axis": parse(UNIT_AXIS),
    "axes split": parse(SPLIT_AXES),
    "1x1 convolution": ops.conv2d(n=1, c=64, h=28, w=28, o=256, kernel=1),
}


def space_and_score(program: Program) -> tuple[int, float]:
    return of_body(Task.of(program, parse_target("x86:avx512;cores=2"), 2).body)


@cache  # what is the same by its normal form already, sketches are derived of once
def of_body(body: Program) -> tuple[int, float]:
    target = parse_target("x86:avx512;cores=2")
    space = TaskSpace(Task.of(body, target, 2), default_ceilings(target, 2))
    assert space.task.body == body
    pool = draft(space, np.random.default_rng(0), UNTUNED)
    return sum(config_space.size for config_space in space.config_spaces), float(pool.prior.min())


@pytest.fixture(scope="module")
def usual() -> tuple[int, float]:
    return space_and_score(ops.matmul(m=256, n=784, k=64))


@pytest.mark.parametrize("name", VARIATIONS)
def test_space_and_best_score_are_those_of_the_matmul(name: str, usual: tuple[int, float]) -> None:
    size, best = space_and_score(VARIATIONS[name])
    assert size == usual[0]
    assert best == pytest.approx(usual[1], rel=0.05)


def test_axes_may_be_permuted() -> None:
    """B^T A^T instead of A B: the same loops with the parts of the operands exchanged."""
    permuted = parse(
        """
        input A: f32[64, 256]
        input B: f32[784, 64]
        C[j: 784, i: 256] = sum[k: 64](A[k, i] * B[j, k])
        return C
        """
    )
    same = ops.matmul(m=784, n=256, k=64)
    (ours, score), (theirs, wanted) = space_and_score(permuted), space_and_score(same)
    assert ours == theirs
    assert score == pytest.approx(wanted, rel=0.05)
