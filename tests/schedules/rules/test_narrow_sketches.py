"""The rules find in programs of narrow floats, which widen what they read, what they find in those of float32."""

from __future__ import annotations

import re

import numpy as np
import pytest

from helpers.pipeline.candidates import complaint, random_config
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor import ops
from tilesmith.tensor.text.parse import parse

TARGET = parse_target("x86:avx512")
SIZES: dict[str, dict[str, object]] = {
    "softmax": {"rows": 64, "columns": 1024}, "log_softmax": {"rows": 64, "columns": 1024},
    "layer_norm": {"rows": 64, "columns": 1024}, "rms_norm": {"rows": 64, "columns": 1024},
    "group_norm": {"n": 2, "c": 8, "h": 14, "w": 14, "groups": 4}, "row_mean": {"rows": 64, "columns": 1024},
    "cosine_similarity": {"rows": 64, "columns": 1024}, "mse_loss": {"size": 1 << 16},
    "attention": {"heads": 2, "queries": 128, "keys": 128, "width": 64},
    "attention by blocks": {"heads": 2, "queries": 16, "keys": 2048, "width": 8, "causal": True},
    "cumsum": {"shape": (64, 1024)}, "swiglu": {"rows": 64, "columns": 256},
}  # fmt: skip


def structures(name: str, dtype: str) -> list[str]:
    task = Task.of(ops.find_operator(name.partition(" ")[0])(**SIZES[name], dtype=dtype), TARGET, 2)
    return [re.sub(r"\bt\d+", "t", sketch.title) for sketch in task.sketches]  # stages that only widen have numbers too


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("name", SIZES)
def test_there_are_the_same_structures(name: str, dtype: str) -> None:
    assert structures(name, dtype) == structures(name, "f32")


@pytest.mark.parametrize("target", ["avx512+avx512bf16", "avx512+amx", "avx512+amx+avx512bf16+avx512vnni", "avx2"])
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("name", SIZES)
def test_every_instruction_finds_sketches(name: str, dtype: str, target: str) -> None:
    """Rewrites of one rule come before the steps of another one, whichever products a target has instructions for."""
    program = ops.find_operator(name.partition(" ")[0])(**SIZES[name], dtype=dtype)
    assert len(Task.of(program, parse_target(f"x86:{target}"), 2).sketches) > 1


def test_what_products_round_is_rounded_once() -> None:
    """A cast that stands in a product, as partitions leave it, hides no bf16 from the instructions for it."""
    text = """
        input x: f32[40, 64]
        constant w: bf16[48, 64]
        s[i: 40, j: 48] = sum[k: 64](f32(bf16(x[i, k])) * f32(w[j, k]))
        y[i: 40, j: 48] = bf16(max(s[i, j], 0))
        return y
        """
    for words, target in (("bf16_dots", "avx512+avx512bf16"), ("bf16_tile_dots", "avx512+amx")):
        task = Task.of(parse(text), parse_target(f"x86:{target}"), 2)
        assert f"rewrite({words}" in task.sketches[1].text
    task = Task.of(parse(text), parse_target("host"), 2)
    for sketch in task.sketches[1:4]:
        values = random_config(task, sketch, np.random.default_rng(2))
        assert values is not None and complaint(task, sketch, values, 3) is None, sketch.title


@pytest.mark.parametrize("name", ["attention", "attention by blocks"])
def test_products_of_products_of_bf16_run(name: str) -> None:
    program = ops.attention(**SIZES[name], dtype="bf16")  # type: ignore[arg-type]
    task = Task.of(program, parse_target("host"), 2)
    for sketch in task.sketches[1:]:
        values = random_config(task, sketch, np.random.default_rng(2))
        assert values is not None
        assert complaint(task, sketch, values, 3) is None, sketch.title
