"""Filters of fast convolutions that each call transforms: when that is offered, what is kept, code, counts and plans."""

from __future__ import annotations

from random import Random

import pytest

from helpers.emission.loops import HOST
from helpers.lowering.derived import assert_runs, body_of, some_configs
from helpers.lowering.planned import disagreements
from helpers.lowering.truth import analysed, assert_correct, counted, exact_inputs, run_lowered
from tilesmith.codegen.lower import loops
from tilesmith.codegen.lower.lower import lower
from tilesmith.common.errors import InternalError
from tilesmith.cost_model.kept import kept_bytes
from tilesmith.schedules.auto import derive
from tilesmith.schedules.loops import LoopTree
from tilesmith.schedules.plan.stage import plan_of
from tilesmith.schedules.prepared import prepared_stages
from tilesmith.schedules.rules.cpu.fast_windows import transform
from tilesmith.schedules.rules.cpu.fast_windows.filters import filters_of
from tilesmith.schedules.sketch import Sketch
from tilesmith.schedules.space import config
from tilesmith.targets.target import Target, parse_target
from tilesmith.tensor import ops
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.canonical import canonical
from tilesmith.tensor.text.parse import parse

AVX512, AVX2 = parse_target("x86:avx512"), parse_target("x86:avx2")
IN_CALLS = ("t0 filters in calls", True)
DEPTH = 32  # of a block
OF_CALLS = ("t8", "t9", "t10")  # both transforms of the filters, products


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Offers it for filters of tests, too."""
    monkeypatch.setattr(transform, "FILTERS_AT_LEAST", 1)
    monkeypatch.setattr(transform, "TILES_AT_LEAST", 1)


def convolution(n: int, h: int, w: int, c: int = 16, o: int = 16, constants: tuple[str, ...] = ("W",)) -> Program:
    return body_of(ops.conv2d(n, c, h, w, o, padding=1, layout="nhwc", constants=constants))


def in_calls(program: Program) -> list[Sketch]:
    transform._fast.cache_clear()  # what was found with other sizes in mind
    found = [s for s in derive(program) if IN_CALLS in s.variants]
    transform._fast.cache_clear()
    return found


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("n", "h", "w"), [(1, 9, 6), (2, 5, 5)])
def test_it_is_right_with_one_thread_and_with_two(n: int, h: int, w: int) -> None:
    program = convolution(n, h, w, 37, 18)
    (sketch,) = in_calls(program)
    for number, values in enumerate(some_configs(program, sketch, 1)):
        assert_runs(program, sketch.apply(program, HOST, values), number)


def _complaint(program: Program, tree: LoopTree, target: Target) -> str | None:
    """What the code of a tree does otherwise than is said of products and filters: results, trips, points, bytes, plans."""
    run = assert_correct(program, tree, target, exact_inputs(program, 1))
    if not target.has_masks:  # a later pass runs ends as whole tiles
        run, _ = run_lowered(program, lower(tree, target), exact_inputs(program, 1))
    said, seen = analysed(tree), counted(tree, run)
    wrong = {key: (said[key], seen[key]) for key in said if key[1].split(".")[0] in OF_CALLS and said[key] != seen[key]}
    planned = disagreements(tree, plan_of(tree, gpu=False), target)
    return str((wrong, planned)) if wrong or planned else None


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("seed", range(2))
def test_it_is_counted_and_planned(seed: int) -> None:
    random = Random(seed)
    target = random.choice([AVX2, AVX512])
    program = convolution(random.choice([1, 2]), random.randint(5, 9), random.randint(4, 6), 64)
    (sketch,) = in_calls(program)
    for values in some_configs(program, sketch, 1):
        assert _complaint(program, sketch.apply(program, target, values), target) is None


@pytest.mark.usefixtures("small")
def test_filters_are_kept_as_many_as_they_are() -> None:
    """And not as their points, of which there are four times as many."""
    program = convolution(1, 20, 20, 16, 40)
    elements = 9 * 16 * 40
    (sketch,) = in_calls(program)
    space = sketch.config_space(program, AVX2)
    tree = sketch.apply(program, AVX2, config(space, space.default))
    assert not {"t8", "t9"} & prepared_stages(tree)
    assert 4 * elements <= kept_bytes(tree) <= 4 * elements + 2048  # gauges, and tables of coefficients


def test_it_is_offered_for_large_constant_filters_of_many_tiles() -> None:
    large = convolution(1, 28, 28, 256, 256)
    assert len(in_calls(large)) == 1
    assert not in_calls(convolution(1, 28, 28, 64, 64))  # little is kept of these
    assert not in_calls(convolution(1, 7, 7, 256, 256))  # few tiles, which would take no longer than their filters
    assert len(in_calls(convolution(8, 7, 7, 256, 256))) == 1
    assert not in_calls(convolution(1, 28, 28, 256, 256, constants=()))  # they are transformed in calls anyway
    assert not any("halves" in s.text for s in derive(large) if IN_CALLS not in s.variants)


@pytest.mark.usefixtures("small")
def test_they_are_not_done_in_bands_as_well() -> None:
    """Each band would transform all filters again."""
    assert not any("t14 in bands" in dict(s.variants) for s in in_calls(convolution(1, 22, 22)))


@pytest.mark.usefixtures("small")
def test_what_products_read_is_looked_at() -> None:
    """Filters that are transformed ahead, in one step, are none of this rule."""
    program = convolution(1, 20, 20)
    (sketch,) = in_calls(program)
    products = [stage for stage in sketch.rewritten(program).stages if filters_of(sketch.rewritten(program), stage)]
    assert [stage.name for stage in products] == ["t10"]
    others = [s for s in derive(program) if dict(s.variants).get("t0 fast") and IN_CALLS not in s.variants]
    for one in others:
        made = one.rewritten(program)
        assert all(filters_of(made, stage) is None for stage in made.stages)


@pytest.mark.usefixtures("small")
def test_filters_of_another_block_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    program = convolution(1, 5, 6, 2 * DEPTH)
    (sketch,) = in_calls(program)
    space = sketch.config_space(program, AVX512)
    values = {**config(space, space.default), "t10.depth_blocks": 2}
    assert _complaint(program, sketch.apply(program, AVX512, values), AVX512) is None
    right = loops.times
    monkeypatch.setattr(loops, "times", lambda expr, factor: right(expr, 0 if factor == DEPTH else factor))
    with pytest.raises((AssertionError, InternalError, IndexError)):
        assert _complaint(program, sketch.apply(program, AVX512, values), AVX512) is None


def test_rows_that_are_in_a_condition_alone_are_no_rows_of_data() -> None:
    """Where an image is one point high, the only row that is read has no index that moves."""
    program = canonical(
        parse("""
        input x: f32[1, 9, 40]
        constant w: f32[2, 3, 40, 20]
        y[p: 2, q: 7, o: 20] = sum[c: 40, r: 2, s: 3](select(p + r - 1 >= 0 and p + r - 1 < 1, x[p + r - 1, q + s, c], 0)
            * w[r, s, c, o])
        return y
        """)
    )
    assert len(derive(program)) > 1
    assert all(filters_of(program, stage) is None for stage in program.stages)
