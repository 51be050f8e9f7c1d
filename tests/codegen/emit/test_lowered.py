"""Random programs, sketches and configs, lowered and compiled: the outputs of the oracle, and nothing outside of a buffer."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from helpers.emission.loops import HOST, run
from helpers.lowering.candidates import drawn
from helpers.lowering.programs import MAKERS, random_program
from helpers.lowering.truth import exact_inputs
from tilesmith.tensor import ops
from tilesmith.tensor.oracle.random_inputs import random_inputs
from tilesmith.tensor.oracle.reference import evaluate
from tilesmith.tensor.rewrites.tiles.bf16_parts import bf16_products
from tilesmith.tensor.text.canonical import canonical

COUNT = 32


@pytest.mark.parametrize("seed", range(66))
def test_compiled_candidates_agree_with_the_oracle(seed: int) -> None:
    random = Random(seed)
    program = random_program(random, sorted(MAKERS)[seed % len(MAKERS)])
    loops = drawn(program, HOST, random, COUNT)
    inputs = exact_inputs(program, seed)
    by_name = {declared.tensor.name: array for declared, array in zip(program.inputs, inputs, strict=True)}
    given = [by_name[buffer.name] for buffer in loops.arguments if buffer.name in by_name]
    wanted, scales = evaluate(program, inputs), evaluate(program, inputs, absolute=True)
    outputs = run(loops, given, 1 + seed // len(MAKERS) % 2, at_end=bool(seed % 2))
    for name, output, want, scale in zip(program.outputs, outputs, wanted, scales, strict=True):
        tolerance = 16 * program.tensors[name].dtype.eps * scale + 1e-30
        assert np.all(np.abs(output.reshape(want.shape) - want) <= tolerance), name


@pytest.mark.parametrize("seed", range(6))
def test_compiled_products_of_bfloat16_parts_agree_with_float32(seed: int) -> None:
    """Words made, read and summed by any schedule: within what the sum of float32 itself may be off."""
    random = Random(seed)
    program = canonical(ops.matmul(5, 18, 35, constants=("B",) if seed % 2 else ()))
    loops = drawn(canonical(bf16_products(program, "t0", "a0", "a1", "a2")), HOST, random, COUNT)
    inputs = random_inputs(program, seed)
    given = {item.tensor.name: array for item, array in zip(program.inputs, inputs, strict=True)}
    (wanted,), (scale,) = evaluate(program, inputs), evaluate(program, inputs, absolute=True)
    arguments = [given[b.name] for b in loops.arguments if b.name in given]
    (output,) = run(loops, arguments, 1 + seed // 2 % 2, at_end=bool(seed % 2))
    assert np.all(np.abs(output.reshape(wanted.shape) - wanted) <= 4 * 2.0**-23 * scale)
