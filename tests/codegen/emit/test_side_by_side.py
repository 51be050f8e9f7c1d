"""Long functions of copies that are written out run abreast, and give what they give alone."""

from __future__ import annotations

import re

import pytest

from helpers.bochs.kernels import run as run_played
from helpers.pipeline.candidates import Runner, complaint, run
from tilesmith.codegen.emit.side_by_side import copies_of
from tilesmith.codegen.emit.values import Arithmetic
from tilesmith.codegen.ir.loop_ir import For, LoopKind, Store
from tilesmith.codegen.pipeline import build
from tilesmith.schedules.plan.long_functions import ABREAST, long_functions
from tilesmith.schedules.sketch import parse_sketch
from tilesmith.schedules.task import Task
from tilesmith.targets.host import host_target
from tilesmith.targets.target import Target, parse_target
from tilesmith.tensor.dtype import f32, i64
from tilesmith.tensor.expr import Read, Var, const
from tilesmith.tensor.mathematics import exp
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.parse import parse

SKETCH = """
    sketch by hand
    step split(t0.a0, {rows})
    step split(t0.a1, {vectors}, lanes(f32))
    step reorder(t0.a0.p0, t0.a1.p0, t0.a0.p1, t0.a1.p1, t0.a1.p2)
    step unroll(t0.a0.p1, t0.a1.p1)
    step vectorize(t0.a1.p2)
    """
VALUES = (
    "silu(x[i, j])",
    "gelu(x[i, j])",
    "exp(x[i, j] * 20) + tanh(b[j])",
    "sigmoid(erf(x[i, j]) * 3) * erf(x[i, j])",
    "select(b[j] > 0, exp(x[i, j]), 0.5) + log(x[i, j] * x[i, j])",
)


def program(value: str, rows: int = 12, columns: int = 144) -> Program:
    value = value.replace("x[i, j]", "(x[i, j] + b[j])")  # without b the axes were one
    return parse(
        f"input x: f32[{rows}, {columns}]\ninput b: f32[{columns}]\ny[i: {rows}, j: {columns}] = {value}\nreturn y"
    )


def wrong(
    value: str, target: Target, rows: int, vectors: int, runner: Runner = run, sizes: tuple[int, int] = (12, 144)
) -> str | None:
    task = Task.of(program(value, *sizes), target, 1)
    return complaint(task, parse_sketch(SKETCH.format(rows=rows, vectors=vectors)), {}, 0, runner=runner)


def called(value: str, rows: int, vectors: int) -> list[tuple[str, int]]:
    """Functions and lanes of all calls."""
    sketch = parse_sketch(SKETCH.format(rows=rows, vectors=vectors))
    text = build(program(value), sketch, {}, parse_target("x86:avx2"), 1, texts=True).texts["llvm"]
    return [(name, int(lanes)) for name, lanes in re.findall(r"call .*@tilesmith\.(\w+)\.v(\d+)f32", text)]


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize(("rows", "vectors"), [(4, 3), (3, 1), (1, 6), (1, 1)])
def test_copies_are_right(value: str, rows: int, vectors: int) -> None:
    assert wrong(value, host_target(), rows, vectors) is None


@pytest.mark.parametrize("sizes", [(11, 144), (12, 141), (7, 50)])
def test_ends_of_tiles_are_right(sizes: tuple[int, int]) -> None:
    assert wrong("gelu(x[i, j])", host_target(), 4, 3, sizes=sizes) is None


@pytest.mark.parametrize("value", ["exp(x[i, j] * 50)", "gelu(x[i, j])", "silu(x[i, j])"])
def test_registers_that_multiply_by_powers_are_right(value: str) -> None:
    """AVX-512 has an instruction for x 2^n, of one register at a time."""
    assert wrong(value, parse_target("x86:avx512"), 2, 3, runner=run_played, sizes=(5, 100)) is None


def test_functions_of_four_copies_are_one_call() -> None:
    assert called("silu(x[i, j])", 4, 3) == [("sigmoid", 8 * ABREAST)] * 3
    assert called("silu(x[i, j])", 1, 6) == [("sigmoid", 8 * ABREAST), ("sigmoid", 16)]
    assert called("silu(x[i, j])", 1, 1) == [("sigmoid", 8)]


def test_what_copies_have_in_common_is_computed_once() -> None:
    """Four rows read the same bias: its function is one call for all of them."""
    assert called("exp(b[j]) * x[i, j]", 4, 1) == [("exp", 8)]


def test_functions_of_a_choice_stay_where_they_are() -> None:
    assert {lanes for _, lanes in called("select(b[j] > 0, exp(x[i, j]), 0.5)", 4, 3)} == {8}


def test_a_store_that_reads_what_it_writes_stays_in_order() -> None:
    """A copy may read what the one before has written."""
    place = (Var("i") * 8 + Var("l"),)

    def loops(read: str) -> For:
        value = exp(Read(read, place, f32))
        vector = For("l", const(8, i64), Store("y", place, value), LoopKind.VECTOR)
        return For("i", const(4, i64), vector, LoopKind.UNROLL)

    assert copies_of(loops("x")) is not None
    assert copies_of(loops("y")) is None


def test_inner_functions_come_first() -> None:
    stage = program("sigmoid(erf(x[i, j]) * 3) * gelu(x[i, j])").stages[0]
    assert [function.name for function in long_functions(stage.bodies[0])] == ["erf", "sigmoid", "gelu"]


def test_exchanged_copies_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: each copy takes what the first one gives."""
    honest = Arithmetic._part
    monkeypatch.setattr(Arithmetic, "_part", lambda self, value, first, lanes: honest(self, value, 0, lanes))
    assert wrong("silu(x[i, j])", host_target(), 4, 3) is not None
