"""Where buffers lie: aligned, apart from each other, once for each thread where they are private."""

from __future__ import annotations

from itertools import pairwise

import pytest

from helpers.emission.loops import ZERO, block, names, parallel, program, result, store
from tilesmith.codegen.ir.loop_ir import Allocate, Buffer, Scope
from tilesmith.codegen.ir.memory_plan import ALIGNMENT, PAGE, place_scratch, plan_memory
from tilesmith.tensor.dtype import f32

(I,) = names("i")  # noqa: E741
Z = result("z", 4)


def buffer(name: str, elements: int, scope: Scope) -> Buffer:
    return Buffer(name, f32, (elements,), scope)


def test_shared_buffers_are_aligned_and_apart() -> None:
    sizes = [1, 5, 4096, 4096, 33, 100_000]
    made = [buffer(f"w{n}", size, Scope.WORKSPACE) for n, size in enumerate(sizes)]
    kept = [buffer("p", 7, Scope.PREPARED), Buffer("t", f32, (1,), Scope.TABLE, values=(1.0,))]
    plan = plan_memory(program((Z,), store(Z, (0,), ZERO), globals=(*made, *kept)), 3)
    assert set(plan.workspace) == {one.name for one in made} and set(plan.prepared) == {"p"}
    spans = sorted((plan.workspace[one.name], plan.workspace[one.name] + one.bytes) for one in made)
    assert all(start % ALIGNMENT == 0 for start, _ in spans)
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))
    assert plan.shared_bytes >= spans[-1][1] and plan.private_bytes == 0
    assert plan.workspace_bytes == plan.shared_bytes and plan.prepared_bytes == ALIGNMENT


def test_large_buffers_do_not_begin_at_the_same_place_of_a_page() -> None:
    made = [buffer(f"w{n}", PAGE, Scope.WORKSPACE) for n in range(8)]
    plan = plan_memory(program((Z,), store(Z, (0,), ZERO), globals=made), 1)
    assert len({offset % PAGE for offset in plan.workspace.values()}) == 8


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_private_memory_is_what_lives_at_one_time_for_each_thread(threads: int) -> None:
    a, b, c = (buffer(name, 16, Scope.SCRATCH) for name in "abc")
    stack = buffer("s", 1000, Scope.STACK)
    leaf = store(Z, (I,), ZERO)
    nested = Allocate(a, block(Allocate(b, leaf), Allocate(c, Allocate(stack, leaf))))
    plan = plan_memory(program((Z,), parallel(I, 4, nested), parallel(I, 4, Allocate(c, leaf))), threads)
    assert plan.private_bytes == 2 * ALIGNMENT
    assert plan.workspace_bytes == threads * 2 * ALIGNMENT


def test_placing_one_buffer() -> None:
    start, used = place_scratch(70, buffer("x", 3, Scope.SCRATCH))
    assert (start, used) == (128, 140)
