"""Numbers so small that a type holds them as subnormal ones: right kernels pass the checker, wrong ones do not."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.operators.arithmetic import Array, from_memory, to_memory
from helpers.pipeline.candidates import complaint, random_config
from tilesmith.measure.checking.verify import Checker, differing
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor.dtype import DTYPES
from tilesmith.tensor.oracle.random_inputs import random_inputs
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.parse import parse

PLACES = {"f16": 2.0**-24, "bf16": 2.0**-133, "f32": 2.0**-149}
SHAPES = "input x: {0}[8]\ninput y: {0}[8]\n"

# Of operands about the root of some places: their products are subnormal.
ROOTS = {
    "a product": SHAPES + "t[i: 8, j: 8] = x[i] * y[j]\nreturn t",
    "a sum of equal products": SHAPES + "t[i: 8, j: 8] = sum[r: 100, s: 3](x[i] * y[j])\nreturn t",
    "a matrix product": "input x: {0}[7, 90]\ninput y: {0}[90, 9]\nt[i: 7, j: 9] = sum[k: 90](x[i, k] * y[k, j])\nreturn t",
    "a sum of terms": "input x: {0}[8, 200]\ninput y: {0}[8]\nt[i: 8] = sum[k: 200](x[i, k] * x[i, k] + y[i] * y[i])\nreturn t",
    "a product of all": "input x: {0}[8, 5]\nt[i: 8] = prod[k: 3](x[i, k])\nreturn t",
    "a product of all, magnified": "input x: {0}[8, 4]\n"
    "t[i: 8] = prod[k: 4](select(k < 2, x[i, k], x[i, k] * {1} * {1}))\nreturn t",
    "a product that is magnified": SHAPES + "t[i: 8, j: 8] = x[i] * y[j] * {1} * {1}\nreturn t",
    "a quotient": SHAPES + "t[i: 8, j: 8] = x[i] / ({1} + abs(y[j]))\nreturn t",
    "a fold": "input x: {0}[8, 9]\nfold[q: 3] {{\n    t[i: 8]: {0} = 1\n    t = t[i] * x[i, q] * 3\n}}\nreturn t",
    "a stage that another reads": SHAPES + "t[i: 8, j: 8] = x[i] * y[j]\nu[j: 8] = sum[i: 8](t[i, j])\nreturn u",
}
ROOT = {"f16": 2.0**-11, "bf16": 2.0**-65, "f32": 2.0**-72}
MAGNIFIER = {"f16": "1024", "bf16": str(2.0**60), "f32": str(2.0**60)}

# Conversions, of some places of the narrower type.
CASTS = [("f32", "f16"), ("f64", "f16"), ("bf16", "f16"), ("f32", "bf16"), ("f64", "bf16"), ("f64", "f32")]


def tiny(program: Program, scale: float, seed: int = 1) -> tuple[Array, ...]:
    drawn = zip(program.inputs, random_inputs(program, seed), strict=True)
    return tuple(to_memory(from_memory(x, i.tensor.dtype) * scale, i.tensor.dtype) for i, x in drawn)


def complaints(program: Program, inputs: tuple[Array, ...], most: int = 4) -> list[str]:
    """What the checker says of random candidates."""
    task = Task.of(program, parse_target("host"), 1)
    drawn = [(sketch, random_config(task, sketch, np.random.default_rng(0))) for sketch in task.sketches[:most]]
    said = [complaint(task, sketch, values, 0, inputs=inputs) for sketch, values in drawn if values is not None]
    return [one for one in said if one]


@pytest.mark.parametrize("dtype", PLACES)
@pytest.mark.parametrize("name", ROOTS)
def test_right_kernels_pass(name: str, dtype: str) -> None:
    program = parse(ROOTS[name].format(dtype, MAGNIFIER[dtype]))
    for scale in (ROOT[dtype], ROOT[dtype] / 8, ROOT[dtype] * 8):
        assert not complaints(program, tiny(program, scale))


@pytest.mark.parametrize(("source", "dtype"), CASTS)
def test_right_conversions_pass(source: str, dtype: str) -> None:
    program = parse(
        f"input x: {source}[300]\ny[i: 300] = {dtype}(x[i])\nz[i: 300] = y[i] * {MAGNIFIER[dtype]}\nreturn y, z"
    )
    for scale in (1, 20, 1000):
        assert not complaints(program, tiny(program, scale * PLACES[dtype]))


def test_two_places_off_are_found() -> None:
    """In float16: what is that small in float32 may be flushed to zero."""
    program = parse((SHAPES + "t[i: 8, j: 8] = x[i] * y[j]\nreturn t").format("f16"))
    inputs = tiny(program, 4 * ROOT["f16"])
    right = np.outer(*(from_memory(one, DTYPES["f16"]) for one in inputs)).astype(np.float16)
    assert Checker(program, inputs).check([right]) is None
    for off in (-2, 2):
        wrong = right.copy()
        wrong[3, 4] += np.float16(off * PLACES["f16"])
        assert Checker(program, inputs).check([wrong]) is not None


def test_right_results_differ_by_one_place() -> None:
    """Where kernels differ by more, the oracle is asked; here it need not be."""
    one = np.arange(1, 9).astype(np.float16) * np.float16(PLACES["f16"])
    for places, wanted in ((1, []), (2, [3])):
        other = one.copy()
        other[3] += np.float16(places * PLACES["f16"])
        assert differing(other, one, DTYPES["f16"], 0.0).tolist() == wanted
