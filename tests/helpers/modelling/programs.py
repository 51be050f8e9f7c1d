"""Programs and small schedules that the tests of the cost model share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilesmith.schedules.loops import LoopTree
from tilesmith.schedules.schedule import Schedule, trace
from tilesmith.schedules.sketch import Sketch, valid
from tilesmith.schedules.task import Task
from tilesmith.targets.target import Target, parse_target
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.canonical import canonical
from tilesmith.tensor.text.parse import parse

# 32 registers of 16 floats; 512-bit multiply-adds one per cycle
TARGET = parse_target("x86:avx512;vector=512;fma=1;load=1;store=1;cores=2;l1=32K/64/1;l2=1M/64/1;l3=32M/64/2")

SOFTMAX = """
input x: f32[100, 200]
m[i: 100] = max[k: 200](x[i, k])
e[i: 100, j: 200] = exp(x[i, j] - m[i])
s[i: 100] = sum[k: 200](e[i, k])
y[i: 100, j: 200] = e[i, j] / s[i]
return y
"""
CONVOLUTION = """
input x: f32[3, 20, 20]
constant w: f32[8, 3, 3, 3]
y[o: 8, h: 18, v: 18] = sum[c: 3, r: 3, q: 3](x[c, h + r, v + q] * w[o, c, r, q])
return y
"""
STRIDED = """
input x: f32[64, 100]
a[i: 64, j: 50] = x[i, 2 * j] + x[63 - i, 2 * j + 1]
b[j: 50, i: 64] = a[i, j] + x[i // 3, j % 7]
return b
"""


def matmul(m: int, n: int, k: int) -> str:
    """C = A B."""
    return f"""
    input A: f32[{m}, {k}]
    input B: f32[{k}, {n}]
    C[i: {m}, j: {n}] = sum[k: {k}](A[i, k] * B[k, j])
    return C"""


def elementwise(n: int) -> str:
    """z = x * y + 1."""
    return f"""
    input x: f32[{n}]
    input y: f32[{n}]
    z[i: {n}] = x[i] * y[i] + 1
    return z"""


def task(text: str, threads: int = 1, target: Target = TARGET) -> Task:
    """The task of a program in text form."""
    return Task.of(parse(text), target, threads)


def program(text: str) -> Program:
    """The program as it is written, in canonical form, not normalised."""
    return canonical(parse(text))


def sketch(template: object, text: str) -> Sketch:
    """The only sketch of a template."""
    (found,) = trace(template, program(text))  # type: ignore[arg-type]
    return found


def drawn(
    sketch_: Sketch, body: Program, count: int, seed: int, target: Target = TARGET
) -> tuple[LoopTree, NDArray[np.int32], NDArray[np.bool_]]:
    """(tree of a random population, its choices, which of them are valid)."""
    config_space = sketch_.config_space(body, target)
    rng = np.random.default_rng(seed)
    choices = np.empty((count, len(config_space.parameters)), dtype=np.int32)
    for column, parameter in enumerate(config_space.parameters):
        choices[:, column] = rng.integers(0, len(parameter.values), count)
    tree = sketch_.apply_population(body, target, config_space, choices)
    return tree, choices, valid(tree, count)


def register_tile(s: Schedule) -> None:
    """A matrix product with a register tile and nothing else."""
    stage = s.stage("t0")
    i, j, k = stage.loops
    i0, i1 = s.split(i, s.factor("rows", at_most=16))
    j0, j1, j2 = s.split(j, s.factor("vectors", at_most=8, times=1), s.lanes(stage.definition.tensors[0].dtype))
    s.reorder(i0, j0, k, i1, j1, j2)
    s.unroll(i1, j1)
    s.vectorize(j2)
