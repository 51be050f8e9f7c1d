"""The overlap rule: pipelines by tiles, counted and run at sizes that nothing divides."""

from __future__ import annotations

from random import Random

import pytest

from helpers.emission.loops import HOST
from helpers.lowering.derived import assert_runs, body_of, some_configs
from helpers.lowering.truth import check_case
from helpers.pipeline.drawn import complaints
from helpers.pipelines import MORE_KINDS, drawn_pipeline
from tilesmith.common.errors import InternalError
from tilesmith.schedules.auto import derive
from tilesmith.schedules.boxes import BoxAxis
from tilesmith.schedules.rules.cpu.overlap import HALO, SLIDING, TILES, groups_of
from tilesmith.schedules.rules.tile_groups import tile_group, worth_keeping
from tilesmith.schedules.sketch import Sketch
from tilesmith.targets.target import parse_target
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.parse import parse

NARROW = parse_target("x86:avx512;vector=128")

LINE = "a line"  # has no rows along which anything slides
SWEEPS = """
    input u: f32[15, 41]
    a[i: 13, j: 39] = (u[i, j + 1] + u[i + 2, j + 1] + u[i + 1, j] + u[i + 1, j + 2]) * 0.25
    b[i: 11, j: 37] = (a[i, j + 1] + a[i + 2, j + 1] + a[i + 1, j] + a[i + 1, j + 2]) * 0.25
    c[i: 9, j: 35] = (b[i, j + 1] + b[i + 2, j + 1] + b[i + 1, j] + b[i + 1, j + 2]) * 0.25
    return c
    """
PROGRAMS = {
    "sweeps": SWEEPS,
    "separable": """
        input x: f32[14, 30]
        a[i: 14, j: 26] = sum[s: 5](x[i, j + s])
        b[i: 10, j: 26] = sum[r: 5](a[i + r, j])
        return b
        """,
    "corners": """
        input x: f32[13, 23]
        p[i: 11, j: 21] = x[i, j + 2] - x[i, j] + 2 * (x[i + 1, j + 2] - x[i + 1, j]) + x[i + 2, j + 2] - x[i + 2, j]
        q[i: 11, j: 21] = x[i + 2, j] - x[i, j] + 2 * (x[i + 2, j + 1] - x[i, j + 1]) + x[i + 2, j + 2] - x[i, j + 2]
        a[i: 9, j: 19] = sum[r: 3, s: 3](p[i + r, j + s] * p[i + r, j + s])
        b[i: 9, j: 19] = sum[r: 3, s: 3](q[i + r, j + s] * q[i + r, j + s])
        c[i: 9, j: 19] = sum[r: 3, s: 3](p[i + r, j + s] * q[i + r, j + s])
        y[i: 9, j: 19] = a[i, j] * b[i, j] - c[i, j] * c[i, j] - 0.04 * (a[i, j] + b[i, j])
        return y
        """,
    "clamped": """
        input x: f32[9, 20]
        a[i: 9, j: 20] = x[max(i - 1, 0), j] + x[i, j] * 2 + x[min(i + 1, 8), j]
        b[i: 9, j: 20] = a[i, max(j - 1, 0)] + a[i, j] * 2 + a[i, min(j + 1, 19)]
        return b
        """,
    "half": """
        input x: f32[18, 44]
        a[i: 18, j: 42] = x[i, j] + x[i, j + 1] * 2 + x[i, j + 2]
        b[i: 8, j: 20] = (a[2 * i, 2 * j] + a[2 * i + 1, 2 * j] + a[2 * i, 2 * j + 1]
            + a[2 * i + 2, 2 * j + 2] + a[2 * i + 2, 2 * j])
        return b
        """,
    "a member that does not slide": """
        input x: f32[20, 30]
        a[i: 20, j: 28] = x[i, j] + x[i, j + 1] * 2 + x[i, j + 2]
        b[i: 20, j: 26] = a[i, j] + a[i, j + 1] * 2 + a[i, j + 2]
        c[i: 9, j: 26] = b[2 * i, j] * 2 + b[2 * i, j]
        d[i: 9, j: 24] = c[i, j] + c[i, j + 2] + a[2 * i + 1, j]
        return d
        """,
    LINE: """
        input x: f32[90]
        a[i: 88] = x[i] + x[i + 1] * 2 + x[i + 2]
        b[i: 86] = a[i] + a[i + 1] * 2 + a[i + 2]
        return b
        """,
    "volumes": """
        input x: f32[7, 8, 21]
        a[i: 5, j: 6, k: 19] = x[i, j + 1, k + 1] + x[i + 2, j + 1, k + 1] + x[i + 1, j, k] + x[i + 1, j + 2, k + 2]
        b[i: 3, j: 4, k: 17] = a[i, j + 1, k + 1] + a[i + 2, j + 1, k + 1] + a[i + 1, j, k] + a[i + 1, j + 2, k + 2]
        return b
        """,
}


