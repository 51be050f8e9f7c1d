"""Footprints, traffic and instruction counts against numbers worked out by hand; features of any program are sound."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.modelling.programs import (
    CONVOLUTION,
    SOFTMAX,
    STRIDED,
    TARGET,
    drawn,
    elementwise,
    matmul,
    program,
    register_tile,
    sketch,
    task,
)
from tilesmith.cost_model.cpu.analysis import Analysis, analyse
from tilesmith.cost_model.features import FEATURE_NAMES, features
from tilesmith.cost_model.footprint import Access, span_of
from tilesmith.cost_model.levels import levels
from tilesmith.schedules.schedule import Schedule, trace
from tilesmith.schedules.sketch import Sketch
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor.expr import Expr
from tilesmith.tensor.text.canonical import canonical
from tilesmith.tensor.text.parse import parse

PROGRAMS = {
    "matmul": matmul(60, 70, 50),
    "long_matmul": matmul(8, 300, 1000),
    "elementwise": elementwise(5000),
    "softmax": SOFTMAX,
    "convolution": CONVOLUTION,
    "strided": STRIDED,
}


def index(text: str) -> Expr:
    """An index expression over i (64) and j (50)."""
    made = parse(f"input x: f32[100000]\ny[i: 64, j: 50] = x[{text}]\nreturn y")
    (read,) = made.stages[0].reads()
    return read.indices[0]


@pytest.mark.parametrize(
    ("text", "sizes", "count"),
    [
        ("i", {"i": 8.0}, 8),
        ("2 * i + j", {"i": 8.0, "j": 3.0}, 2 * 7 + 2 + 1),
        ("5000 - 3 * i", {"i": 4.0}, 10),
        ("i // 4", {"i": 8.0}, 2),  # pieces of an axis begin at multiples of their size
        ("i // 4", {"i": 2.0}, 1),
        ("i // 4", {"i": 6.0}, 3),  # at most: six values may begin anywhere
        ("(i + j) // 4", {"i": 8.0, "j": 1.0}, 3),
        ("i % 4", {"i": 8.0}, 4),
        ("i % 4", {"i": 2.0}, 2),
        ("7", {}, 1),
    ],
)
def test_span_of_an_index(text: str, sizes: dict[str, float], count: int) -> None:
    assert span_of(index(text), 100000).of(sizes) == count


def access(rows: int, columns: int, dense: bool = False) -> Access:
    return Access("x", (), (rows, columns), frozenset(), 4, written=False, dense=dense, strides=(columns * 4,))


def test_lines_of_a_box_depend_on_its_runs() -> None:
    square = access(1024, 1024)
    assert square.moved([8.0, 1.0], 64) == 8 * 64  # a column: one line each
    assert square.moved([1.0, 32.0], 64) == 128
    assert square.moved([8.0, 1024.0], 64) == 8 * 4096  # whole rows are one run
    assert access(1024, 1024, dense=True).moved([8.0, 32.0], 64) == 8 * 32 * 4
    ragged = access(1009, 1013)
    assert 2 * 128 < ragged.moved([2.0, 32.0], 64) < 2 * 192  # runs begin anywhere in a line
    assert ragged.moved([1009.0, 1013.0], 64) <= 1009 * 1013 * 4 + 64


def test_rows_that_are_pages_apart_crowd_the_cache() -> None:
    aliased = access(1024, 1024)
    assert aliased.crowds and aliased.collides
    # 12 rows of one line: all lie at one of the 64 places of a page
    assert aliased.crowding([12.0, 16.0], 64) == 64
    assert aliased.crowding([12.0, 1024.0], 64) == 1
    assert not access(1000, 1000).crowds
    shifted = access(512, 520)  # 2,080 bytes: 32 more than half a page
    assert not shifted.collides


def test_pages_of_a_box() -> None:
    square = access(1024, 1024)
    assert square.pages([8.0, 16.0]) == 8 * 4096
    assert square.pages([1.0, 16.0]) == 4096
    narrow = access(1024, 64)  # 16 rows in a page
    assert narrow.pages([64.0, 16.0]) == 4 * 4096


def test_a_column_of_a_page_wide_matrix_collides() -> None:
    """B[k, j] in vectors along j: each k is a page of its own, and 64 of them come again for each row of A."""
    for columns, collides in ((1024, True), (1008, False)):
        text = matmul(16, columns, 64)
        (nest,) = analysis_of(sketch(register_tile, text), text, {"rows": 1, "vectors": 1}).nests
        visits = 16 * (columns // 16) * 64
        assert nest.traffic.collisions == (pytest.approx(visits, rel=0.05) if collides else 0)


def analysis_of(found: Sketch, text: str, config: dict[str, int], threads: int = 1) -> Analysis:
    return analyse(found.apply(program(text), TARGET, config), TARGET, threads)


def test_instructions_of_a_register_tile() -> None:
    text = matmul(64, 128, 32)
    analysis = analysis_of(sketch(register_tile, text), text, {"rows": 4, "vectors": 2})
    ((stage, work),) = analysis.nests[0].work
    tiles = (64 // 4) * (128 // 32)
    assert work.operations == tiles * 32 * 4 * 2  # one multiply-add for each accumulator and trip
    assert work.loads == tiles * 32 * (4 + 2)  # four broadcasts, two vectors
    assert work.stores == tiles * 4 * 2
    assert work.chains == 8 and work.length == 32 and work.steps == tiles * 32
    assert work.registers == 8 + 2 + 1
    assert work.width == 1 and work.gathered == 0
    assert stage.registers == 2


def test_edges_of_ragged_tiles_are_counted_in_full() -> None:
    text = matmul(65, 128, 32)
    ((_, work),) = analysis_of(sketch(register_tile, text), text, {"rows": 4, "vectors": 2}).nests[0].work
    assert work.operations == 17 * 4 * 32 * 8


def test_what_does_not_move_with_a_loop_is_loaded_outside_of_it() -> None:
    text = "input x: f32[100]\ninput y: f32[50]\nz[i: 100, j: 50] = x[i] * y[j]\nreturn z"
    ((_, work),) = analysis_of(Sketch("default", ()), text, {}).nests[0].work
    assert work.loads == 100 + 100 * 50


def test_lanes_that_are_not_neighbours_are_loaded_one_by_one() -> None:
    def columns(s: Schedule) -> None:
        i, j = s.stage("t0").loops
        i0, i1 = s.split(i, s.lanes(s.stage("t0").definition.tensors[0].dtype))
        s.reorder(j, i0, i1)
        s.vectorize(i1)

    text = "input x: f32[64, 64]\ny[i: 64, j: 64] = x[i, j] + 1\nreturn y"
    ((_, work),) = analysis_of(sketch(columns, text), text, {}).nests[0].work
    assert work.gathered == 2 * 64 * 64  # loads and stores
    assert work.stores == 64 * 64


def test_data_that_is_used_once_crosses_each_cache_once() -> None:
    size = 8 << 20  # 96 MiB in three tensors: far more than the last cache
    nest = analyse(
        task(elementwise(size)).sketches[0].apply(task(elementwise(size)).body, TARGET, {}), TARGET, 1
    ).nests[0]
    for moved in nest.moved:
        assert moved.total == pytest.approx(4 * 4 * size)  # two in; the third in and out


def test_what_fits_in_a_cache_is_not_moved_between_runs() -> None:
    body = task(elementwise(1000)).body
    (nest,) = analyse(task(elementwise(1000)).sketches[0].apply(body, TARGET, {}), TARGET, 1).nests
    assert all(moved.total == 0 for moved in nest.moved)


def reuse(columns: int) -> tuple[float, float]:
    """Bytes of B that enter the first and the second cache in a product of 4,096 rows with a tile of one row."""

    def rows(s: Schedule) -> None:
        i, j, k = s.stage("t0").loops
        j0, j1 = s.split(j, s.lanes(s.stage("t0").definition.tensors[0].dtype))
        s.reorder(i, j0, k, j1)
        s.vectorize(j1)

    text = matmul(4096, columns, 48)
    nest = analysis_of(sketch(rows, text), text, {}).nests[0]
    moved = nest.traffic.moved["x1", False]
    return float(moved[0]), float(moved[1])


def test_reuse_ends_where_the_working_set_outgrows_the_cache() -> None:
    whole = 48 * 80 * 4
    first, second = reuse(80)  # B has 15 KiB: it stays in the first cache
    assert first == pytest.approx(whole) and second == pytest.approx(whole)
    whole = 48 * 1008 * 4
    first, second = reuse(1008)  # 189 KiB: in the second
    assert first == pytest.approx(4096 * whole) and second == pytest.approx(whole)


def test_an_intermediate_in_a_small_buffer_stays_near() -> None:
    text = """
    input x: f32[1024, 2048]
    a[i: 1024, j: 2048] = exp(x[i, j])
    y[i: 1024, j: 2048] = a[i, 2047 - j] + a[i, j]
    return y"""

    def rows(s: Schedule) -> None:
        s.compute_at("t0", s.stage("t1").loops[0])

    apart = analysis_of(Sketch("default", ()), text, {})
    near = analysis_of(sketch(rows, text), text, {})
    whole = 1024 * 2048 * 4
    assert near.nests[0].traffic.moved["t0", False][1] == pytest.approx(2048 * 4)
    assert sum(float(n.traffic.moved["t0", False][1]) for n in apart.nests) >= 2 * whole


def test_streaming_stores_go_to_memory_only() -> None:
    def streamed(s: Schedule) -> None:
        s.streaming("t0", s.flag("past"))

    text = elementwise(8 << 20)
    found = sketch(streamed, text)
    (plain,) = analysis_of(found, text, {"past": 0}).nests
    (past,) = analysis_of(found, text, {"past": 1}).nests
    whole = 4 * (8 << 20)
    assert [float(a.total) - float(b.total) for a, b in zip(plain.moved, past.moved, strict=True)] == pytest.approx(
        [2 * whole, 2 * whole, whole]
    )


def test_all_threads_fetch_what_all_of_them_read() -> None:
    def rows(s: Schedule) -> None:
        i, j, k = s.stage("t0").loops
        s.reorder(i, k, j)
        s.parallel(i)

    text = matmul(64, 256, 256)
    found = sketch(rows, text)
    alone = analysis_of(found, text, {}).nests[0].traffic
    both = analysis_of(found, text, {}, threads=2).nests[0].traffic
    assert both.moved["x1", False][1] == pytest.approx(2 * alone.moved["x1", False][1])  # each core has a second cache
    assert both.moved["x1", False][2] == pytest.approx(alone.moved["x1", False][2])  # the third one is shared
    assert both.moved["x0", False][1] == pytest.approx(alone.moved["x0", False][1])


def test_prepared_stages_cost_nothing_at_a_call() -> None:
    text = "constant w: f32[64]\ninput x: f32[64]\nv[i: 64] = exp(w[i])\ny[i: 64] = x[i] * v[63 - i]\nreturn y"
    tree = Sketch("default", ()).apply(program(text), TARGET, {})
    assert list(levels(tree).stages) == ["t1"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_features_of_a_population_are_those_of_its_members(name: str) -> None:
    made = task(PROGRAMS[name], threads=2)
    assert len(set(FEATURE_NAMES)) == len(FEATURE_NAMES)
    for number, found in enumerate(made.sketches[:6]):
        config_space = found.config_space(made.body, TARGET)
        tree, choices, good = drawn(found, made.body, 40, seed=number)
        table = features(tree, TARGET, 2, 40)
        assert table.shape == (40, len(FEATURE_NAMES)) and table.dtype == np.float32
        assert np.isfinite(table).all() and np.abs(table).max() < 1e6
        for row in np.flatnonzero(good)[:3]:
            config = {p.name: p.values[c] for p, c in zip(config_space.parameters, choices[row], strict=True)}
            alone = features(found.apply(made.body, TARGET, config), TARGET, 2, 1)
            np.testing.assert_allclose(alone[0], table[row], rtol=1e-5, atol=1e-5)


def test_features_do_not_depend_on_names_or_on_the_order_of_operands() -> None:
    other = """
    input weights: f32[48, 80]
    input data: f32[64, 48]
    result[row: 64, column: 80] = sum[depth: 48](weights[depth, column] * data[row, depth])
    return result"""
    rows = []
    for text in (matmul(64, 80, 48), other):
        found = trace(register_tile, canonical(parse(text)))[0]
        tree = found.apply(program(text), TARGET, {"rows": 6, "vectors": 2})
        rows.append(features(tree, TARGET, 1, 1)[0])
    np.testing.assert_allclose(rows[0], rows[1], rtol=1e-6)


@pytest.mark.parametrize("text", ["x86:sse2", "x86:avx2", "aarch64:neon", "riscv64:v", "cuda:sm_90a"])
def test_every_target_has_finite_features(text: str) -> None:
    target = parse_target(text)
    made = task(PROGRAMS["matmul"], target=target)
    for found in made.sketches[:3]:
        tree, _, _ = drawn(found, made.body, 20, 0, target)
        assert np.isfinite(features(tree, target, 4, 20)).all()


def test_a_tree_without_numbers_is_refused() -> None:
    schedule = Schedule(program(matmul(8, 16, 8)))
    register_tile(schedule)
    with pytest.raises(TypeError, match="apply a config first"):
        features(schedule.tree, TARGET, 1, 1)


def test_picking_lanes_takes_registers_and_so_do_masks_that_are_vectors() -> None:
    """Beside 14 accumulators there is no room for these in 16 registers: sums would go through memory."""
    text = """
        input x: f32[8, 56, 56]
        input w: f32[8, 3, 3]
        y[c: 8, p: 28, q: 28] = sum[r: 3, s: 3](
            select(2 * p + r >= 1 and 2 * q + s >= 1, x[c, 2 * p + r - 1, 2 * q + s - 1], 0) * w[c, r, s])
        return y
        """
    found = {}
    for level in ("avx2", "avx512"):
        target = parse_target(f"x86:{level};vector=256")
        made = Task.of(parse(text), target, 1)
        tiled = next(one for one in made.sketches if {"t0.rows", "t0.vectors"} <= {t.name for t in one.tunables})
        tree = tiled.apply(made.body, target, {t.name: 1 for t in tiled.tunables} | {"t0.rows": 14})
        ((_, work),) = analyse(tree, target, 1).nests[0].work
        found[level] = float(np.asarray(work.registers))
    assert found == {"avx2": 14 + 2 + 1 + 2, "avx512": 14 + 2 + 1}
