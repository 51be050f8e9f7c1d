"""Statements of the matrix unit: compiled, beside guard pages, against the interpreter; which operands are loaded when."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from helpers.bochs.kernels import emulate
from helpers.emission.loops import HOST, given, index, program, read, result, serial
from helpers.emission.loops import run as run_here
from helpers.lowering.interpreter import Interpreter
from tilesmith.codegen.ir.loop_ir import (
    Allocate,
    Block,
    Buffer,
    For,
    LoopKind,
    LoopProgram,
    MatrixClear,
    MatrixMove,
    MatrixMultiply,
    Scope,
)
from tilesmith.codegen.ir.parsing import parse_loops
from tilesmith.codegen.ir.printing import print_loops
from tilesmith.codegen.pipeline import assembled
from tilesmith.targets.matrix_instructions import BF16_TILES
from tilesmith.targets.matrix_registers import loads_of, products
from tilesmith.targets.target import parse_target
from tilesmith.tensor.dtype import f32, i32
from tilesmith.tensor.expr import Var

SIX = ((0, 0), (0, 1), (1, 1), (1, 0), (2, 0), (0, 2))
WITH_UNIT = parse_target("x86:avx512+amx")


def run(loops: LoopProgram, inputs: list[np.ndarray], threads: int = 1, at_end: bool = True) -> list[np.ndarray]:
    """The outputs: here, or on an emulated processor where this one has no unit."""
    if HOST.has_matrix_unit:
        return run_here(loops, inputs, threads, at_end=at_end)
    artifact = assembled(loops, WITH_UNIT, threads)
    return emulate(artifact, dict(zip([spec.name for spec in artifact.inputs], inputs, strict=True)), at_end)


def pairs(rng: np.random.Generator, *shape: int) -> np.ndarray:
    halves = (rng.standard_normal((2, *shape)).astype(np.float32).view(np.uint32) + 0x8000) >> 16
    return (halves[0] | halves[1] << 16).view(np.int32)


def product_of(
    height: int, width: int, steps: int, parts: tuple[tuple[int, int], ...], accumulates: bool
) -> LoopProgram:
    """C[height * 16, width * 16] (+)= products over `steps` words of 16, with rows of C and of the operands padded."""
    count = 1 + max(max(pair) for pair in parts)
    x = given("x", steps, count, height * 16, 24, dtype=i32)
    y = given("y", width, steps, count, 16, 16, dtype=i32)
    c, before = result("c", height * 16, width * 16 + 8), given("b", height * 16, width * 16)
    tiles, k = Buffer("tiles", f32, (height, width, 16, 16), Scope.TILE), Var("k")
    cells = list(product(range(height), range(width)))
    start = [MatrixMove("tiles", (r, w), read(before, 16 * r, 16 * w), width * 16, False) for r, w in cells]
    multiply = MatrixMultiply(
        "tiles",
        tuple(tuple(read(x, k, p, 16 * r, 0) for p in range(count)) for r in range(height)),
        tuple(tuple(read(y, w, k, p, 0, 0) for p in range(count)) for w in range(width)),
        (24, 16),
        parts,
        BF16_TILES.name,
    )
    end = [MatrixMove("tiles", (r, w), read(c, 16 * r, 16 * w), width * 16 + 8, True) for r, w in cells]
    begin = start if accumulates else [MatrixClear("tiles")]
    return program([x, y, before, c], Allocate(tiles, Block((*begin, serial(k, steps, multiply), *end))))


def inputs_of(loops: LoopProgram) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = [b.shape for b in loops.arguments[:3]]
    return [pairs(rng, *shapes[0]), pairs(rng, *shapes[1]), rng.standard_normal(shapes[2]).astype(np.float32)]


@pytest.mark.parametrize(("height", "width"), [(1, 1), (2, 2), (1, 3), (3, 1), (1, 6), (3, 2), (2, 1)])
@pytest.mark.parametrize("accumulates", [False, True])
def test_compiled_products_of_tiles(height: int, width: int, accumulates: bool) -> None:
    loops = product_of(height, width, 3, SIX, accumulates)
    inputs = inputs_of(loops)
    expected = np.full(loops.arguments[-1].shape, np.nan, np.float32)
    Interpreter(loops).run([*inputs, expected])
    for at_end in (False, True):
        (found,) = run(loops, inputs, at_end=at_end)
        np.testing.assert_allclose(found[:, : width * 16], expected[:, : width * 16], rtol=1e-4, atol=1e-4)
        assert (found[:, width * 16 :].view(np.uint8) == 0xA5).all(), "nothing beside the tiles is written"


def test_one_pair_in_parallel_threads() -> None:
    """Each thread configures the unit for itself; a serial nest before and after does too."""
    x, y = given("x", 40, 16, 16, dtype=i32), given("y", 16, 16, dtype=i32)
    c = result("c", 40, 16, 16)
    tiles, i = Buffer("tiles", f32, (1, 1, 16, 16), Scope.TILE), Var("i")
    body = Allocate(
        tiles,
        Block(
            (
                MatrixClear("tiles"),
                MatrixMultiply(
                    "tiles", ((read(x, i, 0, 0),),), ((read(y, 0, 0),),), (16, 16), ((0, 0),), BF16_TILES.name
                ),
                MatrixMove("tiles", (0, 0), read(c, i, 0, 0), 16, True),
            )
        ),
    )
    loops = program([x, y, c], For("i", index(40), body, LoopKind.PARALLEL))
    rng = np.random.default_rng(0)
    inputs = [pairs(rng, *x.shape), pairs(rng, *y.shape)]
    expected = np.full(c.shape, np.nan, np.float32)
    Interpreter(loops).run([*inputs, expected])
    (found,) = run(loops, inputs, threads=2)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_text_parses_back() -> None:
    for accumulates in (False, True):
        text = print_loops(product_of(2, 2, 3, SIX, accumulates))
        assert print_loops(parse_loops(text)) == text
        assert "tiles tiles += amx_bf16 0*0 0*1 1*1 1*0 2*0 0*2:" in text


def test_every_product_once() -> None:
    found = products(2, 3, SIX)
    assert len(set(found)) == len(found) == 2 * 3 * 6
    assert {(x[2], y[2]) for x, y in found} == set(SIX)


def test_operands_that_stay_are_not_loaded_again() -> None:
    assert loads_of(1, 1, SIX, BF16_TILES.registers) == 6  # each part once
    assert loads_of(2, 2, ((0, 0),), BF16_TILES.registers) == 4
    assert loads_of(2, 2, SIX, BF16_TILES.registers) <= 16
    assert loads_of(3, 1, ((0, 0),), BF16_TILES.registers) == 4
