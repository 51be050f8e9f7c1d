"""The rule of wide operands: what becomes f32 ahead, and that kernels made so are right at sizes that nothing divides."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.pipeline.candidates import complaint, random_config
from helpers.pipeline.narrow_products import product
from tilesmith.schedules.rules.cpu.widen import LEAST_USES, LEAST_USES_OF_CONSTANTS
from tilesmith.schedules.task import Task
from tilesmith.targets.host import missing_here
from tilesmith.targets.target import parse_target
from tilesmith.tensor.text.parse import parse

AVX2 = parse_target("x86:avx2")
LONG = LEAST_USES_OF_CONSTANTS + 5
CONVOLUTION = """
    input X: {kind}[9, 10, 19]
    constant W: {kind}[3, 3, 19, 21]
    S[p: 9, q: 10, o: 21] = sum[r: 3, s: 3, c: 19](
        select(p + r >= 1 and p + r < 10 and q + s >= 1 and q + s < 11, f32(X[p + r - 1, q + s - 1, c]), 0)
        * f32(W[r, s, c, o]))
    Y[p: 9, q: 10, o: 21] = {kind}(S[p, q, o])
    return Y
    """


def floats(kind: str, m: int, n: int, k: int, second: str) -> str:
    """C = A B of narrow floats, summed in f32."""
    return product(kind, kind, m, n, k, second).replace("i32(", "f32(")


def widened(text: str, target: str = AVX2.text) -> set[str]:
    """The tensors that the first sketch of the rules writes as f32."""
    _, sketch, *_ = Task.of(parse(text), parse_target(target), 1).sketches  # the default one stands first
    return {line.split("tensor=")[1].rstrip(")") for line in sketch.text.split("\n") if "rewrite(widen_reads" in line}


@pytest.mark.parametrize("kind", ["bf16", "f16"])
def test_what_is_in_many_products_is_widened_once(kind: str) -> None:
    assert len(widened(floats(kind, LONG, LEAST_USES, 40, "constant"))) == 2
    assert len(widened(floats(kind, LONG, LEAST_USES - 1, 40, "constant"))) == 1, "few columns use each row"
    assert len(widened(floats(kind, LEAST_USES_OF_CONSTANTS - 1, LEAST_USES, 40, "constant"))) == 1, "memory bounds it"
    assert len(widened(floats(kind, LEAST_USES, LEAST_USES - 1, 40, "input"))) == 1


def test_an_instruction_for_narrow_elements_comes_first() -> None:
    text = floats("bf16", LONG, LONG, 40, "constant")
    assert widened(text) and not widened(text, "x86:avx512+avx512bf16")


@pytest.mark.parametrize("target", ["x86:avx2", "x86:sse2", "x86:avx512"])
@pytest.mark.parametrize(
    "text",
    [
        floats("bf16", 67, 37, 43, "constant"), floats("f16", 67, 37, 43, "constant"), floats("f16", 21, 37, 43, "input"),
        CONVOLUTION.format(kind="bf16"), CONVOLUTION.format(kind="f16"),
    ],
)  # fmt: skip
def test_kernels_are_right(text: str, target: str) -> None:
    if missing_here(parse_target(target)):
        pytest.skip(f"this machine has no {', '.join(missing_here(parse_target(target)))}")
    rng = np.random.default_rng(7)
    task = Task.of(parse(text), parse_target(target), 2)
    found = [sketch for sketch in task.sketches if "rewrite(widen_reads" in sketch.text]
    assert found
    for sketch in found[:4]:
        values = random_config(task, sketch, rng)
        assert values is not None
        assert complaint(task, sketch, values, 5) is None, f"{sketch.title} {values}"
