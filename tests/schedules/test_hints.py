"""Hints mean one thing to all who read them: said again, with a number that asks for nothing, and in every life of a number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from helpers.gpu.trees import matmul as gpu_matmul
from tilesmith.codegen.ir.loop_ir import LoopProgram, Prefetch, Store, Wait, statements
from tilesmith.codegen.lower.lower import allocated, lower
from tilesmith.common.errors import ScheduleError
from tilesmith.cost_model.cpu.analysis import NestAnalysis, analyse
from tilesmith.cost_model.gpu.launch import launches
from tilesmith.cost_model.gpu.patterns import shared_write
from tilesmith.schedules import hints
from tilesmith.schedules.extents import evaluate, leaf
from tilesmith.schedules.hints import Align, Hint, Hints, PadLayout, Pipeline, PrefetchNext, Streaming, Swizzle
from tilesmith.schedules.hints import PrefetchAhead as Ahead
from tilesmith.schedules.loops import LoopTree
from tilesmith.schedules.outline import outline
from tilesmith.schedules.recording import Recording
from tilesmith.schedules.regions import storage_shape
from tilesmith.schedules.schedule import Schedule, trace
from tilesmith.schedules.sketch import parse_sketch
from tilesmith.targets.target import Target, parse_target
from tilesmith.tensor import ops
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.canonical import canonical

CPU, GPU = parse_target("x86:avx512"), parse_target("cuda:sm_80")
MATMUL, RELU = canonical(ops.matmul(64, 128, 64)), canonical(ops.relu(4096))


def applied(template: Callable[[Schedule], None], program: Program, target: Target) -> LoopTree:
    (sketch,) = trace(template, program)
    return sketch.apply(program, target, {})


def found(loops: LoopProgram, kind: type[Any]) -> list[Any]:
    return [node for nest in loops.nests for node in statements(nest.body) if isinstance(node, kind)]


def nest_of(tree: LoopTree) -> NestAnalysis:
    (nest,) = analyse(tree, CPU, 1).nests
    return nest


# ---- what is said again: code generation and the model agree on the last word ----


def padded(s: Schedule, *numbers: int) -> None:
    made = s.compute_at(s.copy("x0", "t0").name, s.stage("t0").loops[0])
    for number in numbers:
        s.pad_layout(made.name, number)


@pytest.mark.parametrize(("numbers", "last"), [((3,), 3), ((3, 16), 16), ((16, 0), 0)])
def test_a_row_is_padded_by_the_last_number(numbers: tuple[int, ...], last: int) -> None:
    tree = applied(lambda s: padded(s, *numbers), MATMUL, CPU)
    assert allocated(lower(tree, CPU))["copy0"].shape[-1] == 64 + last
    assert storage_shape(tree, tree.by_stage["copy0"])[-1] == 64 + last


def on_gpu(*more: Callable[[Schedule], None], **arguments: int) -> LoopTree:
    def template(s: Schedule) -> None:
        gpu_matmul(**arguments)(s)
        for say in more:
            say(s)

    return applied(template, MATMUL, GPU)


@pytest.mark.parametrize(("first", "second", "last"), [(2, 3, 3), (3, 1, 1), (3, 0, 0)])
def test_lines_are_swizzled_by_the_last_number(first: int, second: int, last: int) -> None:
    def again(s: Schedule) -> None:
        for stage in s.tree.stages:
            if stage.copies:
                s.swizzle(stage.stage, second)

    tree = on_gpu(again, swizzle=first)
    copies = [stage for stage in tree.stages if stage.copies]
    buffers = allocated(lower(tree, GPU))
    assert len(copies) == 2
    for copy in copies:
        assert buffers[copy.stage].swizzle == last
        assert shared_write(tree, copy, (1,) * len(copy.loops)).swizzle == last


def again_pipelined(stages: int, staged: int) -> Callable[[Schedule], None]:
    def say(s: Schedule) -> None:
        (loop,) = (x for x in s.stage("t0").loops if x.name == "t0.a2.p0")
        s.pipeline(loop, stages, staged)

    return say


@pytest.mark.parametrize(("first", "second"), [(3, 2), (2, 3), (3, 1), (1, 3), (3, 0)])
def test_copies_run_ahead_by_the_last_number(first: int, second: int) -> None:
    tree = on_gpu(again_pipelined(second, 0), stages=first)
    assert lower(tree, GPU) == lower(on_gpu(stages=max(second, 1)), GPU)
    (launch,), (alone,) = launches(tree, GPU), launches(on_gpu(stages=max(second, 1)), GPU)
    assert launch.ahead == alone.ahead == max(second, 1)
    assert launch.shared_bytes == alone.shared_bytes


@pytest.mark.parametrize("staged", [0, 1, 2])
def test_through_registers_is_yes_or_no(staged: int) -> None:
    """A second no takes an earlier yes back, and 2 is as good a yes as 1."""
    tree, plain = on_gpu(again_pipelined(2, staged), stages=2, staged=1), on_gpu(stages=2, staged=min(staged, 1))
    assert bool(found(lower(tree, GPU), Wait)) == (staged == 0)
    (launch,), (alone,) = launches(tree, GPU), launches(plain, GPU)
    assert np.array_equal(launch.registers, alone.registers)


def test_registers_hold_nothing_where_no_copy_runs_ahead() -> None:
    (one,), (other,) = launches(on_gpu(stages=1, staged=1), GPU), launches(on_gpu(stages=1), GPU)
    assert np.array_equal(one.registers, other.registers)


@pytest.mark.parametrize(("numbers", "asked"), [((5,), True), ((5, 0), False), ((0, 5), True), ((0,), False)])
def test_the_last_distance_is_prefetched(numbers: tuple[int, ...], asked: bool) -> None:
    def template(s: Schedule) -> None:
        (i,) = s.stage("t0").loops
        i0, i1 = s.split(i, 16)
        s.vectorize(i1)
        for number in numbers:
            s.prefetch("x0", i0, number)

    tree = applied(template, RELU, CPU)
    assert len(found(lower(tree, CPU), Prefetch)) == asked
    assert nest_of(tree).ahead == asked * 5 * 64
    assert nest_of(tree).asks, "a place for them is a matter of structure"


@pytest.mark.parametrize(("numbers", "asked"), [((1,), 1), ((1, 1), 1), ((2,), 1), ((1, 0), 0), ((0, 1), 1)])
def test_an_operand_is_brought_near_once(numbers: tuple[int, ...], asked: int) -> None:
    def template(s: Schedule) -> None:
        i, j, k = s.stage("t0").loops
        i0, i1 = s.split(i, 4)
        j0, j1 = s.split(j, 16)
        k0, k1 = s.split(k, 4)
        s.reorder(j0, i0, k0, k1, i1, j1)
        s.unroll(k1, i1)
        s.vectorize(j1)
        for number in numbers:
            s.bring("t0", "x1", j0, number)

    tree = applied(template, MATMUL, CPU)
    assert len(found(lower(tree, CPU), Prefetch)) == asked
    assert nest_of(tree).near == asked


@pytest.mark.parametrize(("numbers", "asked"), [((1,), 1), ((2,), 1), ((1, 0), 0), ((0, 1), 1)])
def test_stores_are_streamed_by_the_last_word(numbers: tuple[int, ...], asked: int) -> None:
    def template(s: Schedule) -> None:
        for number in numbers:
            s.streaming("t0", number)

    tree = applied(template, RELU, CPU)
    assert [store.streaming for store in found(lower(tree, CPU), Store)] == [bool(asked)]
    assert nest_of(tree).traffic.streamed["t0"] == asked


# ---- numbers that make no sense ----


@pytest.mark.parametrize(
    "step",
    [
        "pad_layout(copy0, -8)", "swizzle(copy0, -1)", "swizzle(copy0, 4)", "prefetch(x1, t0.a0, -1)", "streaming(t0, -1)",
        "align(t0, -1)", "bring(t0, x1, t0.a1, -1)", "pipeline(t0.a0, -1)", "pipeline(t0.a0, 2, -1)",
    ],
)  # fmt: skip
def test_numbers_that_make_no_sense_are_refused(step: str) -> None:
    """A row with room for less than its elements would be written beyond its end, as would a line swizzled by 4 bits."""
    text = f"sketch record\nstep copy(copy0, x0, t0)\nstep compute_at(copy0, t0.a0)\nstep {step}\n"
    with pytest.raises(ScheduleError, match=r"has no meaning for (-1|-8|4)\n") as caught:
        parse_sketch(text).apply(MATMUL, CPU, {})
    assert caught.value.where.count("<-- here") == 1 and caught.value.expected


def test_a_tunable_that_makes_no_sense_is_refused_when_it_is_applied() -> None:
    text = "sketch record\nchoice p of [-8, 0] default=0\nstep copy(copy0, x0, t0)\nstep compute_at(copy0, t0.a0)\n"
    sketch = parse_sketch(text + "step pad_layout(copy0, p)\n")
    assert sketch.apply(MATMUL, CPU, {"p": 0})
    with pytest.raises(ScheduleError, match="pad_layout has no meaning for -8"):
        sketch.apply(MATMUL, CPU, {"p": -8})


# ---- every kind, in every life ----

KINDS: dict[type[Hint], Callable[[Any], Hint]] = {
    Streaming: Streaming, Align: Align, Ahead: lambda n: Ahead("x", "t.i", n), PadLayout: PadLayout, Swizzle: Swizzle,
    PrefetchNext: lambda n: PrefetchNext("x", "t.i", n), Pipeline: lambda n: Pipeline("t.i", n, n),
}  # fmt: skip


def test_no_kind_is_left_out() -> None:
    kinds = [kind for kind in vars(hints).values() if isinstance(kind, type) and issubclass(kind, Hint)]
    assert {*KINDS, Hint} == set(kinds)
    assert all(kind.__doc__ and f"{kind.__name__}(" in str(hints.__doc__) for kind in KINDS)
    assert len({kind.WORD for kind in KINDS}) == len(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_asked_is_the_same_in_every_life(kind: type[Hint]) -> None:
    values = np.array([0, 1, 2, 3])
    wanted = [int(n > (kind is Pipeline)) for n in values]
    open_hint = KINDS[kind](leaf("n"))
    recording = Recording({"n": tuple(values)})
    recorded = open_hint.changed(lambda extent: evaluate(extent, recording.columns()))
    (played,) = recording.player([recorded.asked]).play(np.arange(4, dtype=np.int32)[:, None])
    assert [KINDS[kind](int(n)).asked for n in values] == wanted
    assert list(open_hint.changed(lambda extent: evaluate(extent, {"n": values})).asked) == wanted
    assert [evaluate(open_hint.asked, {"n": int(n)}) for n in values] == wanted
    assert list(played) == wanted


@pytest.mark.parametrize("kind", KINDS)
def test_said_again_about_the_same_takes_its_place(kind: type[Hint]) -> None:
    both = Hints().saying(KINDS[kind](1)).saying(Streaming(0) if kind is Align else Align(1)).saying(KINDS[kind](2))
    assert both.of(kind) == (KINDS[kind](2),)
    assert len(both.said) == 2


def test_other_loops_and_tensors_are_told_apart() -> None:
    both = Hints().saying(Ahead("x", "t.i", 1)).saying(Ahead("y", "t.i", 2)).saying(Ahead("x", "t.j", 3))
    assert len(both.of(Ahead)) == 3
    loops = Hints().saying(Pipeline("t.i", 3)).saying(Pipeline("t.j", 2, 1))
    assert [loops.pipeline(name).depth for name in ("t.i", "t.j", "t.k")] == [3, 2, 1]
    assert [loops.pipeline(name).in_registers for name in ("t.i", "t.j", "t.k")] == [0, 1, 0]


def test_streamed_rows_are_aligned() -> None:
    assert [Hints((Streaming(a), Align(b))).aligns for a in (0, 1) for b in (0, 1)] == [0, 1, 1, 1]
    assert Hints((Streaming(1),)).aligns == 1 and Hints().aligns == 0


def test_the_outline_shows_what_holds() -> None:
    def template(s: Schedule) -> None:
        _, j, k = s.stage("t0").loops
        s.prefetch("x0", k, 2)
        s.pipeline(k, 2, s.flag("held"))
        s.prefetch("x0", k, 4)
        s.align("t0")
        s.bring("t0", "x1", j)

    (sketch,) = trace(template, MATMUL)
    shown = "t0: sum, pipeline t0.a2 2, staged t0.a2 {}, prefetch x0 t0.a2 4, aligned 1, bring x1 t0.a1 1"
    opened = sketch.opened(MATMUL, CPU)
    assert outline(opened.tree).splitlines()[0] == shown.format("held")
    assert outline(opened.at({"held": 1})).splitlines()[0] == shown.format(1)
    assert outline(opened.at({"held": 0})).splitlines()[0] == shown.replace(", staged t0.a2 {}", "")
    assert outline(sketch.apply(MATMUL, CPU, {"held": 0})) == outline(opened.at({"held": 0}))
