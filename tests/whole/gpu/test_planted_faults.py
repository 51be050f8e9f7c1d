"""What is planted in correct kernels is found: missing barriers and waits, short copies, wrong swizzles, bounds off by one.

Each fault is planted at every place where it can be, one at a time; the emulator must report it or the oracle disagree.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import pytest

from helpers.gpu.candidates import EMULATOR, body_of, fault
from tilesmith.codegen import pipeline
from tilesmith.codegen.backends.gpu import assemble_kernels
from tilesmith.codegen.emulator.kernels import compile_emulated
from tilesmith.codegen.ir.loop_ir import (
    Allocate,
    Barrier,
    Block,
    For,
    If,
    Let,
    LoopProgram,
    Statement,
    Store,
    Wait,
    statements,
)
from tilesmith.codegen.passes.run import run_passes
from tilesmith.codegen.pipeline import build, loop_program
from tilesmith.common.errors import KernelFault
from tilesmith.common.settings import VERIFY
from tilesmith.schedules.auto import derive
from tilesmith.schedules.sketch import Sketch
from tilesmith.schedules.space import ConfigValue
from tilesmith.targets.target import Target, parse_target
from tilesmith.tensor import ops
from tilesmith.tensor.dtype import boolean, i64
from tilesmith.tensor.expr import Const, Op
from tilesmith.tensor.program import Program

Change = Callable[[Statement], Statement]
TILE: dict[str, ConfigValue] = {
    "group": 1, "warps_rows": 2, "warps_columns": 2, "lanes_rows": 4, "lanes_columns": 8, "rows": 2, "vectors": 1, "vector": 2,
    "steps": 1, "terms": 4,
}  # fmt: skip


def matmul(stages: int, staged: int = 0, target: Target = EMULATOR) -> tuple[Program, Sketch, dict[str, ConfigValue]]:
    """A product in tiles of 16 by 32, some steps of depth each."""
    body = body_of(ops.matmul(32, 32, 16))
    sketch = derive(body, target)[1]
    own = {f"t0.{name}": value for name, value in TILE.items()} | {"t0.stages": stages, "t0.staged": staged}
    copies: dict[str, ConfigValue] = {"copy0.swizzle": 2, "copy0.vector": 4, "copy1.swizzle": 1, "copy1.vector": 4}
    return body, sketch, own | copies


def softmax(target: Target = EMULATOR) -> tuple[Program, Sketch, dict[str, ConfigValue]]:
    """A block a row, whose exponentials are in shared memory."""
    body = body_of(ops.softmax(2, 300))
    sketch = next(s for s in derive(body, target) if "shared" in s.title)
    return body, sketch, {"t3.threads": 64, "t3.vector": 4, "t3.items": 1}


def transpose(target: Target = EMULATOR) -> tuple[Program, Sketch, dict[str, ConfigValue]]:
    """Tiles through shared memory."""
    body = body_of(ops.transpose(64, 64))
    return body, derive(body, target)[1], {"t0.vector": 4, "t0.columns": 32, "t0.rows": 8, "copy0.swizzle": 3}


def points(size: int = 203) -> tuple[Program, Sketch, dict[str, ConfigValue]]:
    """Blocks of 32 threads with two points each."""
    body = body_of(ops.add(size))
    return body, derive(body, EMULATOR)[1], {"t0.vector": 1, "t0.threads": 32, "t0.items": 2}


# ---- planting ----------------------------------------------------------------------------------------------------------


def changed(node: Statement, change: Change) -> Statement:
    """A statement with `change` done to every one inside of it, from the inside out."""
    match node:
        case Block(body=body):
            node = Block(tuple(changed(child, change) for child in body))
        case For(body=inner) | Let(body=inner) | Allocate(body=inner):
            node = replace(node, body=changed(inner, change))
        case If(then=then, otherwise=otherwise):
            other = None if otherwise is None else changed(otherwise, change)
            node = replace(node, then=changed(then, change), otherwise=other)
    return change(node)


def planted(program: LoopProgram, kind: type[Statement], place: int, put: Change) -> LoopProgram:
    """The program with the statement number `place` of a kind changed."""
    counted = iter(range(10_000))

    def change(node: Statement) -> Statement:
        return put(node) if isinstance(node, kind) and next(counted) == place else node

    return replace(program, nests=tuple(replace(nest, body=changed(nest.body, change)) for nest in program.nests))


def passed(case: tuple[Program, Sketch, dict[str, ConfigValue]], target: Target = EMULATOR) -> LoopProgram:
    """The loop IR of a candidate after its passes."""
    return run_passes(loop_program(*case, target), pipeline.EMULATOR.nest)


def found(
    monkeypatch: pytest.MonkeyPatch,
    case: tuple[Program, Sketch, dict[str, ConfigValue]],
    program: LoopProgram,
    target: Target = EMULATOR,
) -> str:
    """What is found wrong when a candidate's loop IR, after its passes, is this."""
    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "EMULATOR", replace(pipeline.EMULATOR, nest=(lambda _: program,)))
        artifact = build(case[0], case[1], case[2], target, 1)
    return verdict(case[0], artifact)


