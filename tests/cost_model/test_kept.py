"""What kernels keep of constants: the bytes that calls read, counted once, and what they are worth."""

from __future__ import annotations

from dataclasses import replace

import pytest

import tilesmith as ts
from tilesmith.cost_model.kept import keeping_seconds, kept_bytes
from tilesmith.schedules.auto import derive
from tilesmith.schedules.sketch import UNSCHEDULED
from tilesmith.schedules.task import Task
from tilesmith.targets.ceilings import default_ceilings
from tilesmith.targets.target import parse_target
from tilesmith.tensor.text.parse import parse

TARGET = parse_target("x86:avx2")
DIRECT, LESS, LEAST = "variant t0 fast = 0", "variant t0 fast = 2", "variant t0 fast = 4"
CHANNELS, FILTERS = 17, 40  # neither fills a vector


def kept(program: ts.Program, which: str) -> set[int]:
    """The bytes that all sketches with this line keep, at the default of their tunables."""
    task = Task.of(program, TARGET, 1)
    found = [s for s in derive(task.body, TARGET) if which in s.text]
    assert found, which
    return {kept_bytes(s.apply(task.body, TARGET, {t.name: t.default for t in s.tunables})) for s in found}


def convolution() -> ts.Program:
    return parse(
        f"""
        input x: f32[{CHANNELS}, 11, 13]
        constant w: f32[{FILTERS}, {CHANNELS}, 3, 3]
        constant b: f32[{FILTERS}]
        y[o: {FILTERS}, i: 9, j: 11] = sum[c: {CHANNELS}, r: 3, s: 3](x[c, i + r, j + s] * w[o, c, r, s])
        z[o: {FILTERS}, i: 9, j: 11] = y[o, i, j] + b[o]
        return z
        """
    )


def test_what_is_kept_of_a_filter_is_counted_as_it_was_prepared() -> None:
    """A filter that only tiles with outliers read as it was is in its file, and no part of it."""
    points, beside = FILTERS * CHANNELS * 4, FILTERS * 4  # the bias
    gauge = FILTERS * 4
    for which, of_filter, more in ((DIRECT, 9, 0), (LESS, 16, gauge), (LEAST, 36, gauge)):
        least = of_filter * points + beside + more
        found = kept(convolution(), which)
        assert all(least <= bytes <= least + 2048 for bytes in found), (which, least, found)  # tables of coefficients


def test_constants_that_calls_read_as_they_are_count_once() -> None:
    program = parse("input x: f32[5]\nconstant c: f32[5]\ny[i: 5] = x[i] * c[i]\nz[i: 5] = y[i] + c[i]\nreturn z")
    assert kept_bytes(UNSCHEDULED.apply(Task.of(program, TARGET, 1).body, TARGET, {})) == 20


def test_what_is_given_to_each_call_is_not_kept() -> None:
    program = parse("input x: f32[5]\ninput c: f32[5]\ny[i: 5] = x[i] * c[i]\nreturn y")
    assert kept_bytes(UNSCHEDULED.apply(Task.of(program, TARGET, 1).body, TARGET, {})) == 0


def test_a_byte_is_worth_what_reading_it_from_memory_takes() -> None:
    ceilings = replace(default_ceilings(TARGET, 1), bandwidth=((10_000, 9e10), (100_000_000, 2e10)), streams={})
    assert keeping_seconds(3e6, ceilings) == pytest.approx(3e6 / 2e10)
    assert keeping_seconds(0, ceilings) == 0


def test_numbers_of_constants_are_kept_once_and_their_words_are_not() -> None:
    """With words made ahead a result that is not finite reads the filter again: from its file, where it was given."""
    unit = parse_target("x86:avx512+amx")
    task = Task.of(ts.ops.matmul(40, 96, 128, constants=("B",)), unit, 1)
    for packed, bytes_of_one in ((True, 4), (False, 6)):
        which = f"columns packed inside = {str(packed).lower()}"
        found = [s for s in task.sketches if which in s.text]
        kept = {kept_bytes(s.apply(task.body, unit, {t.name: t.default for t in s.tunables})) for s in found}
        assert kept == {bytes_of_one * 96 * 128}


def test_what_only_stand_ins_read_is_kept_where_it_is_made() -> None:
    unit = parse_target("x86:avx512+amx")
    program = parse(
        "input A: f32[40, 128]\nconstant B: f32[128, 96]\ns[k: 128] = sum[j: 96](B[k, j])\n"
        "W[k: 128, j: 96] = B[k, j] / s[k]\nC[i: 40, j: 96] = sum[k: 128](A[i, k] * W[k, j])\nreturn C"
    )
    task = Task.of(program, unit, 1)
    made_ahead = [s for s in task.sketches if "columns packed inside = false" in s.text]
    kept = {kept_bytes(s.apply(task.body, unit, {t.name: t.default for t in s.tunables})) for s in made_ahead}
    assert made_ahead and min(kept) >= 10 * 96 * 128, "words, and the quotients that a result which is not finite reads"
