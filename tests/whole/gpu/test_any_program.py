"""Nothing fails on a GPU either: operators and drawn programs by what the rules derive, in the emulator."""

from __future__ import annotations

import pytest

from helpers.gpu.candidates import EMULATORS, body_of, fault, sketches, some_configs
from helpers.pipeline.drawn import drawn_program
from tilesmith.codegen.pipeline import build
from tilesmith.targets.target import Target, parse_target
from tilesmith.tensor.ops import OPERATORS
from tilesmith.tensor.ops.catalogue import example
from tilesmith.tensor.program import Program

NAMES = sorted(OPERATORS)
PORTION = 25


def complaints(program: Program, seed: int, target: Target, most: int | None = None) -> list[str]:
    """What is wrong with a random config of each sketch, or of the first `most` sketches."""
    body, found = body_of(program), []
    for sketch in sketches(body, target)[:most]:
        for values in some_configs(body, sketch, 1, seed, target):
            try:
                wrong = fault(body, build(body, sketch, values, target, 1), seed)
            except Exception as error:
                wrong = f"{type(error).__name__}: {error}"
            if wrong:
                found.append(f"{wrong}\n{sketch.text}\n{values}\n{body}")
    return found


def one_of(seed: int) -> Target:
    """The emulators in turn."""
    return parse_target(EMULATORS[seed % len(EMULATORS)])


@pytest.mark.parametrize("name", NAMES)
def test_rules_derive_sketches_of_every_operator(name: str) -> None:
    for target in EMULATORS:
        sketches(body_of(example(name)), parse_target(target))


@pytest.mark.parametrize("seed", range(12))
def test_a_sketch_of_drawn_programs_is_right(seed: int) -> None:
    assert not complaints(drawn_program(seed), seed, one_of(seed), most=1)


@pytest.mark.slow
@pytest.mark.parametrize("target", EMULATORS)
@pytest.mark.parametrize("name", NAMES)
def test_sketches_of_operators_are_right(name: str, target: str) -> None:
    assert not complaints(example(name), 1, parse_target(target))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 500, PORTION))
def test_sketches_of_drawn_programs_are_right(first: int) -> None:
    for seed in range(first, first + PORTION):
        assert not complaints(drawn_program(seed), seed, one_of(seed)), f"seed {seed}"
