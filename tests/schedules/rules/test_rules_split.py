"""Long reductions with small results: derived sketches split them over parts that threads share."""

from __future__ import annotations

from random import Random

import pytest

from helpers.lowering.derived import assert_runs, body_of, some_configs
from helpers.lowering.truth import check_case
from tilesmith.schedules.auto import derive
from tilesmith.schedules.sketch import Sketch
from tilesmith.targets.target import parse_target
from tilesmith.tensor import ops
from tilesmith.tensor.program import Program

NARROW = parse_target("x86:avx512;vector=128")
HOST = parse_target("host")


def parts(program: Program) -> list[object]:
    """What the sketches of a program offer: the numbers of parts."""
    chosen = [dict(sketch.variants) for sketch in derive(program)]
    return sorted({value for variants in chosen for name, value in variants.items() if name.startswith("split ")})


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (ops.total(1 << 24), [1, 8, 64]),
        (ops.dot(8192), [1, 8]),
        (ops.dot(8191), []),  # parts of less than 1,024 terms
        (ops.matmul(64, 64, 65536), [1, 8, 64]),
        (ops.matmul(64, 64, 8192), []),  # the result has enough points to share
        (ops.matmul(1024, 1024, 1024), []),
        (ops.softmax(1, 100_000), []),  # two long reductions
    ],
)
def test_what_is_split(program: Program, expected: list[int]) -> None:
    assert parts(body_of(program)) == expected


def split_sketches(program: Program) -> list[Sketch]:
    return [sketch for sketch in derive(program) if sketch.rewrites]


@pytest.mark.parametrize("program", [ops.total(9000), ops.dot(8200), ops.matmul(1, 1, 8195)], ids=str)
def test_split_reductions_are_counted(program: Program) -> None:
    body = body_of(program)
    (sketch,) = split_sketches(body)
    assert any(check_case(body, sketch, NARROW, Random(seed), 20_000) for seed in range(4))


@pytest.mark.parametrize("program", [ops.total(70_001), ops.dot(66_000), ops.matmul(3, 37, 8999)], ids=str)
def test_split_reductions_run(program: Program) -> None:
    body = body_of(program)
    sketches = split_sketches(body)
    assert sketches
    for number, sketch in enumerate(sketches):
        for values in some_configs(body, sketch, 1):
            assert_runs(body, sketch.apply(body, HOST, values), number)