PATCHES = """
    input x: f32[3, 15, 34]
    d[s: 3, i: 13, j: 32] = sum[c: 3]((x[c, i + 1, j + 1] - x[c, i + s, j + 1]) * (x[c, i + 1, j + 1] - x[c, i + s, j + 1]))
    a[s: 3, i: 11, j: 30] = sum[r: 3](d[s, i + r, j + 1])
    w[s: 3, i: 11, j: 30] = exp(-a[s, i, j])
    n[c: 3, i: 11, j: 30] = sum[s: 3](w[s, i, j] * x[c, i + s, j + 2])
    m[i: 11, j: 30] = sum[s: 3](w[s, i, j])
    y[c: 3, i: 11, j: 30] = n[c, i, j] / m[i, j]
    return y
    """
PROGRAMS["colours share weights"] = PATCHES


def overlapped(program: Program, how: str) -> Sketch:
    """The sketch that runs by tiles, or by windows that slide in them."""
    (found,) = [sketch for sketch in derive(program) if ("stages", how) in sketch.variants]
    return found


@pytest.mark.parametrize(
    ("name", "how"), [(n, h) for n in sorted(PROGRAMS) for h in (TILES, SLIDING) if (n, h) != (LINE, SLIDING)]
)
def test_tiles_are_counted_and_run(name: str, how: str) -> None:
    program = body_of(parse(PROGRAMS[name]))
    sketch = overlapped(program, how)
    assert any(check_case(program, sketch, NARROW, Random(seed), 40_000) for seed in range(12))
    for number, values in enumerate(some_configs(program, sketch, 3)):
        assert_runs(program, sketch.apply(program, HOST, values), number)


def test_what_is_read_in_one_place_is_no_group() -> None:
    body = body_of(parse("input x: f32[9, 40]\na[i: 9, j: 40] = x[i, j] * 2\nb[i: 9, j: 40] = exp(a[i, j])\nreturn b"))
    group = tile_group(body, body.stages[-1], frozenset(), 32)
    assert group is None or not group.has_halo
    assert not any("stages" in dict(sketch.variants) for sketch in derive(body))


def test_a_border_grows_from_stage_to_stage() -> None:
    body = body_of(parse(SWEEPS))
    group = tile_group(body, body.stages[-1], frozenset(), 32)
    assert group is not None and len(group.members) == 2
    assert [group.forms[name]["a0"].high for name in group.members] == [2, 4]


@pytest.mark.parametrize(("columns", "taken"), [(40, 1), (400, 0)])
def test_a_small_part_of_what_is_put_together_runs_elsewhere(columns: int, taken: int) -> None:
    """Most tiles of the whole need nothing of it, and its own points would be a small part of those that they go over."""
    body = body_of(
        parse(f"""input x: f32[9, 42]
input y: f32[9, {columns}]
a[i: 9, j: 40] = x[i, j] * x[i, j + 1] + x[i, j + 2]
b[i: 9, j: {columns + 40}] = select(j < {columns}, y[i, j], exp(a[i, j - {columns}]))
return b""")
    )
    group = tile_group(body, body.stages[-1], frozenset(), 32)
    assert len(group.members if group else ()) == taken


@pytest.mark.parametrize("how", [TILES, SLIDING])
def test_what_all_colours_need_is_computed_once_for_them(how: str) -> None:
    """The loop over colours runs inside of the loops at which weights are computed, and the sums of all fit in registers."""
    program = body_of(parse(PATCHES))
    sketch = overlapped(program, how)
    root, colours = program.stages[-1].name, program.stages[-1].axes[0].name
    for values in some_configs(program, sketch, 4):
        tree = sketch.apply(program, HOST, values)
        outer = tree.by_stage[root]
        attached = [loops.at[1] for loops in tree.by_stage.values() if loops.at is not None and loops.at[0] == root]
        assert attached
        for loop in attached:
            assert all(around.axis != colours for around in outer.loops[: outer.position(loop) + 1])
        sums = (3 + 1 + 1) * values[f"{root}.rows"] * values[f"{root}.vectors"]
        assert sums <= HOST.vector_registers