def verdict(body: Program, artifact: object) -> str:
    """What is found wrong with an artifact."""
    try:
        return fault(body, artifact)  # type: ignore[arg-type]
    except KernelFault as error:
        return str(error)


def count(program: LoopProgram, kind: type[Statement]) -> int:
    """How many statements of a kind there are."""
    return sum(isinstance(node, kind) for nest in program.nests for node in statements(nest.body))


CASES = {
    "matmul": matmul(1), "pipeline": matmul(3), "softmax": softmax(), "transpose": transpose(), "points": points(),
    "through registers": matmul(2, staged=1),
}  # fmt: skip
WIDE = parse_target("amdgpu:emulator")  # warps of 64 lanes, no asynchronous copies
WIDE_CASES = {
    "wide matmul": matmul(1, target=WIDE), "wide pipeline": matmul(3, target=WIDE), "wide softmax": softmax(WIDE),
    "wide transpose": transpose(WIDE),
}  # fmt: skip
ALL = {name: (case, EMULATOR) for name, case in CASES.items()} | {
    name: (case, WIDE) for name, case in WIDE_CASES.items()
}


@pytest.mark.parametrize("name", sorted(ALL))
def test_without_a_fault_there_is_none(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case, target = ALL[name]
    assert found(monkeypatch, case, passed(case, target), target) == ""


@pytest.mark.parametrize("name", sorted({*ALL} - {"points"}))
def test_each_barrier_is_missed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case, target = ALL[name]
    whole = passed(case, target)
    assert count(whole, Barrier) > 0
    for place in range(count(whole, Barrier)):
        without = planted(whole, Barrier, place, lambda _: Block(()))
        assert found(monkeypatch, case, without, target), f"barrier {place}"


def test_each_wait_is_missed_and_so_is_one_that_waits_for_too_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VERIFY.name, "0")  # which would find it before it runs
    case = CASES["pipeline"]
    whole = passed(case)
    assert count(whole, Wait) > 0
    for place in range(count(whole, Wait)):
        assert found(monkeypatch, case, planted(whole, Wait, place, lambda _: Block(())))
        assert found(monkeypatch, case, planted(whole, Wait, place, lambda w: replace(w, groups=w.groups + 1)))  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["matmul", "through registers", "transpose"])
def test_each_copy_that_is_too_short_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[name]
    whole = passed(case)
    copies = [n for n, node in enumerate(_of_kind(whole, Store)) if node.buffer.startswith("copy")]  # type: ignore[attr-defined]
    assert copies
    for place in copies:
        assert found(monkeypatch, case, planted(whole, Store, place, _but_for_the_first)), f"store {place}"


def _but_for_the_first(node: Statement) -> Statement:
    """A store that leaves the first element of the buffer out."""
    assert isinstance(node, Store)
    somewhere = [index for index in node.indices if not isinstance(index, Const)]
    return If(Op("gt", (somewhere[0], Const(0, i64)), boolean), node)


def _of_kind(program: LoopProgram, kind: type[Statement]) -> Iterator[Statement]:
    """The statements of a kind in the order in which `planted` counts them."""
    order: list[Statement] = []

    def note(node: Statement) -> Statement:
        if isinstance(node, kind):
            order.append(node)
        return node

    for nest in program.nests:
        changed(nest.body, note)
    return iter(order)


# ---- planting in LLVM IR -----------------------------------------------------------------------------------------------


def in_text(
    monkeypatch: pytest.MonkeyPatch, case: tuple[Program, Sketch, dict[str, ConfigValue]], pattern: str, instead: str
) -> list[str]:
    """What is found wrong for each place of a pattern in the LLVM IR, replaced one at a time."""
    text = build(case[0], case[1], case[2], EMULATOR, 1, texts=True).texts["llvm"]
    results = []
    for place in re.finditer(pattern, text):
        other = text[: place.start()] + place.expand(instead) + text[place.end() :]
        code = partial(assemble_kernels, emulate=lambda _, *given, other=other: compile_emulated(other, *given))
        with monkeypatch.context() as patch:
            patch.setattr(pipeline, "EMULATOR", replace(pipeline.EMULATOR, code=code))
            artifact = build(case[0], case[1], case[2], EMULATOR, 1)
        results.append(verdict(case[0], artifact))
    return results


@pytest.mark.parametrize("name", ["matmul", "transpose"])
def test_each_wrong_swizzle_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right, wrong = r"(%\S+) = xor i32 (%\S+), (%\S+)", r"\1.right = xor i32 \2, \3\n  \1 = xor i32 \1.right, 4"
    results = in_text(monkeypatch, CASES[name], right, wrong)
    assert len(results) >= 2
    assert all(results)


def test_each_bound_that_is_off_by_one_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the last block ends among the first items of its threads, and where it ends among the second ones."""
    results = [in_text(monkeypatch, points(size), r"icmp slt i32", "icmp sle i32") for size in (203, 235)]
    assert len(results[0]) >= 2
    assert all(any(found) for found in zip(*results, strict=True))
