"""Sums that fill the registers stay there, whatever LLVM would load ahead."""

from __future__ import annotations

import re

import pytest

from tilesmith.codegen.emit.steps import APART
from tilesmith.codegen.pipeline import build
from tilesmith.schedules.sketch import parse_sketch
from tilesmith.targets.target import parse_target
from tilesmith.tensor import ops

STEPS = """
    sketch by hand
    step split(t0.a0, {rows})
    step split(t0.a1, {vectors}, lanes(f32))
    step split(t0.a2, {unroll})
    step reorder(t0.a0.p0, t0.a1.p0, t0.a2.p0, t0.a2.p1, t0.a0.p1, t0.a1.p1, t0.a1.p2)
    step unroll(t0.a2.p1, t0.a0.p1, t0.a1.p1)
    step vectorize(t0.a1.p2)
    """


def texts(target: str, rows: int, vectors: int, unroll: int) -> dict[str, str]:
    program = ops.matmul(m=8 * rows, n=4 * vectors * 16, k=256)
    sketch = parse_sketch(STEPS.format(rows=rows, vectors=vectors, unroll=unroll))
    return build(program, sketch, {}, parse_target(target), 1, texts=True).texts


def innermost(assembly: str) -> list[str]:
    """The loop of which the largest part are multiply-adds."""
    found: list[list[str]] = []
    lines, labels = assembly.splitlines(), dict[str, int]()
    for number, line in enumerate(lines):
        if label := re.match(r"(\.L\w+):", line):
            labels[label[1]] = number
        elif (jump := re.match(r"\tj\w+\s+(\.L\w+)", line)) and jump[1] in labels:
            found.append(lines[labels[jump[1]] : number + 1])
    return max(found, key=lambda loop: sum("vfmadd" in line for line in loop) / len(loop))


@pytest.mark.parametrize(("rows", "vectors"), [(6, 2), (4, 3)])
@pytest.mark.parametrize("unroll", [2, 4])
def test_full_registers_are_not_spilled(rows: int, vectors: int, unroll: int) -> None:
    kept = texts("x86:avx2", rows, vectors, unroll)
    loop = innermost(kept["asm"])
    assert sum("vfmadd" in line for line in loop) == rows * vectors * unroll
    assert not any("(%rsp)" in line for line in loop)
    assert kept["llvm"].count(APART) >= unroll - 1


@pytest.mark.parametrize(("target", "rows", "vectors"), [("x86:avx2", 5, 2), ("x86:avx512", 6, 4)])
def test_others_leave_the_order_to_llvm(target: str, rows: int, vectors: int) -> None:
    assert APART not in texts(target, rows, vectors, 4)["llvm"]


def test_rows_of_one_step_are_not_kept_apart() -> None:
    assert texts("x86:avx2", 6, 2, 1)["llvm"].count(APART) == 0
