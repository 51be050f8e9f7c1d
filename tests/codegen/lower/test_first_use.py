"""What runs on first use: each bit of an attached stage right before the trip that is the first to read it, and only then."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from helpers.emission.loops import HOST
from helpers.lowering.derived import assert_runs, body_of
from helpers.lowering.truth import check_case
from tilesmith.codegen.ir.index import number
from tilesmith.codegen.ir.loop_ir import If, statements
from tilesmith.codegen.lower import nest
from tilesmith.codegen.pipeline import loop_ir
from tilesmith.common.errors import InternalError, ScheduleError, TemplateError
from tilesmith.schedules.regions import points, storage_shape
from tilesmith.schedules.schedule import Schedule, trace
from tilesmith.schedules.sketch import Sketch
from tilesmith.targets.target import parse_target
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.parse import parse

CPU = parse_target("x86:avx512;vector=128")
PRODUCT = body_of(
    parse("""
    input a: f32[13, 21]
    input b: f32[21, 37]
    w[k: 21, j: 37] = b[k, j] * 2 + 1
    c[i: 13, j: 37] = sum[k: 21](a[i, k] * w[k, j])
    return c
    """)
)
WINDOW = body_of(
    parse("""
    input x: f32[11, 30]
    input f: f32[3, 30, 18]
    w[r: 3, k: 30, j: 18] = f[r, k, j] - 1
    c[i: 9, j: 18] = sum[r: 3, k: 30](x[i + r, k] * w[r, k, j])
    return c
    """)
)
OVERLAPPING = body_of(
    parse("""
    input a: f32[9, 16]
    input b: f32[18, 21]
    w[k: 18, j: 21] = b[k, j] + 1
    c[i: 9, j: 21] = sum[r: 3, k: 16](a[i, k] * w[k + r, j])
    return c
    """)
)


def blocks(copied: bool = False, inner: bool = False) -> Callable[[Schedule], None]:
    """Panels of columns, rows inside; words of a panel are made in the loop over the depth (`inner`: of its blocks)."""

    def template(s: Schedule) -> None:
        i, j, *window, k = s.stage("t1").loops
        i0, i1 = s.split(i, s.factor("rows", at_most=16))
        j0, j1 = s.split(j, s.factor("columns", at_most=40))
        k0, k1 = s.split(k, s.factor("depth", at_most=32))
        s.reorder(j0, i0, *window, k0, k1, i1, j1)
        made = s.copy("t0", "t1") if copied else s.stage("t0")
        if copied:
            s.inline("t0")
        made = s.compute_at(made.name, j0)
        if copied:
            *outer, deep, column = made.loops
            s.reorder(column, *outer, deep)
        s.on_first_use(made, k1 if inner else k0)

    return template


def sketch(program: Program, copied: bool = False, inner: bool = False) -> Sketch:
    (found,) = trace(blocks(copied, inner), program)
    return found


CONFIG = {"rows": 4, "columns": 10, "depth": 6}


@pytest.mark.parametrize("program", [PRODUCT, WINDOW, OVERLAPPING], ids=["product", "window", "overlapping"])
@pytest.mark.parametrize("copied", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_what_is_counted_is_what_runs(program: Program, copied: bool, seed: int) -> None:
    assert check_case(program, sketch(program, copied, seed % 2 == 1), CPU, Random(seed), 60_000)


def test_each_point_is_computed_once_for_each_panel() -> None:
    tree = sketch(PRODUCT).apply(PRODUCT, HOST, CONFIG)
    stage = tree.by_stage["t0"]
    assert points(tree, stage) == 21 * 37
    assert storage_shape(tree, stage) == (21, 10), "its storage is that of the whole panel"
    conditions = [s for s in statements(loop_ir(tree, HOST).nests[0].body) if isinstance(s, If)]
    assert len(conditions) == 1, "the first rows alone run it"


def test_what_every_trip_reads_anew_runs_in_each() -> None:
    tree = sketch(PRODUCT).apply(PRODUCT, HOST, CONFIG | {"rows": 13})
    assert_runs(PRODUCT, tree, 3)


@pytest.mark.parametrize("rows", [1, 3, 13])
@pytest.mark.parametrize("columns", [1, 7, 37])
@pytest.mark.parametrize("depth", [1, 5, 21])
def test_blocks_of_all_sizes_run(rows: int, columns: int, depth: int) -> None:
    config = {"rows": rows, "columns": columns, "depth": depth}
    for copied in (False, True):
        assert_runs(PRODUCT, sketch(PRODUCT, copied).apply(PRODUCT, HOST, config), rows + columns)


def _always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nest, "first_trip", lambda *args: None)


def _from_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nest, "minus", lambda a, b: number(0))


@pytest.mark.parametrize(("plant", "copied"), [(_always, False), (_from_the_start, True)])
def test_faults_are_caught(
    plant: Callable[[pytest.MonkeyPatch], None], copied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, InternalError)):
        check_case(PRODUCT, sketch(PRODUCT, copied), CPU, Random(0), 60_000)


@pytest.mark.parametrize(
    "template",
    [
        lambda s: s.on_first_use("t0", s.stage("t1").loops[2]),
        lambda s: s.on_first_use(s.compute_at("t0", s.stage("t1").loops[2]), s.stage("t1").loops[0]),
        lambda s: s.on_first_use(s.compute_at("t0", s.stage("t1").loops[0]), s.stage("t1").loops[0]),
        lambda s: s.on_first_use(s.compute_at("t0", s.stage("t1").loops[0]), s.stage("t0").loops[0]),
    ],
)
def test_refusals(template: Callable[[Schedule], None]) -> None:
    with pytest.raises((ScheduleError, TemplateError), match="cannot run bit by bit"):
        trace(template, PRODUCT)


def test_gpus_refuse_it() -> None:
    with pytest.raises(ScheduleError, match="runs t0 on first use yet"):
        loop_ir(sketch(PRODUCT).apply(PRODUCT, HOST, CONFIG), parse_target("cuda:sm_80"))


def test_loops_that_it_runs_in_stay_in_order() -> None:
    def template(s: Schedule) -> None:
        i, j, k = s.stage("t1").loops
        s.reorder(j, i, k)
        s.on_first_use(s.compute_at("t0", j), k)
        s.parallel(i)

    with pytest.raises((ScheduleError, TemplateError), match="runs on first use inside of"):
        trace(template, PRODUCT)
