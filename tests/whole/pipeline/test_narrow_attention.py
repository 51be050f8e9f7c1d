"""Attention of bfloat16 whose weights are rounded to it too: both products are of words, at sizes that nothing divides."""

from __future__ import annotations

import numpy as np
import pytest
from narrow.programs import attention

from helpers.pipeline.candidates import complaint, random_config, run
from tilesmith.codegen.pipeline import build
from tilesmith.graph.functions import softmax
from tilesmith.schedules.task import Task
from tilesmith.targets.host import missing_here
from tilesmith.targets.target import parse_target
from tilesmith.tensor.build import placeholder
from tilesmith.tensor.collect import program
from tilesmith.tensor.dtype import bf16

HAVING = parse_target("x86:avx512+avx512vnni+avx512bf16")
TARGETS = ("x86:avx512+avx512vnni+avx512bf16", "x86:avx512", "x86:avx2", "x86:sse2")


def task_of(causal: bool, length: int = 37) -> Task:
    return Task.of(attention(2, length, 20, causal), HAVING, 2)


def with_dots(task: Task) -> list[int]:
    """The numbers of the sketches in which both products are of words."""
    return [n for n, sketch in enumerate(task.sketches) if sketch.text.count("rewrite(bf16_dots") == 2]


@pytest.mark.parametrize("text", TARGETS)
@pytest.mark.parametrize("causal", [False, True])
def test_both_products_are_of_words_and_right(causal: bool, text: str) -> None:
    target = parse_target(text)
    if missing_here(target):
        pytest.skip(f"this machine has no {', '.join(missing_here(target))}")
    task, rng = task_of(causal), np.random.default_rng([causal, *map(ord, text)])
    found = with_dots(task)
    assert found
    for number in rng.permutation(found)[:3]:
        sketch, there = task.sketches[number], Task.of(task.program, target, 2)
        values = random_config(there, sketch, rng)
        assert values is not None, sketch.title
        wrong = complaint(there, sketch, values, 1, at_end=bool(rng.integers(2)))
        assert wrong is None, f"{sketch.title} {values}: {wrong}"


@pytest.mark.parametrize("length", [36, 37])
def test_keys_that_a_query_does_not_see_may_be_anything(length: int) -> None:
    if missing_here(HAVING):
        pytest.skip("this machine has no such instructions")
    task, rng = task_of(True, length), np.random.default_rng(0)
    arrays = [rng.standard_normal(d.tensor.shape).astype(np.float32).view(np.uint32) >> 16 for d in task.program.inputs]
    q, k, v = (array.astype(np.uint16) for array in arrays)
    v[:, 17:] = 0x7F80  # the query 16 sees the first element of its last word alone
    for number in with_dots(task)[:4]:
        sketch = task.sketches[number]
        values = random_config(task, sketch, rng)
        assert values is not None
        given = [a.view(d.tensor.dtype.numpy) for a, d in zip((q, k, v), task.program.inputs, strict=True)]
        (found,) = run(build(task.program, sketch, values, HAVING, 2), task, given, at_end=True)
        floats = (found.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
        assert np.isfinite(floats[:, :17]).all() and not np.isfinite(floats[:, 17:]).any(), sketch.title


def test_attention_of_models_says_so() -> None:
    q, k, v = (placeholder((2, 37, 20), bf16, name) for name in "QKV")
    made = softmax.attention(q, k, v, causal=True)
    assert with_dots(Task.of(program([made], inputs=[q, k, v]), HAVING, 1))
