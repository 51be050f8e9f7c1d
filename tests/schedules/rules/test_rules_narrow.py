"""The sketches of narrow products, whose depth is in lanes: what they fit, and their code at sizes that nothing divides."""

from __future__ import annotations

from random import Random

import pytest

from helpers.emission.loops import HOST
from helpers.lowering.derived import assert_runs, body_of, some_configs
from helpers.lowering.truth import check_case
from tilesmith.schedules.auto import derive
from tilesmith.schedules.loops import LoopKind
from tilesmith.schedules.rules.cpu.narrow import narrow_of
from tilesmith.targets.target import parse_target
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.parse import parse

NARROW = parse_target("x86:avx512;vector=128")


def window(columns: int, axes: str = "p: 5, q: 7, o: {0}", kind: str = "constant") -> Program:
    """A window of 3 x 3 points of 17 channels with a border, with few columns, which a bias finishes."""
    names = axes.format(columns)
    return parse(f"""
        input x: f32[5, 7, 17]
        {kind} w: f32[{columns}, 3, 3, 17]
        input b: f32[{columns}]
        y[o: {columns}, p: 5, q: 7] = sum[r: 3, s: 3, c: 17](
            select(p + r >= 1 and p + r < 6 and q + s >= 1 and q + s < 8, x[p + r - 1, q + s - 1, c], 0) * w[o, r, s, c])
        z[{names}] = max(y[o, p, q] + b[o], 0)
        return z""")


PROGRAMS: dict[str, Program] = {
    "window": window(3),
    "window stored along the rows": window(2, "o: {0}, p: 5, q: 7"),
    "window of one column": window(1),
    "weights of a call": window(3, kind="input"),
    "alone": parse("""
        input x: f32[19, 37]
        constant w: f32[37, 5]
        y[i: 19, j: 5] = sum[k: 37](x[i, k] * w[k, j])
        return y"""),
    "groups": parse("""
        input x: f32[3, 13, 40]
        input q: f32[3, 4, 40]
        y[h: 3, g: 4, t: 13] = sum[d: 40](x[h, t, d] * q[h, g, d])
        return y"""),
    "phase of a transposed window": parse("""
        input x: f32[6, 9, 32]
        constant w: f32[32, 3, 4, 4]
        y[o: 3, p: 5, q: 8] = sum[c: 32, r: 2, s: 2](x[p + r, q + s, c] * w[c, o, 3 - 2 * r, 2 - 2 * s])
        return y"""),
    "halves": parse("""
        input x: f16[30, 48]
        constant w: f16[2, 48]
        y[i: 30, j: 2] = sum[k: 48](f32(x[i, k]) * f32(w[j, k]))
        return y"""),
    "bytes": parse("""
        input x: i8[30, 48]
        constant w: i8[2, 48]
        y[i: 30, j: 2] = sum[k: 48](i32(x[i, k]) * i32(w[j, k]))
        return y"""),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_narrow_products_are_counted_and_run(name: str) -> None:
    program = body_of(PROGRAMS[name])
    assert any(narrow_of(program, stage) for stage in program.stages)
    for sketch in derive(program)[1:]:
        assert any(check_case(program, sketch, NARROW, Random(seed), 20000) for seed in range(8)), sketch.title
        for number, values in enumerate(some_configs(program, sketch, 3)):
            assert_runs(program, sketch.apply(program, HOST, values), number)


def test_lanes_are_points_of_the_depth() -> None:
    program = body_of(window(3))
    (sketch,) = derive(program)[1:]
    (values,) = some_configs(program, sketch, 1)
    tree = sketch.apply(program, HOST, values)
    roles, lanes = narrow_of(program, program.stage("t0")), tree.loops_of("t0").loops[-1]
    assert roles is not None and lanes.kind is LoopKind.VECTOR and lanes.axis == roles.depth


OTHERS = {
    "wide": "input x: f32[16, 64]\nconstant w: f32[8, 64]\ny[i: 16, j: 8] = sum[k: 64](x[i, k] * w[j, k])",
    "shallow": "input x: f32[16, 8]\nconstant w: f32[3, 8]\ny[i: 16, j: 3] = sum[k: 8](x[i, k] * w[j, k])",
    "across": "input x: f32[64, 16]\nconstant w: f32[3, 64]\ny[i: 16, j: 3] = sum[k: 64](x[k, i] * w[j, k])",
    "constant data": "constant x: f32[16, 64]\ninput w: f32[3, 64]\ny[i: 16, j: 3] = sum[k: 64](x[i, k] * w[j, k])",
    "weights across": "input x: f32[16, 64]\ninput w: f32[64, 3]\ny[i: 16, j: 3] = sum[k: 64](x[i, k] * w[k, j])",
    "no weights": "input x: f32[16, 64]\ny[i: 16] = sum[k: 64](x[i, k] * x[i, k])",
}


@pytest.mark.parametrize("name", sorted(OTHERS))
def test_other_products_are_left_to_other_rules(name: str) -> None:
    program = body_of(parse(OTHERS[name] + "\nreturn y"))
    assert not any(narrow_of(program, stage) for stage in program.stages)
