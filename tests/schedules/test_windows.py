"""Which reads at places that data say are picked from a short stretch: what the cost model expects is what the code does."""

from __future__ import annotations

import pytest

from helpers.pipeline.candidates import complaint
from tilesmith.codegen.pipeline import build
from tilesmith.schedules.plan.windows import permutations
from tilesmith.schedules.sketch import parse_sketch
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor.dtype import f32
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.parse import parse

AVX2, AVX512, SSE2 = (parse_target(f"x86:{name}") for name in ("avx2", "avx512", "sse2"))
BY_DATA = "min(max(i64(w[i, j]), 0), {last})"
SKETCH = """
    sketch by hand
    step split(t0.a1, lanes(f32))
    step reorder(t0.a0, t0.a1.p0, t0.a1.p1)
    step vectorize(t0.a1.p1)
    """


def program(indices: str, shape: str = "6, 20", columns: int = 48) -> Program:
    return parse(
        f"input x: f32[{shape}]\ninput w: f32[5, {columns}]\ninput v: f32[5]\n"
        f"y[i: 5, j: {columns}] = x[{indices}] * v[i]\nreturn y"
    )  # fmt: skip


CASES = {
    "one vector": (f"i, {BY_DATA.format(last=7)}", 1),
    "two vectors": (f"i, {BY_DATA.format(last=8)} + 2", 3),
    "all of two": (f"i, {BY_DATA.format(last=15)}", 3),
    "more than two": (f"i, {BY_DATA.format(last=16)}", 0),
    "a cell that lanes share": (f"j // 8, {BY_DATA.format(last=11)}", 3),
    "backwards": (f"i, 15 - {BY_DATA.format(last=11)}", 3),
    "rows that data say": (f"{BY_DATA.format(last=1)}, 3", 0),
    "a place and a lane": (f"i, {BY_DATA.format(last=2)} + j % 8", 3),
    "data say nothing": ("i, j // 4", 0),
}


@pytest.mark.parametrize("name", CASES)
def test_the_cost_model_expects_what_is_done(name: str) -> None:
    indices, expected = CASES[name]
    given = program(indices)
    read = next(read for read in given.stages[0].reads() if read.tensor == "x")
    assert permutations(AVX2, given, read, "j", f32) == expected
    assert permutations(SSE2, given, read, "j", f32) == 0
    text = build(given, parse_sketch(SKETCH), {}, AVX2, 1, texts=True).texts["llvm"]
    assert text.count("call <8 x float> @llvm.x86.avx2.permps") == (expected + 1) // 2


def test_vectors_of_16_lanes_are_longer() -> None:
    given = program(f"i, {BY_DATA.format(last=19)}")
    read = next(read for read in given.stages[0].reads() if read.tensor == "x")
    assert permutations(AVX512, given, read, "j", f32) == 3
    assert permutations(AVX2, given, read, "j", f32) == 0


@pytest.mark.parametrize("columns", [48, 45, 8, 7])
@pytest.mark.parametrize("name", CASES)
def test_all_of_them_are_right(name: str, columns: int) -> None:
    task = Task.of(program(CASES[name][0], "6, 20", columns), AVX2, 1)
    assert complaint(task, parse_sketch(SKETCH), {}, 0) is None
