"""Stages that read across their vectors: the rule finds them, and squares in registers are right for every type and target."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from helpers.lowering.truth import check_case
from helpers.pipeline.candidates import complaint, random_config
from tilesmith.codegen.pipeline import build
from tilesmith.common.errors import ScheduleError
from tilesmith.schedules.auto import derive
from tilesmith.schedules.schedule import Schedule, trace
from tilesmith.schedules.sketch import Sketch
from tilesmith.schedules.task import Task, normalised
from tilesmith.targets.target import parse_target
from tilesmith.tensor.text.parse import parse

HOST = parse_target("host")
LEVELS = ("x86:sse2", "x86:avx2", HOST.text)


def transpose(rows: int, columns: int, dtype: str = "f32") -> str:
    return f"input x: {dtype}[{rows}, {columns}]\ny[j: {columns}, i: {rows}] = x[i, j]\nreturn y\n"


CROSSING = {
    "plain": transpose(37, 21),
    "several": "input x: f32[5, 19, 23]\ninput z: f32[5, 23, 19]\ninput b: f32[19]\n"
    "y[n: 5, j: 23, i: 19] = (x[n, i, j] + z[n, j, i]) * b[i]\nreturn y\n",
    "two of them": "input x: f32[18, 33]\ninput z: f32[18, 33]\ny[j: 33, i: 18] = x[i, j] * z[i, j]\nreturn y\n",
    "moved axis": "input x: f32[4, 6, 17]\ny[c: 17, n: 4, h: 6] = x[n, h, c] + 1\nreturn y\n",
    "of a result": "input x: f32[20, 18]\nt[i: 20] = sum[j: 18](x[i, j])\ny[j: 18, i: 20] = x[i, j] - t[i]\nreturn y\n",
}


PACKED = {
    kind: f"input A: f32[7, 18]\n{kind} B: f32[37, 18]\nC[i: 7, j: 37] = sum[k: 18](A[i, k] * B[j, k])\nreturn C\n"
    for kind in ("input", "constant")
}


def derived(text: str, target: str = HOST.text) -> tuple[Task, tuple[Sketch, ...]]:
    task = Task.of(parse(text), parse_target(target), 2)
    return task, task.sketches[1:]


@pytest.mark.parametrize("name", CROSSING)
def test_the_rule_sends_such_reads_through_registers(name: str) -> None:
    _, sketches = derived(CROSSING[name])
    assert sketches and all(", register)" in sketch.text for sketch in sketches)


@pytest.mark.parametrize("kind", PACKED)
def test_packs_of_columns_that_lie_along_another_dimension(kind: str) -> None:
    task, sketches = derived(PACKED[kind])
    turned = [sketch for sketch in sketches if ", register)" in sketch.text]
    assert len(turned) == len(sketches)
    rng = np.random.default_rng(5)
    for number, sketch in enumerate(turned):
        values = random_config(task, sketch, rng)
        assert values is not None and complaint(task, sketch, values, number, at_end=bool(number % 2)) is None
        assert check_case(task.body, sketch, parse_target("x86:sse2"), Random(number), largest=20_000)


@pytest.mark.parametrize("text", ["input x: f32[40, 30]\ny[i: 40, j: 30] = x[i, j] * 2\nreturn y\n", transpose(40, 3)])
def test_the_rule_leaves_other_stages_alone(text: str) -> None:
    assert all(", register)" not in sketch.text for sketch in derived(text)[1])


@pytest.mark.parametrize("name", CROSSING)
@pytest.mark.parametrize("target", LEVELS)
def test_ragged_edges(name: str, target: str) -> None:
    task, sketches = derived(CROSSING[name], target)
    rng = np.random.default_rng(3)
    for sketch in sketches:
        values = random_config(task, sketch, rng)
        assert values is not None
        for at_end in (True, False):
            assert complaint(task, sketch, values, 1, at_end) is None


@pytest.mark.parametrize("dtype", ["f64", "i64", "i32", "f16", "bf16", "i16", "i8", "bool"])
def test_every_type(dtype: str) -> None:
    task, sketches = derived(transpose(35, 34, dtype))
    values = random_config(task, sketches[0], np.random.default_rng(4))
    assert values is not None and complaint(task, sketches[0], values, 2) is None


@pytest.mark.parametrize("name", CROSSING)
def test_the_analysis_is_exact(name: str) -> None:
    body = normalised(derived(CROSSING[name])[0].program)
    for number, sketch in enumerate(derive(body)[1:]):
        assert check_case(body, sketch, parse_target("x86:sse2"), Random(number), largest=20_000)


MASKED = "x86:avx512;vector=256"


@pytest.mark.parametrize(
    ("rows", "target", "bodies"), [(64, "x86:avx2", 1), (61, "x86:avx2", 1), (64, MASKED, 1), (61, MASKED, 2)]
)
def test_a_square_is_read_and_written_in_whole_vectors(rows: int, target: str, bodies: int) -> None:
    """No gather, and a network of n * log2(n) shuffles; no second body for edges where there are none, or where the last
    square begins earlier."""
    task, sketches = derived(transpose(rows, 64), target)
    values = random_config(task, sketches[0], np.random.default_rng(0))
    assert values is not None
    llvm = build(task.program, sketches[0], values, task.target, 1, texts=True).texts["llvm"]
    assert "masked.gather" not in llvm and "masked.scatter" not in llvm
    assert llvm.count("shufflevector <8 x float>") == bodies * 8 * 3


def test_registers_hold_only_what_is_unrolled() -> None:
    def template(s: Schedule) -> None:
        s.compute_at(s.copy("x0", "t0", "register").name, s.stage("t0").loops[0])

    task, _ = derived(transpose(8, 8))
    (sketch,) = trace(template, task.body)
    with pytest.raises(ScheduleError, match="cannot stay in registers"):
        build(task.program, sketch, {}, HOST, 1)
