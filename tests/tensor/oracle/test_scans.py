"""Scans of scans: what the oracle says of recursive filters is what SciPy's loop says, whole and at points, and does not take
one scan for each step of another."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilesmith.tensor.oracle import blocks, evaluator
from tilesmith.tensor.oracle.reference import evaluate, evaluate_at
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.parse import parse

Array = np.ndarray[Any, Any]
DECAY = 0.25


def there_and_back(height: int, width: int, times: int = 1, steps_of_two: bool = False) -> Program:
    """Decaying means down and up the columns, then along the rows and back; between them a stage that reads neighbours."""
    lines, last = [f"input x: f32[2, {height}, {width}]"], "x"
    for number in range(4 * times):
        along, extent = ("i", height) if number % 4 < 2 else ("j", width)
        place = f"{extent - 1} - k" if number % 2 else "k"
        here = f"{last}[n, {place}, j]" if along == "i" else f"{last}[n, i, {place}]"
        kept, state = ("j", f"j: {width}") if along == "i" else ("i", f"i: {height}")
        name = f"t{number}"
        lines += [
            f"fold[k: {extent}] {{",
            f"{name}s[n: 2, {state}]: f32 = 0",
            f"{name}[n: 2, i: {height}, j: {width}]: f32 = 0",
            f"let new = {name}s[n, {kept}] * {1 - DECAY} + {here} * {DECAY}",
            f"{name}s = new",
            f"{name} = select({along} == {place}, new, {name}[n, i, j])",
            "}",
        ]
        if number == 1 and steps_of_two:
            lines.append(
                f"m[n: 2, i: {height}, j: {width}] = {name}[n, i, j] + {name}[n, max(i - 1, 0), min(j + 1, {width - 1})]"
            )
            name = "m"
        last = name
    return parse("\n".join([*lines, f"return {last}"]))


def by_loops(x: Array, times: int = 1, steps_of_two: bool = False) -> Array:
    found = x.astype(np.float64)
    for number in range(4 * times):
        rows = found.swapaxes(1, 2).copy() if number % 4 >= 2 else found.copy()
        order = range(rows.shape[1])
        state = np.zeros((rows.shape[0], rows.shape[2]))
        for step in reversed(order) if number % 2 else order:
            state = state * (1 - DECAY) + rows[:, step] * DECAY
            rows[:, step] = state
        found = rows.swapaxes(1, 2) if number % 4 >= 2 else rows
        if number == 1 and steps_of_two:
            _, height, width = found.shape
            found = (
                found + found[:, np.maximum(np.arange(height) - 1, 0)][..., np.minimum(np.arange(width) + 1, width - 1)]
            )
    return found


@pytest.mark.parametrize("between", [False, True])
@pytest.mark.parametrize(
    ("height", "width", "block"), [(13, 17, 1 << 20), (13, 17, 40), (9, 30, 7), (1, 5, 64), (6, 1, 8)]
)
def test_scans_of_scans_are_right(
    between: bool, height: int, width: int, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "BLOCK_POINTS", block)
    program, rng = there_and_back(height, width, steps_of_two=between), np.random.default_rng(3)
    x = rng.standard_normal((2, height, width)).astype(np.float32)
    wanted = by_loops(x, steps_of_two=between)
    (found,) = evaluate(program, [x])
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-6)
    points = [tuple(int(rng.integers(0, size)) for size in found.shape) for _ in range(5)]
    at = evaluate_at(program, [x], program.outputs[0], np.array(points))
    np.testing.assert_allclose(at, [wanted[point] for point in points], rtol=0, atol=1e-6)


def test_no_step_of_a_scan_runs_another_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight scans, one behind the other, are eight runs, also where a few points are asked for."""
    runs = []
    kept = evaluator.Evaluator._run_fold

    def counted(self: evaluator.Evaluator, stage: Any, *args: Any) -> Any:
        runs.append(stage.name)
        return kept(self, stage, *args)

    monkeypatch.setattr(evaluator.Evaluator, "_run_fold", counted)
    program = there_and_back(40, 30, times=2)
    x = np.random.default_rng(0).standard_normal((2, 40, 30)).astype(np.float32)
    evaluate_at(program, [x], program.outputs[0], np.array([(1, 7, 3)]))
    assert len(runs) == 8


def test_a_step_of_a_scan_computes_what_it_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A state and a row: no tensor of all rows is made anew at each step."""
    largest = 0
    kept = evaluator.evaluate_expr

    def measured(expr: Any, scope: Any) -> Any:
        nonlocal largest
        found = kept(expr, scope)
        largest = max(largest, found[0].size)
        return found

    monkeypatch.setattr(evaluator, "evaluate_expr", measured)
    evaluate(there_and_back(40, 30), [np.zeros((2, 40, 30), np.float32)])
    assert largest <= 2 * 40
