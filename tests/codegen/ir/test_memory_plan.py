"""Where buffers lie: aligned, apart from each other, once for each thread where they are private."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from helpers.emission.loops import ZERO, block, names, parallel, program, read, result, serial, store
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
    assert plan.workspace_bytes == plan.shared_bytes
    assert (plan.prepared_bytes, plan.preparing_bytes) == (0, ALIGNMENT)  # no nest reads p


def test_what_only_preparation_reads_lies_behind_what_calls_read() -> None:
    first, kept, last = (buffer(name, size, Scope.PREPARED) for name, size in (("a", 3000), ("b", 40), ("c", 500)))
    prepare = block(store(first, (I,), ZERO), store(last, (I,), read(first, I)), store(kept, (I,), read(last, I)))
    made = program((Z,), store(Z, (0,), read(kept, 0)), globals=(first, kept, last))
    plan = plan_memory(replace(made, prepare=(replace(made.nests[0], body=serial(I, 10, prepare)),)), 1)
    assert plan.prepared["b"] == 0 and plan.prepared_bytes == 192
    assert min(plan.prepared["a"], plan.prepared["c"]) >= plan.prepared_bytes
    assert plan.prepared_bytes + plan.preparing_bytes >= plan.prepared["c"] + last.bytes


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
    assert plan.scratch_bytes == 2 * ALIGNMENT
    assert plan.workspace_bytes == (threads - 1) * plan.private_bytes + plan.scratch_bytes


@pytest.mark.parametrize("elements", [16, 20_000, 4_000_000])
def test_scratch_memory_of_two_threads_lies_apart(elements: int) -> None:
    """A core asks for rows that follow those it walks over; another core writes none of them."""
    part = buffer("a", elements, Scope.SCRATCH)
    plan = plan_memory(program((Z,), parallel(I, 4, Allocate(part, store(Z, (I,), ZERO)))), 3)
    between = plan.private_bytes - part.bytes
    assert min(2 * part.bytes, 512 << 10) <= between <= min(2 * part.bytes, 512 << 10) + 2 * PAGE
    assert plan.workspace_bytes >= 2 * plan.private_bytes + part.bytes


def test_placing_one_buffer() -> None:
    start, used = place_scratch(70, buffer("x", 3, Scope.SCRATCH))
    assert (start, used) == (128, 140)
