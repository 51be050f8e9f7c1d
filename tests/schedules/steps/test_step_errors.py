"""What a schedule must not do: one clear error each, which says what was expected and marks the place."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tilesmith.common.errors import ScheduleError, TemplateError
from tilesmith.schedules.schedule import Schedule, trace
from tilesmith.tensor.text.canonical import canonical
from tilesmith.tensor.text.parse import parse

PROGRAM = canonical(
    parse("""
    input A: f32[30, 20]
    input B: f32[20, 50]
    C[i: 30, j: 50] = sum[k: 20](A[i, k] * B[k, j])
    D[i: 30, j: 50] = C[i, j] + 1
    E[i: 30, j: 50] = max(D[i, j], C[i, j])
    return E
    """)
)
Template = Callable[[Schedule], object]
CASES: dict[str, tuple[Template, str, str, str]] = {}  # template, problem, expected, the marked line


def case(problem: str, expected: str, marked: str) -> Callable[[Template], Template]:
    def add(template: Template) -> Template:
        CASES[template.__name__] = (template, problem, expected, marked)
        return template

    return add


@case("an axis is split once", "all factors of an axis in one split", "for t2.a0.p1: 4")
def split_twice(s: Schedule) -> None:
    _, i1 = s.split(s.stage("t2").loops[0], 4)
    s.split(i1, 2)


@case("no way to split", "one or more factors, each at least 1", "for t2.a0:")
def split_by_nothing(s: Schedule) -> None:
    s.split(s.stage("t2").loops[0])


@case("no way to split", "one or more factors, each at least 1", "for t2.a0:")
def split_by_zero(s: Schedule) -> None:
    s.split(s.stage("t2").loops[0], 2, 0)


@case("the loop is unroll already", "a plain loop", "unroll t2.a0:")
def split_after_unroll(s: Schedule) -> None:
    s.unroll(s.stage("t2").loops[0])
    s.split(s.stage("t2").loops[0], 2)


@case("reorder names a loop twice", "each loop once", "for t2.a0:")
def reorder_twice(s: Schedule) -> None:
    i, _ = s.stage("t2").loops
    s.reorder(i, i)


@case("the pieces of an axis keep their order", "t2.a0.p0 outside of t2.a0.p1", "for t2.a0.p0:")
def reorder_pieces(s: Schedule) -> None:
    i0, i1 = s.split(s.stage("t2").loops[0], 4)
    s.reorder(i1, i0)


@case("t1.a0 is no loop of t2", "loops of one stage: t2.a0, t2.a1", "for t1.a0:")
def reorder_two_stages(s: Schedule) -> None:
    s.reorder(s.stage("t2").loops[0], s.stage("t1").loops[0])


@case("t2 has stages attached", "split and reorder before anything is attached", "for t2.a1:")
def split_too_late(s: Schedule) -> None:
    i, j = s.stage("t2").loops
    s.compute_at("t1", i)
    s.split(j, 4)


@case("the loop is parallel already", "a plain loop to make unroll", "parallel t2.a0:")
def marked_twice(s: Schedule) -> None:
    i, _ = s.stage("t2").loops
    s.parallel(i)
    s.unroll(i)


@case("an outer piece of an axis cannot be vectorized", "the innermost piece of its axis", "vector t2.a1.p0:")
def vector_outside(s: Schedule) -> None:
    s.vectorize(s.split(s.stage("t2").loops[1], 4)[0])


@case("a second loop is vectorized", "one vector loop a stage", "vector t2.a0:")
def two_vectors(s: Schedule) -> None:
    i, j = s.stage("t2").loops
    s.vectorize(j)
    s.vectorize(i)


@case("a reduction loop carries a value", "a loop of a spatial axis", "parallel t0.a2:")
def parallel_reduction(s: Schedule) -> None:
    s.parallel(s.stage("t0").loops[2])


@case("a reduction loop carries a value", "a loop of a spatial axis", "block.0 t0.a2:")
def bound_reduction(s: Schedule) -> None:
    s.bind("block", 0, s.stage("t0").loops[2])


@case("a loop inside of others cannot be parallel", "the outermost loops", "parallel t2.a1:")
def parallel_inside(s: Schedule) -> None:
    s.parallel(s.stage("t2").loops[1])


@case("a loop inside of others cannot be parallel", "a stage at the root", "parallel t1.a0:")
def parallel_attached(s: Schedule) -> None:
    made = s.compute_at("t1", s.stage("t2").loops[0])
    s.parallel(made.loops[0])


@case("cannot bind to core 0", "block, warp or thread, and the dimension 0, 1 or 2", "for t2.a0:")
def bind_level(s: Schedule) -> None:
    s.bind("core", 0, s.stage("t2").loops[0])


@case("cannot bind to block 3", "the dimension 0, 1 or 2", "for t2.a0:")
def bind_dimension(s: Schedule) -> None:
    s.bind("block", 3, s.stage("t2").loops[0])


@case("there is no stage 't9'", "one of t0, t1, t2", "for t2.a0:")
def unknown_stage(s: Schedule) -> None:
    s.compute_at("t9", s.stage("t2").loops[0])


@case("t1 has been scheduled or attached already", "a stage that has its first loops", "t1: pointwise")
def attached_twice(s: Schedule) -> None:
    i, j = s.stage("t2").loops
    s.compute_at("t1", i)
    s.compute_at("t1", j)


@case("t1 has been scheduled or attached already", "a stage that has its first loops", "t1: pointwise")
def attached_after_split(s: Schedule) -> None:
    s.split(s.stage("t1").loops[0], 4)
    s.compute_at("t1", s.stage("t2").loops[0])


@case("t1 has been scheduled or attached already", "a stage that has its first loops", "t1: pointwise")
def attached_with_others_inside(s: Schedule) -> None:
    made = s.copy("t0", "t1")
    s.compute_at(made.name, s.stage("t1").loops[0])
    s.compute_at("t1", s.stage("t2").loops[0])


@case("a stage cannot run inside of its own loop", "a loop of what reads it", "for t1.a0:")
def attached_to_itself(s: Schedule) -> None:
    s.compute_at("t1", s.stage("t1").loops[0])


@case("nothing runs inside a register tile", "outside of all unrolled and vectorized ones", "unroll t2.a0:")
def attached_in_a_tile(s: Schedule) -> None:
    i, j = s.stage("t2").loops
    s.unroll(i)
    s.compute_at("t1", j)


@case("nothing runs inside a register tile", "outside of all unrolled and vectorized ones", "unroll t2.a0:")
def a_tile_around_what_is_attached(s: Schedule) -> None:
    i, j = s.stage("t2").loops
    s.compute_at("t1", j)
    s.unroll(i)


@case("t1 cannot be kept from trip to trip", "a stage that was attached just now", "t1: pointwise")
def kept_at_the_root(s: Schedule) -> None:
    s.store_at("t1", s.stage("t2").loops[0])


@case("t1 cannot be kept from trip to trip", "a stage that was attached just now", "t1: pointwise, kept in t2.a1")
def kept_twice(s: Schedule) -> None:
    i, j = s.stage("t2").loops
    s.reorder(j, i)
    s.compute_at("t1", i)
    s.store_at("t1", j)
    s.store_at("t1", j)


@case("t1 cannot be kept in t2.a1", "the loop right outside of t2.a0", "for t2.a1:")
def kept_inside(s: Schedule) -> None:
    i, j = s.stage("t2").loops
    s.compute_at("t1", i)
    s.store_at("t1", j)


@case("what t2.a1 needs of t1 does not slide", "a stage whose rows the loop moves", "for t2.a1:")
def kept_along_memory(s: Schedule) -> None:
    i, j = s.stage("t2").loops
    s.compute_at("t1", j)
    s.store_at("t1", i)


@case("t1 is kept from trip to trip of t2.a0", "a loop that runs its trips in order", "parallel t2.a0:")
def kept_in_parallel(s: Schedule) -> None:
    i, j = s.stage("t2").loops
    s.reorder(j, i)
    s.compute_at("t1", i)
    s.store_at("t1", j)
    s.parallel(j, i)


@case("t2 cannot be attached: nothing reads it", "a stage that others read", "t2: pointwise")
def attached_output(s: Schedule) -> None:
    s.compute_at("t2", s.stage("t1").loops[0])


@case("t0 cannot be attached inside of t2.a0: t1 reads it too", "everything runs that reads t0", "t0: sum")
def a_reader_elsewhere(s: Schedule) -> None:
    s.compute_at("t0", s.stage("t2").loops[0])


@case("t2 cannot be inlined", "a pointwise stage of one tensor", "t2: pointwise")
def inlined_output(s: Schedule) -> None:
    s.inline("t2")


@case("t0 cannot be inlined", "a pointwise stage of one tensor", "t0: sum")
def inlined_reduction(s: Schedule) -> None:
    s.inline("t0")


@case("stages are attached to t1", "inline before anything is attached", "t1: pointwise")
def inlined_with_others_inside(s: Schedule) -> None:
    made = s.copy("t0", "t1")
    s.compute_at(made.name, s.stage("t1").loops[0])
    s.inline("t1")


@case("t0 is attached already, and who reads it would change", "copy before t0 is attached", "t0: sum")
def copied_too_late(s: Schedule) -> None:
    i, _ = s.stage("t2").loops
    s.compute_at("t1", i)
    s.compute_at("t0", i)
    s.copy("t0", "t1")


@case("t1 does not read x0", "one of t0", "t1: pointwise")
def copied_for_nobody(s: Schedule) -> None:
    s.copy("x0", "t1")


@case("t1 does not read x9", "one of t0", "t1: pointwise")
def copied_unknown(s: Schedule) -> None:
    s.copy("x9", "t1")


@case("nothing can be copied to 'l2'", "register, stack, scratch, shared, tile", "t0: sum")
def copied_nowhere(s: Schedule) -> None:
    s.copy("x0", "t0", "l2")


@case("t0 does not use t1", "one of x0, x1, t0", "for t0.a2:")
def prefetched(s: Schedule) -> None:
    s.prefetch("t1", s.stage("t0").loops[2], 1)


@case("t0 does not run inside of t1.a0", "one of t0.a0, t0.a1, t0.a2", "for t1.a0:")
def brought(s: Schedule) -> None:
    s.bring("t0", "x1", s.stage("t1").loops[0])


@case("t1 is no copy", "a copy, whose layout is free", "t1: pointwise")
def padded(s: Schedule) -> None:
    s.pad_layout("t1", 4)


@case("t0 is no copy", "a copy, whose layout is free", "t0: sum")
def swizzled(s: Schedule) -> None:
    s.swizzle("t0", 3)


@pytest.mark.parametrize("name", CASES)
def test_error(name: str) -> None:
    template, problem, expected, marked = CASES[name]
    schedule = Schedule(PROGRAM)
    with pytest.raises(ScheduleError) as caught:
        template(schedule)
    _check(caught.value, problem, expected, marked)


@pytest.mark.parametrize("name", CASES)
def test_error_of_a_template(name: str) -> None:
    template, problem, expected, marked = CASES[name]
    with pytest.raises(TemplateError, match=f"template '{name}' failed: ") as caught:
        trace(lambda s: template(s) and None, PROGRAM, name)
    _check(caught.value, problem, expected, marked)


def _check(error: ScheduleError | TemplateError, problem: str, expected: str, marked: str) -> None:
    assert problem in error.problem
    assert expected in error.expected
    lines = [line.strip() for line in error.where.splitlines() if "<-- here" in line]
    assert len(lines) == bool(marked)
    assert not marked or lines[0].startswith(marked)
    assert error.where in str(error)
    assert error.expected


def test_outputs_are_attached_where_their_tiles_are_disjoint() -> None:
    program = canonical(
        parse("""
        input x: f32[9, 8]
        a[i: 9, j: 8] = x[i, j] * 2
        b[j: 8, i: 9] = a[i, j] + 1
        return a, b
        """)
    )
    schedule = Schedule(program)
    j, i = schedule.stage("t1").loops
    i0, i1 = schedule.split(i, 4)
    schedule.reorder(i0, j, i1)
    schedule.compute_at("t0", j)
    assert schedule.tree.by_stage["t0"].at == ("t1", "t1.a0")


@pytest.mark.parametrize(
    "reader",
    [
        "b[i: 8, j: 8] = a[i, j] + a[i + 1, j]",  # tiles overlap
        "b[i: 8, j: 8] = a[i, j]",  # the last row is read by nobody
        "b[i: 9, k: 3] = a[i, 2 * k]",  # some columns are read by nobody
        "b[k: 3, i: 9, j: 8] = a[i, j] * 2",  # every tile is made three times
        "b[i: 9, j: 8] = a[8 - i, j]",  # the whole tensor is made in each trip
    ],
)
def test_outputs_are_not_attached_elsewhere(reader: str) -> None:
    program = canonical(parse(f"input x: f32[9, 8]\na[i: 9, j: 8] = x[i, j]\n{reader}\nreturn a, b"))
    schedule = Schedule(program)
    with pytest.raises(
        ScheduleError, match=r"t0 is an output, and its tiles at .* overlap or leave points out"
    ) as caught:
        schedule.compute_at("t0", schedule.stage("t1").loops[-1])
    assert "<-- here" in caught.value.where
    assert "axes that it follows point by point" in caught.value.expected


def test_a_failed_step_leaves_no_trace() -> None:
    schedule = Schedule(PROGRAM)
    before = schedule.tree
    for template, *_ in (CASES["parallel_reduction"], CASES["inlined_output"], CASES["copied_for_nobody"]):
        with pytest.raises(ScheduleError):
            template(schedule)
    assert schedule.tree is before
    assert schedule.sketch("empty").steps == ()


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        (lambda s: s.rewrite("split_q", stage="t0"), "unknown rewrite 'split_q'"),
        (lambda s: s.rewrite("split_k", stage="t0"), "split_k: missing a required argument"),
        (lambda s: s.rewrite("split_k", stage="t0", axis="a0", parts=2), "cannot be split over parts"),
        (lambda s: s.rewrite("split_k", stage="t0", axis="a2", parts=s.flag("f")), "comes too late"),
        (lambda s: s.rewrite("split_k", stage="t0", axis="a2", parts=2.5), "2.5 cannot be an argument"),
        (lambda s: (s.inline("t1"), s.rewrite("normalise")), "the rewrite normalise comes too late"),
    ],
)
def test_rewrites(template: Template, problem: str) -> None:
    with pytest.raises(TemplateError) as caught:
        trace(lambda s: template(s) and None, PROGRAM, "rewriting")
    assert problem in caught.value.problem
    assert caught.value.where
    assert caught.value.expected
