"""A search in lanes finds what the search step by step finds; other folds are refused."""

from __future__ import annotations

import numpy as np
import pytest

from tilesmith.common.errors import ProgramError
from tilesmith.tensor import ops
from tilesmith.tensor.oracle.reference import evaluate
from tilesmith.tensor.program import Program
from tilesmith.tensor.rewrites.registry import apply_rewrite
from tilesmith.tensor.text.parse import parse

SEARCH = """
input x: f32[4, 23]
input w: f32[23]
fold[k: 23] {{
    best[i: 4]: f32 = {first}
    place[i: 4]: i64 = {none}
    weight[i: 4]: f32 = 5
    best = select({better}, x[i, k] * x[i, k], best[i])
    place = select({better}, 3 * k + i - 2, place[i])
    weight = select({better}, w[k], weight[i])
}}
return best, place, weight
"""
SQUARE = "x[i, k] * x[i, k]"


def search(better: str = f"{SQUARE} > best[i]", first: str = "-1", none: str = "-7") -> Program:
    return parse(SEARCH.format(better=better, first=first, none=none).strip())


@pytest.mark.parametrize("lanes", [2, 3, 8, 30])
@pytest.mark.parametrize(
    "program",
    [
        ops.argmax((4, 23)),
        ops.argmin((3, 17), dtype="i32"),
        search(),
        search(f"{SQUARE} > best[i]", "4"),
        search(f"best[i] > {SQUARE}", "9", "100"),
    ],
)
def test_equal_to_the_last_bit(program: Program, lanes: int) -> None:
    fold = next(stage.name for stage in program.stages if stage.fold is not None)
    changed = apply_rewrite(program, "fold_lanes", {"stage": fold, "lanes": lanes})
    assert len(changed.stages) == len(program.stages) + 1
    generator = np.random.default_rng(lanes)
    for special in (0.0, 0.2):
        inputs = []
        for declared in program.inputs:
            values = generator.integers(-3, 4, declared.tensor.shape).astype(declared.tensor.dtype.numpy)
            if declared.tensor.dtype.is_float:
                values[generator.random(values.shape) < special] = np.nan
                values[generator.random(values.shape) < special] = np.inf
                values[generator.random(values.shape) < special] = -0.0
            inputs.append(values)
        for ours, theirs in zip(evaluate(changed, inputs), evaluate(program, inputs), strict=True):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    "program",
    [
        search(f"{SQUARE} >= best[i]"),  # the last of equal elements
        search(f"{SQUARE} > best[i] + 1"),
        search(f"{SQUARE} != best[i]"),
        search(f"{SQUARE} > weight[i]"),
        ops.cumsum((4, 23)),
        ops.argmax((4, 23), dtype="bool"),
    ],
)
def test_what_is_no_search_is_refused(program: Program) -> None:
    fold = next(stage.name for stage in program.stages if stage.fold is not None)
    with pytest.raises(ProgramError, match="does not search for a best element") as caught:
        apply_rewrite(program, "fold_lanes", {"stage": fold, "lanes": 4})
    assert "<-- here" in caught.value.where


def test_one_lane_is_refused() -> None:
    with pytest.raises(ProgramError, match="does not search"):
        apply_rewrite(ops.argmax((4, 23)), "fold_lanes", {"stage": "best", "lanes": 1})
