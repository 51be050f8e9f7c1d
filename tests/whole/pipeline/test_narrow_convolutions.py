"""Convolutions of bytes, halves and bfloat16 that nobody chose: windows, groups, layouts, borders, and what finishes them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from helpers.pipeline.candidates import random_config, run
from helpers.pipeline.narrow_convolutions import NarrowConvolution, drawn
from tilesmith.codegen.pipeline import build
from tilesmith.schedules.task import Task
from tilesmith.targets.host import missing_here
from tilesmith.targets.target import Target, parse_target

TARGETS = tuple(
    target
    for text in ("x86:avx512+avx512vnni+avx512bf16", "x86:avx2+avxvnni", "x86:avx512", "x86:avx2", "x86:sse2")
    if not missing_here(target := parse_target(text))
)


def complaints(one: NarrowConvolution, target: Target, rng: np.random.Generator, most: int) -> list[str]:
    """What is wrong with random configs of some sketches, first of those that make words."""
    task = Task.of(one.program(), target, int(rng.integers(1, 3)))
    order = sorted(rng.permutation(len(task.sketches)), key=lambda n: "dots" not in task.sketches[n].text)
    arrays, found = one.inputs(rng), []
    for sketch in [task.sketches[n] for n in order[:most]]:
        values = random_config(task, sketch, rng)
        if values is None:
            continue
        artifact = build(task.program, sketch, values, target, task.threads)
        (result,) = run(artifact, task, arrays, at_end=bool(rng.integers(2)))
        wrong = one.complaint(arrays, result)
        if wrong is not None:
            found.append(f"{wrong}\n{target}\n{sketch.text}\n{values}\n{task.program}")
    return found


@settings(deadline=None, max_examples=12, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32))
def test_any_narrow_convolution_is_right(seed: int) -> None:
    one, rng = drawn(seed), np.random.default_rng(seed)
    note(str(one))
    assert not complaints(one, TARGETS[rng.integers(len(TARGETS))], rng, 1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
def test_many_narrow_convolutions_are_right(seed: int) -> None:
    one, rng = drawn(seed), np.random.default_rng(seed)
    assert not [wrong for target in TARGETS for wrong in complaints(one, target, rng, 3)]


def test_a_fault_of_one_step_is_found() -> None:
    """What NumPy says catches a border of another number, and one result that is off by one."""
    one = replace(drawn(0), kinds=("u8", "i8"), padding=1, border=3, finished="plain", groups=1)
    rng = np.random.default_rng(0)
    arrays = one.inputs(rng)
    sums = one._sums(arrays[0].astype(np.float64), arrays[1].astype(np.float64), 3).astype(np.int32)
    assert one.complaint(arrays, sums) is None
    sums[0, 0, 0] += 1
    assert one.complaint(arrays, sums) is not None
    assert one.complaint(arrays, one._sums(arrays[0] * 1.0, arrays[1] * 1.0, 2).astype(np.int32)) is not None
