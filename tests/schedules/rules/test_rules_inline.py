"""What the inlining rule leaves alone: choices among constants that sums read."""

from __future__ import annotations

import pytest

from helpers.emission.loops import HOST
from helpers.lowering.derived import assert_runs, some_configs
from tilesmith.schedules.auto import derive
from tilesmith.targets.target import parse_target
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.parse import parse

GATES = """
    constant w: f32[{rows}, 24]
    input x: f32[{samples}, 24]
    sorted[i: {rows}, k: 24] = select(i < {half}, w[i + {half}, k], w[i - {half}, k])
    y[n: {samples}, j: {rows}] = sum[k: 24](x[n, k] * sorted[j, k])
    return y
    """
AVX2 = parse_target("x86:avx2")


def given(kind: str, samples: int) -> Program:
    return parse(GATES.replace("constant w", f"{kind} w").format(rows=38, half=19, samples=samples))


@pytest.mark.parametrize("samples", [1, 17])
def test_weights_in_another_order_are_packed_when_the_kernel_is_made(samples: int) -> None:
    for sketch in derive(given("constant", samples), AVX2):
        assert "inline(sorted)" not in sketch.text
    assert any("copy(copy0, sorted" in sketch.text for sketch in derive(given("constant", samples), AVX2))


@pytest.mark.parametrize("samples", [1, 17])
def test_what_is_given_at_each_call_is_chosen_where_it_is_read(samples: int) -> None:
    assert any("inline(sorted)" in sketch.text for sketch in derive(given("input", samples), AVX2))


@pytest.mark.parametrize("samples", [1, 17])
def test_they_are_right(samples: int) -> None:
    program = given("constant", samples)
    for seed, sketch in enumerate(s for s in derive(program, HOST) if s.tunables):
        for config in some_configs(program, sketch, 2):
            assert_runs(program, sketch.apply(program, HOST, config), seed)


PART = """
    {kind} w: f32[57, 24]
    input x: f32[17, 24]
    part[i: {rows}, k: 24] = w[i + {first}, k]
    y[n: 17, j: {rows}] = sum[k: 24](x[n, k] * part[j, k])
    return y
    """


def test_a_part_of_the_weights_is_packed_when_the_kernel_is_made() -> None:
    """As keys have a third of what one layer holds for queries, keys and values; all of it is read where it lies."""
    part = parse(PART.format(kind="constant", rows=19, first=19))
    sketches = derive(part, AVX2)
    assert not any("inline(part)" in sketch.text for sketch in sketches)
    assert any("copy(copy0, part" in sketch.text for sketch in sketches)
    for seed, sketch in enumerate(s for s in derive(part, HOST)[:6] if s.tunables):
        for config in some_configs(part, sketch, 1):
            assert_runs(part, sketch.apply(part, HOST, config), seed)
    whole = parse(PART.format(kind="constant", rows=57, first=0))
    given_late = parse(PART.format(kind="input", rows=19, first=19))
    assert all(any("inline(part)" in sketch.text for sketch in derive(one, AVX2)) for one in (whole, given_late))


BIAS = """
    constant values: f32[9, 3]
    constant place: i64[16]
    input x: f32[3, {rows}, 4]
    b[h: 3, i: {rows}, j: 4] = values[min(max(place[i % 4 * 4 + j], 0), 8), h]
    y[h: 3, i: {rows}, j: 4] = x[h, i, j] + b[h, i, j]
    return y
    """


def test_what_constants_are_looked_up_in_is_made_ahead() -> None:
    """Once, when the kernel is made, unless that would keep much; at each call, where the table is given then."""
    few = parse(BIAS.format(rows=20))
    assert all("inline(b)" not in sketch.text for sketch in derive(few, AVX2))
    assert all("inline(b)" in sketch.text for sketch in derive(parse(BIAS.format(rows=1 << 16)), AVX2)[1:])
    given_later = parse(BIAS.format(rows=20).replace("constant values", "input values"))
    assert all("inline(b)" in sketch.text for sketch in derive(given_later, AVX2)[1:])
    sketch = derive(few, HOST)[1]
    for config in some_configs(few, sketch, 2):
        assert_runs(few, sketch.apply(few, HOST, config), 3)
