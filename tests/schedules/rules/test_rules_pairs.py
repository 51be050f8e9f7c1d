"""The rule of pairs: maxima of many elements that read maxima of two, by all sketches, and which stages stay."""

from __future__ import annotations

import pytest

from helpers.emission.loops import HOST
from helpers.lowering.derived import assert_runs, body_of, some_configs
from tilesmith.schedules.auto import derive
from tilesmith.tensor.text.parse import parse

WIDTH = 18


def line(name: str = "max") -> str:
    """The extremum of two rows of nine neighbours, nested."""
    terms = [f"x[i + {r}, j + {n}]" for r in (0, 3) for n in range(WIDTH // 2)]
    nested = terms[0]
    for term in terms[1:]:
        nested = f"{name}({nested}, {term})"
    return f"input x: f32[13, 45]\ny[i: 10, j: 37] = {nested}\nreturn y"


@pytest.mark.parametrize("name", ["max", "min"])
def test_pairs_run_by_all_sketches(name: str) -> None:
    program = body_of(parse(line(name)))
    found = [dict(sketch.variants).get("t0 pairs") for sketch in derive(program)]
    assert True in found and False in found
    for sketch in filter(lambda one: one.tunables, derive(program)):
        for number, values in enumerate(some_configs(program, sketch, 2)):
            assert_runs(program, sketch.apply(program, HOST, values), number)


def test_pairs_are_stages_and_not_written_where_they_are_read() -> None:
    program = body_of(parse(line()))
    for sketch in derive(program):
        if dict(sketch.variants).get("t0 pairs"):
            (values,) = some_configs(program, sketch, 1)
            pairs, last = sketch.apply(program, HOST, values).program.stages
            assert [len(stage.reads()) for stage in (pairs, last)] == [2, 9]
            return
    pytest.fail("no sketch has pairs")


def test_few_elements_have_no_pairs() -> None:
    terms = "x[i, j]"
    for n in range(1, 9):
        terms = f"max({terms}, x[i, j + {n}])"
    program = body_of(parse(f"input x: f32[13, 45]\ny[i: 13, j: 37] = {terms}\nreturn y"))
    assert not any("t0 pairs" in dict(sketch.variants) for sketch in derive(program))