def logarithms(steps: int) -> Program:
    """Maxima of 2, 4, 8, ... elements, each of two before it; the last stage reads many of them."""
    lines, last, width = ["input x: f32[120, 40]"], "x", 1
    for n in range(steps):
        lines.append(f"v{n}[i: {121 - 2 * width}, j: 40] = max({last}[i, j], {last}[i + {width}, j])")
        last, width = f"v{n}", 2 * width
    rows = 121 - width
    terms = " + ".join(f"{last}[i + {n}, j]" for n in range(0, 40, 2)) + f" + {last}[i, j + 1]"
    return parse("\n".join([*lines, f"y[i: {rows - 40}, j: 39] = {terms}", "return y"]))


def test_what_adds_up_from_stage_to_stage_is_kept() -> None:
    """One operation each: what is not kept is computed twice by each that reads it."""
    body = body_of(logarithms(4))
    group = tile_group(body, body.stages[-1], frozenset(), 64)
    assert group is not None and len(group.members) == 4
    assert worth_keeping(body, group) == {"t1", "t3"}


def test_a_border_is_wide_where_the_root_does_most() -> None:
    body = body_of(logarithms(2))
    (group,) = groups_of(body, ())
    assert group.halo("a0") > HALO
    little = body_of(
        parse(str(logarithms(2)).replace(" = ", " = exp(sin(cos(exp(", 2).replace("j])\n", "j])))))\n", 2))
    )
    assert all(found.halo("a0") <= HALO for found in groups_of(little, ()))


def test_what_is_computed_once_belongs_to_no_tile() -> None:
    """A filter with a bias that is made of constants: no tile computes that again, and without it there is no group."""
    text = """
        input x: f32[30, 30, 16]
        constant w: f32[16, 3, 3]
        constant q: i32[16]
        constant scale: f32[16]
        bias[c: 16] = f32(q[c]) * scale[c]
        pad[p: 32, q: 32, c: 16] = select(p >= 1 and p < 31 and q >= 1 and q < 31, x[p - 1, q - 1, c], 0)
        sums[p: 30, q: 30, c: 16] = sum[r: 3, s: 3](pad[p + r, q + s, c] * w[c, r, s])
        y[p: 30, q: 30, c: 16] = max(sums[p, q, c] + bias[c], 0)
        return y
        """
    body = body_of(parse(text))
    assert groups_of(body, ()) == []
    assert not any("stages" in dict(sketch.variants) for sketch in derive(body))


def test_a_missing_border_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Boxes that leave out the last point of a border, whoever asks for them."""
    program = body_of(parse(SWEEPS))
    sketch = overlapped(program, TILES)
    values = some_configs(program, sketch, 1)[0]
    assert_runs(program, sketch.apply(program, HOST, values), 0)
    right = BoxAxis.extent
    monkeypatch.setattr(BoxAxis, "extent", lambda self, sizes: right(self, sizes) - (self.high > self.low))
    with pytest.raises((AssertionError, InternalError)):
        assert_runs(program, sketch.apply(program, HOST, values), 0)


@pytest.mark.parametrize("seed", range(16))
def test_drawn_pipelines_are_right_by_all_sketches(seed: int) -> None:
    assert not complaints(drawn_pipeline(seed), seed, most=4)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 2000, 50))
def test_two_thousand_pipelines(first: int) -> None:
    for seed in range(first, first + 50):
        assert not complaints(drawn_pipeline(seed, most=12), seed), f"seed {seed}"


@pytest.mark.parametrize("seed", [5, 6, 7, 8, 9, 10, 12])
def test_drawn_pyramids_scans_and_reductions_are_right(seed: int) -> None:
    assert not complaints(drawn_pipeline(seed, most=6, kinds=MORE_KINDS), seed, most=2)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 300, 10))
def test_long_pipelines_of_all_kinds(first: int) -> None:
    for seed in range(first, first + 10):
        program = drawn_pipeline(seed, most=60, least=5, kinds=MORE_KINDS)
        assert not complaints(program, seed, most=3), f"seed {seed}"
