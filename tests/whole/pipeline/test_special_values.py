"""Infinities, NaN and subnormal numbers in whole kernels: as NumPy has them, by every sketch.

A pack that is filled up with zeros must not make NaN of an infinity, a masked vector must not let one in, and nothing is
flushed to zero. Sketches for a matrix unit have tests of their own (test_matrix_unit.py).
"""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

from helpers.pipeline.candidates import random_config, run
from tilesmith.codegen.pipeline import build
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor import ops
from tilesmith.tensor.oracle.reference import evaluate
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.parse import parse

HOST = parse_target("host")
KINDS = {
    "infinities": (np.inf, -np.inf, np.inf),
    "one infinity": (np.inf,),
    "nan": (np.nan, np.inf),
    "subnormal": (1e-40, -1e-45, 1e-38),
}

PROGRAMS: dict[str, Program] = {
    "product": ops.matmul(13, 17, 19),
    "product with a constant": ops.matmul(13, 17, 19, constants=("B",)),
    "transposed product": parse("""
        input A: f32[19, 13]
        input B: f32[17, 19]
        C[i: 13, j: 17] = sum[k: 19](A[k, i] * B[j, k])
        return C
        """),
    "product with an epilogue": ops.matmul_bias_relu(13, 17, 19),
    "convolution with a constant": ops.conv2d(1, 16, 6, 9, 17, kernel=3, padding=1, layout="nhwc", constants=("W",)),
    "matrix and vector": ops.matvec(21, 37),
    "sums of rows": parse("input x: f32[11, 37]\ny[i: 11] = sum[j: 37](x[i, j])\nreturn y\n"),
    "sums of columns": parse("input x: f32[37, 21]\ny[j: 21] = sum[i: 37](x[i, j])\nreturn y\n"),
    "maxima of rows": parse("input x: f32[11, 37]\ny[i: 11] = max[j: 37](x[i, j])\nreturn y\n"),
    "minima of columns": parse("input x: f32[37, 21]\ny[j: 21] = min[i: 37](x[i, j])\nreturn y\n"),
    "softmax": ops.softmax(11, 37),
    "layer norm": ops.layer_norm(11, 37),
    "chain": parse("""
        input x: f32[11, 37]
        input z: f32[11, 37]
        a[i: 11, j: 37] = max(x[i, j], 0) + z[i, j] * 2
        b[i: 11, j: 37] = select(x[i, j] < z[i, j], a[i, j], abs(x[i, j] - 1))
        y[i: 11, j: 37] = min(b[i, j], 3) / z[i, j]
        return y
        """),
    "transpose": ops.transpose(23, 37),
}


def sprinkled(values: tuple[float, ...], rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Ordinary numbers and zeros with special ones among them, the last element always one."""
    array = rng.standard_normal(shape).astype(np.float32)
    flat = array.reshape(-1)
    flat[rng.choice(flat.size, flat.size // 8, replace=False)] = 0
    flat[rng.choice(flat.size, len(values), replace=False)] = values
    flat[-1] = values[0]
    return array


def wrong(found: np.ndarray, expected: np.ndarray, scale: np.ndarray, terms: int = 1) -> str | None:
    """Which result is not NaN, infinite or near as expected, or None. `terms`: each may be rounded to a subnormal number."""
    with np.errstate(all="ignore"):
        rounded = expected.astype(np.float32)
        same = (found == rounded) | (np.isnan(found) & np.isnan(rounded))
        near = np.abs(found.astype(np.float64) - expected) <= 4 * 2.0**-23 * scale + terms * 2.0**-147
    bad = np.argwhere(~(same | (near & np.isfinite(found) & np.isfinite(rounded))))
    if not len(bad):
        return None
    at = tuple(bad[0])
    return f"{len(bad)} wrong, at {at}: expected {expected[at]:.9g}, found {found[at]:.9g}"


@pytest.mark.parametrize("name", PROGRAMS)
def test_special_values_are_as_in_numpy(name: str) -> None:
    rng = np.random.default_rng(2)
    task = Task.of(PROGRAMS[name], HOST, 2)
    cases = []
    for kind, values in KINDS.items():
        for place in range(len(task.program.inputs)):
            shapes = [item.tensor.shape for item in task.program.inputs]
            inputs = [sprinkled(values if n == place else (0.0,), rng, shape) for n, shape in enumerate(shapes)]
            (expected,), (scale,) = evaluate(task.program, inputs), evaluate(task.program, inputs, absolute=True)
            cases.append((f"{kind} in input {place}", inputs, expected, scale))
    inputs = [1e-20 * rng.standard_normal(item.tensor.shape).astype(np.float32) for item in task.program.inputs]
    cases.append(
        ("small numbers", inputs, *evaluate(task.program, inputs), *evaluate(task.program, inputs, absolute=True))
    )
    terms = max(prod(a.extent for a in stage.reduction) for stage in task.program.stages)
    tried = 0
    for number, sketch in enumerate(task.sketches):
        if "tensorize(" in sketch.text:
            continue
        config = random_config(task, sketch, rng)
        assert config is not None, sketch.title
        artifact = build(task.program, sketch, config, HOST, 2)
        for case, inputs, expected, scale in cases:
            (found,) = run(artifact, task, inputs, at_end=bool(number % 2))
            complaint = wrong(found, expected, scale, terms)
            assert complaint is None, f"{case}, {sketch.title} {config}: {complaint}"
        tried += 1
    assert tried
