"""Register tiles: right at every edge, and the machine code that the design asks for."""

from __future__ import annotations

import re

import numpy as np
import pytest

from helpers.emission.loops import random, run
from helpers.emission.tiles import matmul
from tilesmith.codegen.pipeline import assembled, build
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor import ops

AVX512 = parse_target("x86:avx512")


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("at_end", [False, True])
@pytest.mark.parametrize(
    ("m", "n", "k"), [(1, 1, 1), (6, 64, 16), (7, 65, 17), (5, 31, 40), (13, 130, 33), (12, 128, 48), (8, 50, 3)]
)
def test_ragged_sizes(m: int, n: int, k: int, threads: int, at_end: bool) -> None:
    loops = matmul(m, n, k, rows=6, vectors=4, depth=16)
    a, b = (random(buffer) for buffer in loops.arguments[:2])
    np.testing.assert_allclose(run(loops, [a, b], threads, at_end=at_end)[0], a @ b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("rows", "vectors", "width"), [(8, 3, 16), (12, 2, 16), (1, 1, 2), (4, 1, 32), (3, 5, 8), (2, 2, 64)]
)
def test_tile_shapes(rows: int, vectors: int, width: int) -> None:
    """Vectors narrower and wider than the machine's."""
    loops = matmul(29, 95, 21, rows, vectors, depth=8, unroll=2, width=width)
    a, b = (random(buffer) for buffer in loops.arguments[:2])
    np.testing.assert_allclose(run(loops, [a, b])[0], a @ b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["x86:avx2", "x86:sse2"])
def test_without_masks(name: str) -> None:
    loops = matmul(9, 21, 12, rows=4, vectors=2, depth=8, width=8 if name == "x86:avx2" else 4)
    a, b = (random(buffer) for buffer in loops.arguments[:2])
    actual = run(loops, [a, b], target=parse_target(name))[0]
    np.testing.assert_allclose(actual, a @ b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("rows", "vectors"), [(8, 3), (6, 4), (12, 2)])
def test_inner_loop_is_fma_and_loads_alone(rows: int, vectors: int) -> None:
    """Accumulators stay in registers: between the first and last FMA of the main loop nothing touches the stack, each row of B
    is loaded once a step and each element of A is broadcast once."""
    unroll = 4
    loops = matmul(rows * 16, vectors * 16 * 4, 512, rows, vectors, depth=256, unroll=unroll)
    lines = [line.strip() for line in assembled(loops, AVX512, 1, texts=True).texts["asm"].splitlines()]
    at = [number for number, line in enumerate(lines) if line.startswith("vfmadd")]
    assert len(at) == rows * vectors * unroll
    body = lines[at[0] - vectors - 2 : at[-1] + 1]
    assert not [line for line in body if "%rsp" in line or re.match(r"vmovaps\s+%zmm", line)]
    assert sum("(" in line for line in body) <= unroll * (rows + vectors)


@pytest.mark.parametrize(("rows", "vectors", "unroll"), [(9, 3, 2), (12, 2, 4), (13, 2, 3), (8, 3, 3)])
def test_copies_of_an_unrolled_step_push_no_accumulator_out(rows: int, vectors: int, unroll: int) -> None:
    """Where hints stand between them, LLVM's scheduler moved the loads of all copies before the first product."""
    task = Task.of(ops.matmul(197, 768, 768), AVX512, 2)
    variant = ("columns outside = true", "rows innermost = false", "pack rows = false", "pack columns = true")
    sketch = next(one for one in task.sketches if all(word in one.text for word in variant))
    tile = {"t0.rows": rows, "t0.vectors": vectors, "t0.unroll": unroll, "t0.bring": 1}
    blocks = {"t0.row_blocks": 1, "t0.column_blocks": 1, "t0.depth_blocks": 1}
    text = build(task.program, sketch, tile | blocks, AVX512, 2, texts=True).texts["asm"]
    assert text.count("vfmadd") >= rows * vectors * unroll
    assert not re.search(r"vmov\w+\s+%zmm\d+, \S*\(%rsp\)", text)


@pytest.mark.parametrize("name", ["aarch64:neon", "riscv64:v"])
def test_cross_compilation(name: str) -> None:
    """Machine code for another kind of processor can be made anywhere."""
    artifact = assembled(matmul(9, 21, 12, rows=4, vectors=2, depth=8, width=4), parse_target(name), 2, texts=True)
    assert artifact.runtime_symbols == ("GOMP_parallel", "omp_get_num_threads", "omp_get_thread_num")
    assert ("fmla" if name.startswith("aarch64") else "vfmacc") in artifact.texts["asm"]
