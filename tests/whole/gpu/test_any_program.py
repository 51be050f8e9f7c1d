"""Nothing fails on a GPU either: operators and drawn programs by what the rules derive, in the emulator."""

from __future__ import annotations

import pytest

from helpers.gpu.candidates import EMULATOR, body_of, fault, sketches, some_configs
from helpers.pipeline.drawn import drawn_program
from tilesmith.codegen.pipeline import build
from tilesmith.tensor.ops.catalogue import catalogue, example
from tilesmith.tensor.program import Program

OPERATORS = sorted(entry.name for entry in catalogue())
PORTION = 25


def complaints(program: Program, seed: int, most: int | None = None) -> list[str]:
    """What is wrong with a random config of each sketch, or of the first `most` sketches."""
    body, found = body_of(program), []
    for sketch in sketches(body)[:most]:
        for values in some_configs(body, sketch, 1, seed):
            try:
                wrong = fault(body, build(body, sketch, values, EMULATOR, 1), seed)
            except Exception as error:
                wrong = f"{type(error).__name__}: {error}"
            if wrong:
                found.append(f"{wrong}\n{sketch.text}\n{values}\n{body}")
    return found


@pytest.mark.parametrize("name", OPERATORS)
def test_rules_derive_sketches_of_every_operator(name: str) -> None:
    sketches(body_of(example(name)))


@pytest.mark.parametrize("seed", range(12))
def test_a_sketch_of_drawn_programs_is_right(seed: int) -> None:
    assert not complaints(drawn_program(seed), seed, most=1)


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATORS)
def test_sketches_of_operators_are_right(name: str) -> None:
    assert not complaints(example(name), 1)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 500, PORTION))
def test_sketches_of_drawn_programs_are_right(first: int) -> None:
    for seed in range(first, first + PORTION):
        assert not complaints(drawn_program(seed), seed), f"seed {seed}"
