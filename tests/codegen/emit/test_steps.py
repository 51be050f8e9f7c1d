"""Sums that fill the registers stay there, whatever LLVM would load ahead."""

from __future__ import annotations

import re

import pytest

from tilesmith.codegen.pipeline import build
from tilesmith.schedules.sketch import parse_sketch
from tilesmith.targets.target import parse_target
from tilesmith.tensor import ops
from tilesmith.tensor.text.parse import parse

APART = 'asm sideeffect "", "=v'
STEPS = """
    sketch by hand
    step split(t0.a0, {rows})
    step split(t0.a1, {vectors}, lanes(f32))
    step split(t0.a2, {unroll})
    step reorder(t0.a0.p0, t0.a1.p0, t0.a2.p0, t0.a2.p1, t0.a0.p1, t0.a1.p1, t0.a1.p2)
    step unroll(t0.a2.p1, t0.a0.p1, t0.a1.p1)
    step vectorize(t0.a1.p2)
    """

WINDOWS = """
    sketch by hand
    step split(t0.a1, 6)
    step split(t0.a2, 2, lanes(f32))
    step split(t0.a4, {unroll})
    step reorder(t0.a0, t0.a1.p0, t0.a2.p0, t0.a3, t0.a5, t0.a4.p0, t0.a4.p1, t0.a1.p1, t0.a2.p1, t0.a2.p2)
    step unroll(t0.a4.p1, t0.a1.p1, t0.a2.p1)
    step vectorize(t0.a2.p2)
    """

CROSSED = """
    sketch by hand
    step rewrite(half_words, stage=t0, depth=a2)
    step rewrite(crossed_words, stage=t2)
    step split(t2.a0, 4)
    step split(t2.a1, 2, lanes(i32))
    step split(t2.a2, {unroll})
    step reorder(t2.a0.p0, t2.a1.p0, t2.a2.p0, t2.a2.p1, t2.a0.p1, t2.a1.p1, t2.a1.p2)
    step unroll(t2.a2.p1, t2.a0.p1, t2.a1.p1)
    step vectorize(t2.a1.p2)
    """
BYTES = """
    input x: u8[32, 256]
    input y: i8[256, 64]
    z[i: 32, j: 64] = sum[k: 256](i32(x[i, k]) * i32(y[k, j]))
    return z
    """


def texts(target: str, rows: int, vectors: int, unroll: int, depth: int = 256) -> dict[str, str]:
    program = ops.matmul(m=8 * rows, n=4 * vectors * 16, k=depth)
    sketch = parse_sketch(STEPS.format(rows=rows, vectors=vectors, unroll=unroll))
    return build(program, sketch, {}, parse_target(target), 1, texts=True).texts


def innermost(assembly: str, operation: str = "vfmadd") -> list[str]:
    """The loop of which the largest part are multiply-adds, or other operations."""
    found: list[list[str]] = []
    lines, labels = assembly.splitlines(), dict[str, int]()
    for number, line in enumerate(lines):
        if label := re.match(r"(\.L\w+):", line):
            labels[label[1]] = number
        elif (jump := re.match(r"\tj\w+\s+(\.L\w+)", line)) and jump[1] in labels:
            found.append(lines[labels[jump[1]] : number + 1])
    return max(found, key=lambda loop: sum(operation in line for line in loop) / len(loop))


@pytest.mark.parametrize(("rows", "vectors"), [(6, 2), (4, 3)])
@pytest.mark.parametrize("unroll", [2, 4])
def test_full_registers_are_not_spilled(rows: int, vectors: int, unroll: int) -> None:
    kept = texts("x86:avx2", rows, vectors, unroll)
    loop = innermost(kept["asm"])
    assert sum("vfmadd" in line for line in loop) == rows * vectors * unroll
    assert not any("(%rsp)" in line for line in loop)
    assert kept["llvm"].count(APART) >= unroll - 1


@pytest.mark.parametrize("depth", [10, 14, 15])
def test_steps_of_one_group_and_a_remainder_are_done_one_after_another(depth: int) -> None:
    """A loop of one trip was none to LLVM: it did all steps of one accumulator in a row, behind the loads of all of them."""
    assembly = texts("x86:avx512", 3, 4, 8, depth)["asm"].splitlines()
    products = [line for line in assembly if "vfmadd" in line]
    assert len(products) == 12 * 9, "eight steps, and one of the loop of the others"
    assert not any("(%rsp)" in line for line in products)
    sums = [line.split("%zmm")[-1] for line in products]
    assert all(len(set(sums[n : n + 12])) == 12 for n in range(0, len(sums), 12))


@pytest.mark.parametrize("unroll", [2, 8])
def test_sums_of_crossed_words_are_not_spilled(unroll: int) -> None:
    """A step reads two words of each vector: what LLVM loads beside them takes twice as many registers."""
    program, sketch = parse(BYTES), parse_sketch(CROSSED.format(unroll=unroll))
    loop = innermost(build(program, sketch, {}, parse_target("x86:avx2"), 1, texts=True).texts["asm"], "vpmaddwd")
    assert sum("vpmaddwd" in line for line in loop) == 8 * unroll
    assert not any("(%rsp)" in line for line in loop if "ymm" in line)


@pytest.mark.parametrize("unroll", [6, 7])
def test_steps_of_windows_are_done_one_after_another(unroll: int) -> None:
    """Neighbours share most of what they read. LLVM did all steps of one accumulator in a row, and spilled the others."""
    program = ops.conv2d(n=1, c=3, h=23, w=41, o=16, kernel=7, stride=2, layout="nhwc")
    sketch = parse_sketch(WINDOWS.format(unroll=unroll))
    loop = innermost(build(program, sketch, {}, parse_target("x86:avx2"), 1, texts=True).texts["asm"])
    assert sum("vfmadd" in line for line in loop) >= 12 * unroll
    assert not any("(%rsp)" in line for line in loop if "ymm" in line)
    sums = [line.split("%ymm")[-1] for line in loop if "vfmadd" in line]
    assert all(len(set(sums[n : n + 12])) == 12 for n in range(0, 12 * unroll, 12))


@pytest.mark.parametrize("target", ["x86:sse2", "x86:avx2", "x86:avx512"])
@pytest.mark.parametrize("more", [-1, 0, 1])
def test_sums_may_take_all_registers_and_more(target: str, more: int) -> None:
    """LLVM ends the process where inline assembly asks for more registers than there are."""
    rows = parse_target(target).vector_registers + more
    assert (APART in texts(target, rows, 1, 3)["llvm"]) == (more < 0)


@pytest.mark.parametrize(("target", "rows", "vectors"), [("x86:avx2", 5, 2), ("x86:avx512", 6, 4)])
def test_others_leave_the_order_to_llvm(target: str, rows: int, vectors: int) -> None:
    assert APART not in texts(target, rows, vectors, 4)["llvm"]


def test_rows_of_one_step_are_not_kept_apart() -> None:
    assert texts("x86:avx2", 6, 2, 1)["llvm"].count(APART) == 0
