"""Each primitive, before and after, on the outline that a person sees."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tilesmith.common.errors import ScheduleError
from tilesmith.schedules.outline import outline
from tilesmith.schedules.schedule import Schedule
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.canonical import canonical
from tilesmith.tensor.text.parse import parse

MATMUL_RELU = canonical(
    parse("""
    input A: f32[30, 20]
    input B: f32[20, 50]
    C[i: 30, j: 50] = sum[k: 20](A[i, k] * B[k, j])
    D[i: 30, j: 50] = max(C[i, j], 0)
    return D
    """)
)
BLUR = canonical(
    parse("""
    input x: f32[40]
    a[i: 40] = x[i] * 2
    b[i: 38] = a[i] + a[i + 1] + a[i + 2]
    return b
    """)
)
MATMUL = """
t0: sum
  for t0.a0: extent(t0.a0)
    for t0.a1: extent(t0.a1)
      for t0.a2: extent(t0.a2)
        t0 += f(x0, x1)
"""
RELU = """
t1: pointwise
  for t1.a0: extent(t1.a0)
    for t1.a1: extent(t1.a1)
      t1 = f(t0)
"""


def outline_after(program: Program, template: Callable[[Schedule], None]) -> str:
    schedule = Schedule(program)
    template(schedule)
    return outline(schedule.tree)


def test_nothing() -> None:
    assert outline_after(MATMUL_RELU, lambda s: None) == (MATMUL + RELU.lstrip("\n")).strip("\n")


def split(s: Schedule) -> None:
    s.split(s.stage("t1").loops[0], s.factor("i.mid"), 4)


def reorder(s: Schedule) -> None:
    i, j = s.stage("t1").loops
    i0, i1 = s.split(i, s.factor("i.tile"))
    s.reorder(j, i0, i1)


def reorder_some(s: Schedule) -> None:
    i, _, k = s.stage("t0").loops
    s.reorder(k, i)


def kinds(s: Schedule) -> None:
    i, j = s.stage("t1").loops
    i0, i1 = s.split(i, 2)
    j0, j1 = s.split(j, s.lanes(s.program.stage("t1").tensors[0].dtype))
    s.reorder(i0, j0, i1, j1)
    s.parallel(i0, j0)
    s.unroll(i1)
    s.vectorize(j1)


def bind(s: Schedule) -> None:
    i, j = s.stage("t1").loops
    i0, i1 = s.split(i, 8)
    s.bind("block", 1, i0)
    s.bind("thread", 0, i1)
    s.bind("warp", 0, j)


STEPS = {
    split: """
t1: pointwise
  for t1.a0.p0: ceildiv(extent(t1.a0), i.mid * 4)
    for t1.a0.p1: i.mid
      for t1.a0.p2: 4
        for t1.a1: extent(t1.a1)
          t1 = f(t0)
""",
    reorder: """
t1: pointwise
  for t1.a1: extent(t1.a1)
    for t1.a0.p0: ceildiv(extent(t1.a0), i.tile)
      for t1.a0.p1: i.tile
        t1 = f(t0)
""",
    kinds: """
t1: pointwise
  parallel t1.a0.p0: ceildiv(extent(t1.a0), 2)
    parallel t1.a1.p0: ceildiv(extent(t1.a1), lanes(f32))
      unroll t1.a0.p1: 2
        vector t1.a1.p1: lanes(f32)
          t1 = f(t0)
""",
    bind: """
t1: pointwise
  block.1 t1.a0.p0: ceildiv(extent(t1.a0), 8)
    thread.0 t1.a0.p1: 8
      warp t1.a1: extent(t1.a1)
        t1 = f(t0)
""",
}


@pytest.mark.parametrize("template", STEPS, ids=lambda template: template.__name__)
def test_loops(template: Callable[[Schedule], None]) -> None:
    assert outline_after(MATMUL_RELU, template) == (MATMUL + STEPS[template].lstrip("\n")).strip("\n")


def test_reorder_leaves_the_loops_between_where_they_are() -> None:
    assert outline_after(MATMUL_RELU, reorder_some).startswith("""t0: sum
  for t0.a2: extent(t0.a2)
    for t0.a1: extent(t0.a1)
      for t0.a0: extent(t0.a0)
