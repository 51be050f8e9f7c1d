"""Tracing: one sketch for each combination of variants, and one clear error for a template that fails."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tilesmith.common.errors import TemplateError
from tilesmith.schedules.schedule import Schedule, trace
from tilesmith.schedules.tunables import Factor
from tilesmith.tensor.ops import attention, matmul
from tilesmith.tensor.text.canonical import canonical

PROGRAM = canonical(matmul(100, 200, 300))


def test_each_combination_of_variants_is_a_sketch() -> None:
    runs: list[tuple[object, ...]] = []

    def template(s: Schedule) -> None:
        i, j, k = s.stage("t0").loops
        order = s.variant("order", ["ijk", "kij", "jki"])
        packed = s.variant("pack", [True, False]) if order != "ijk" else False
        runs.append((order, packed))
        loops = {"i": i, "j": j, "k": k}
        s.reorder(*(loops[letter] for letter in order))
        if packed:
            s.copy("x1", "t0")

    sketches = trace(template, PROGRAM)
    assert [sketch.variants for sketch in sketches] == [
        (("order", "ijk"),),
        (("order", "kij"), ("pack", True)),
        (("order", "jki"), ("pack", True)),
        (("order", "kij"), ("pack", False)),
        (("order", "jki"), ("pack", False)),
    ]
    assert runs == [("ijk", False), ("kij", True), ("jki", True), ("kij", False), ("jki", False)]
    assert len({sketch.key for sketch in sketches}) == 5


def test_variants_that_make_no_difference_are_one_sketch() -> None:
    def template(s: Schedule) -> None:
        s.variant("nothing", [1, 2, 3])

    assert [sketch.title for sketch in trace(template, PROGRAM)] == ["template(nothing=1)"]


def test_the_domain_of_a_factor_is_that_of_the_loop_it_splits() -> None:
    def template(s: Schedule) -> None:
        i, j, _ = s.stage("t0").loops
        a, b = s.factor("a"), s.factor("b", times=s.lanes(s.program.stage("t0").tensors[0].dtype))
        s.split(j, b)
        i0, _ = s.split(i, a)
        made = s.compute_at(s.copy("x0", "t0").name, i0)
        s.split(made.loops[0], s.factor("c"))
        s.split(made.loops[1], s.factor("d"))

    (sketch,) = trace(template, PROGRAM)
    domains = {t.name: str(t.of) for t in sketch.tunables if isinstance(t, Factor)}
    assert domains == {
        "b": "ceildiv(extent(t0.a1), lanes(f32))",
        "a": "extent(t0.a0)",
        "c": "extent(x0.d0)",  # the loop has `a` points: that is no domain, the dimension is
        "d": "extent(t0.a2)",
    }


def test_handles() -> None:
    schedule = Schedule(canonical(attention(2, 7, 9, 5)))
    scores = schedule.stage("t0")
    assert [loop.name for loop in scores.axes] == ["t0.a0", "t0.a1", "t0.a2"]
    assert [loop.name for loop in scores.reduction] == ["t0.a3"]
    assert scores.loops == (*scores.axes, *scores.reduction)
    schedule.rewrite("online_softmax", stage="t2")
    fold = schedule.stage("t2")
    assert [str(loop.extent) for loop in fold.axes] == ["extent(t2.a0)", "extent(t2.a1)", "extent(t2.a2)"]
    assert [loop.name for loop in fold.loops] == ["t2.a0", "t2.a1", "t2.a3", "t2.a2"]


def raises(s: Schedule) -> None:
    s.split(s.stage("t0").loops[0], 4)
    raise RuntimeError("out of luck")


def undrawn(s: Schedule) -> None:
    s.factor("i.tile")


def unsplit(s: Schedule) -> None:
    s.factor("i.tile")
    s.unroll(s.stage("t0").loops[0])


def twice(s: Schedule) -> None:
    s.flag("a")
    s.choice("a", [1], 1)


def unnamed(s: Schedule) -> None:
    s.flag("not a name")


def no_option(s: Schedule) -> None:
    s.choice("a", [1, 2], 3)


def no_options(s: Schedule) -> None:
    s.variant("order", [])


def variant_name(s: Schedule) -> None:
    s.variant("a = b", [1])


def no_reason(s: Schedule) -> None:
    s.require(s.flag("f") == 1, "")


def truth(s: Schedule) -> None:
    if s.stage("t0").loops[0].extent > 4:
        s.unroll(s.stage("t0").loops[0])


def loop_over_tunable(s: Schedule) -> None:
    for _ in range(s.flag("f")):  # type: ignore[call-overload]
        pass


def domain_of_a_tunable(s: Schedule) -> None:
    a, _ = s.split(s.stage("t0").loops[0], s.factor("a"))
    s.factor("b", a.extent)


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        (raises, "RuntimeError: out of luck"),
        (undrawn, "factor 'i.tile' was drawn, and no loop is split by it"),
        (unsplit, "factor 'i.tile' was drawn, and no loop is split by it"),
        (twice, "two tunables are called 'a'"),
        (unnamed, "'not a name' cannot name a tunable"),
        (no_option, "the default of 'a' is no option"),
        (no_options, "'order' is no variant"),
        (variant_name, "'a = b' is no variant"),
        (no_reason, "require needs a reason"),
        (truth, "the truth of 'extent(t0.a0) > 4' is not known while a template runs"),
        (loop_over_tunable, "the number 'f' is not known while a template runs"),
        (domain_of_a_tunable, "the domain of 'b' depends on a tunable"),
    ],
)
def test_templates_that_fail(template: Callable[[Schedule], None], problem: str) -> None:
    with pytest.raises(TemplateError) as caught:
        trace(template, PROGRAM)
    error = caught.value
    assert error.problem == f"template '{template.__name__}' failed: {problem}"
    assert error.where.startswith("t0: sum")
    assert error.expected or error.advice
    assert error.__cause__ is not None


def test_the_outline_of_a_failed_template_shows_what_it_had_done() -> None:
    with pytest.raises(TemplateError) as caught:
        trace(raises, PROGRAM)
    assert "for t0.a0.p1: 4" in caught.value.where
