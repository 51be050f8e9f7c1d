"""Sketches for processors that this machine may not be, run on an emulated one: units of tiles, arithmetic on halves."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from helpers.bochs.kernels import run
from helpers.bochs.matrix_unit import SAPPHIRE
from helpers.pipeline.candidates import complaint, random_config
from helpers.pipeline.narrow_products import product
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor import ops
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.parse import parse

HALVES = parse_target("x86:avx512+avx512fp16")
IN_HALVES: dict[str, Callable[[], Program]] = {
    "matmul": lambda: ops.matmul(13, 37, 29, dtype="f16"),
    "softmax": lambda: ops.softmax(7, 45, dtype="f16"),
    "layer_norm": lambda: ops.layer_norm(5, 67, dtype="f16"),
    "gelu": lambda: ops.gelu(99, dtype="f16"),
    "add": lambda: ops.add(77, dtype="f16"),
    "cumsum": lambda: ops.cumsum((5, 40), dtype="f16"),
}
DRAWN = 120


@pytest.mark.parametrize("name", IN_HALVES)
def test_kernels_of_halves_where_these_have_arithmetic(name: str) -> None:
    task = Task.of(IN_HALVES[name](), HALVES, 1)
    rng = np.random.default_rng(0)
    for sketch in task.sketches[1:3]:
        values = random_config(task, sketch, rng)
        assert values is not None, sketch.title
        assert complaint(task, sketch, values, 0, runner=run) is None, sketch.title


def drawn(rng: np.random.Generator) -> Program:
    """A product, a batch of them, one with an epilogue, a window, or a chain; of any type that the unit multiplies."""
    m, n, k = (int(rng.integers(low, high)) for low, high in ((8, 70), (16, 90), (32, 140)))
    constants = ("B",) if rng.integers(2) else ()
    dtype = str(rng.choice(["f32", "bf16"]))
    match rng.integers(6):
        case 0:
            return ops.matmul(m, n, k, dtype=dtype, constants=constants)
        case 1:
            return ops.batch_matmul(int(rng.integers(1, 4)), m, n, k, dtype=dtype)
        case 2:
            return ops.matmul_bias_relu(m, n, k, dtype=dtype)
        case 3:
            size, pad, stride = int(rng.integers(5, 12)), int(rng.integers(0, 2)), int(rng.integers(1, 3))
            channels = int(rng.integers(32, 65)), int(rng.integers(16, 50))
            layout = str(rng.choice(["nchw", "nhwc"]))
            return ops.conv2d(
                1, channels[0], size, size, channels[1], padding=pad, stride=stride, layout=layout, dtype=dtype,
                constants=("W",),
            )  # fmt: skip
        case 4:
            return ops.attention(int(rng.integers(1, 3)), m, m, int(rng.integers(32, 65)), dtype=dtype)
    kinds = str(rng.choice(["u8 i8", "i8 u8", "i8 i8", "u8 u8"])).split()
    return parse(product(*kinds, m=m, n=n, k=k, kind="constant" if constants else "input"))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(DRAWN))
def test_drawn_sketches_for_a_unit_are_right(seed: int) -> None:
    rng = np.random.default_rng([seed, 28])
    task = Task.of(drawn(rng), SAPPHIRE, int(rng.integers(1, 3)))
    found = [sketch for sketch in task.sketches if "tensorize(" in sketch.text]
    for number in rng.permutation(len(found))[:3]:
        values = random_config(task, found[number], rng)
        if values is not None:
            wrong = complaint(task, found[number], values, seed, at_end=bool(rng.integers(2)), runner=run)
            assert wrong is None, f"{found[number].title} {values}: {wrong}"