""")


def test_compute_at_covers_what_is_read_there() -> None:
    def template(s: Schedule) -> None:
        i, j = s.stage("t1").loops
        i0, i1 = s.split(i, s.factor("i.tile"))
        s.reorder(i0, j, i1)
        s.compute_at("t0", j)

    assert (
        outline_after(MATMUL_RELU, template)
        == """t1: pointwise
  for t1.a0.p0: ceildiv(extent(t1.a0), i.tile)
    for t1.a1: extent(t1.a1)
      t0: sum
        for t0.a0: i.tile
          for t0.a1: 1
            for t0.a2: extent(t0.a2)
              t0 += f(x0, x1)
      for t1.a0.p1: i.tile
        t1 = f(t0)"""
    )


def test_compute_at_covers_a_halo() -> None:
    def template(s: Schedule) -> None:
        i0, _ = s.split(s.stage("t1").loops[0], s.factor("tile"))
        s.compute_at("t0", i0)

    assert (
        outline_after(BLUR, template)
        == """t1: pointwise
  for t1.a0.p0: ceildiv(extent(t1.a0), tile)
    t0: pointwise
      for t0.a0: tile + 2
        t0 = f(x0)
    for t1.a0.p1: tile
      t1 = f(t0)"""
    )


def test_inline() -> None:
    schedule = Schedule(BLUR)
    schedule.inline("t0")
    assert str(schedule.program.stages[0].bodies[0]) == str(
        parse("""
        input x0: f32[40]
        t1[a0: 38] = x0[a0] * 2 + x0[a0 + 1] * 2 + x0[a0 + 2] * 2
        return t1""")
        .stages[0]
        .bodies[0]
    )
    assert (
        outline(schedule.tree)
        == """t1: pointwise
  for t1.a0: extent(t1.a0)
    t1 = f(x0)"""
    )


def test_copy() -> None:
    def template(s: Schedule) -> None:
        i, j, k = s.stage("t0").loops
        k0, k1 = s.split(k, s.factor("k.block"))
        s.reorder(k0, i, j, k1)
        made = s.copy("x1", "t0", "stack")
        assert [loop.extent.args for loop in made.loops] == [("extent(x1.d0)",), ("extent(x1.d1)",)]  # type: ignore[union-attr]
        k, j = s.compute_at(made.name, k0).loops
        s.reorder(j, k)

    assert outline_after(MATMUL_RELU, template).startswith("""t0: sum
  for t0.a2.p0: ceildiv(extent(t0.a2), k.block)
    copy0: copy of x1 in stack
      for copy0.a1: extent(t0.a1)
        for copy0.a0: k.block
          copy0 = f(x1)
    for t0.a0: extent(t0.a0)
      for t0.a1: extent(t0.a1)
        for t0.a2.p1: k.block
          t0 += f(x0, copy0)
""")


def test_copy_of_a_computed_tensor() -> None:
    schedule = Schedule(MATMUL_RELU)
    schedule.copy("t0", "t1")
    assert [stage.stage for stage in schedule.tree.stages] == ["t0", "copy0", "t1"]
    assert [r.tensor for r in schedule.program.stage("t1").reads()] == ["copy0"]


def test_hints() -> None:
    def template(s: Schedule) -> None:
        _, _, k = s.stage("t0").loops
        s.pipeline(k, s.choice("stages", [1, 2, 3], 2))
        s.prefetch("x1", k, 8)
        made = s.copy("x0", "t0").name
        s.pad_layout(made, 4)
        s.swizzle(made, 3)
        s.tensorize("t0", "mma_16x8x8")
        s.streaming("t1", s.flag("stream"))

    lines = outline_after(MATMUL_RELU, template).splitlines()
    assert lines[0] == "copy0: copy of x0, pad_layout 4, swizzle 3"
    assert "t0: sum, pipeline t0.a2 stages, prefetch x1 t0.a2 8, as mma_16x8x8" in lines
    assert "t1: pointwise, streaming stream" in lines


def test_rewrite() -> None:
    schedule = Schedule(MATMUL_RELU)
    program = schedule.rewrite("split_k", stage="t0", axis="a2", parts=4)
    assert schedule.program is program
    assert outline(schedule.tree).startswith("""t0: sum
  for t0.a0: extent(t0.a0)
    for t0.a1: extent(t0.a1)
      for t0.a2: extent(t0.a2)
        for t0.a3: extent(t0.a3)
          t0 += f(x0, x1)
t1: sum
""")


def test_steps_are_shown_behind_the_loops_they_made() -> None:
    schedule = Schedule(MATMUL_RELU)
    kinds(schedule)
    texts = tuple(step.text() for step in schedule.sketch("kinds").steps)
    shown = outline(schedule.tree, steps=texts).splitlines()
    assert "  parallel t1.a0.p0: ceildiv(extent(t1.a0), 2)   # parallel(t1.a0.p0, t1.a1.p0)" in shown
    assert "  for t0.a0: extent(t0.a0)" in shown


def test_useful_factors_become_conditions() -> None:
    schedule = Schedule(MATMUL_RELU)
    schedule.split(schedule.stage("t1").loops[0], schedule.factor("a"), schedule.factor("b"))
    assert [(str(holds), reason) for holds, reason in schedule.tree.conditions] == [
        ("(a - 1) * b < extent(t1.a0)", "t1.a0.p1 has no trips to spare")
    ]


def test_stages_are_named_or_given_as_handles() -> None:
    """The steps that are written down are the same."""

    def by_name(s: Schedule) -> None:
        i = s.stage("t1").loops[0]
        s.compute_at("t0", i)
        s.copy("x0", "t0")
        s.align("t1")
        s.streaming("t1")

    def by_handle(s: Schedule) -> None:
        product, relu = s.stage("t0"), s.stage("t1")
        s.compute_at(product, relu.loops[0])
        s.copy("x0", product)
        s.align(s.stage(relu))
        s.streaming(relu)

    assert outline_after(MATMUL_RELU, by_handle) == outline_after(MATMUL_RELU, by_name)

    def no_loop(s: Schedule) -> None:
        s.compute_at(s.stage("t0"), s.stage("t1"))  # type: ignore[arg-type]

    with pytest.raises(ScheduleError, match="t1"):
        outline_after(MATMUL_RELU, no_loop)
