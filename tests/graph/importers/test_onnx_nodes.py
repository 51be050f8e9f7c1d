"""ONNX's own tests of operators: none is wrong, what is not covered is refused by a clear error."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pytest

from helpers.onnx_nodes import PASSED, REFUSED, Outcome, cases, operator_of, outcome, table

pytest.importorskip("onnx")

# What is no dense tensor, has no static shape, has no one answer, or is of an opset that is not read.
_OUTSIDE = (
    "strings", "sequences", "Sequence", "optional values", "sizes are left open", "depends on the data", "depends on data",
    "random numbers", "Random", "Bernoulli", "older than 13", "ImageDecoder", "without elements",
)  # fmt: skip


def _all(chosen: Sequence[Any]) -> dict[str, list[Outcome]]:
    found: dict[str, list[Outcome]] = defaultdict(list)
    for case in chosen:
        found[operator_of(case)].append(outcome(case))
    print(table(found))
    return found


def test_a_sample() -> None:
    outcomes = [one for part in _all(cases()[::12]).values() for one in part]
    assert not [one.why for one in outcomes if one.kind not in (PASSED, REFUSED)]
    assert sum(one.kind == PASSED for one in outcomes) >= 0.7 * len(outcomes)


@pytest.mark.slow
def test_all() -> None:
    outcomes = [one for part in _all(cases()).values() for one in part]
    assert not [one.why for one in outcomes if one.kind not in (PASSED, REFUSED)]
    inside = [one for one in outcomes if not any(why in one.why for why in _OUTSIDE)]
    passed = sum(one.kind == PASSED for one in outcomes)
    share = passed / len(inside)
    print(f"{passed} of {len(inside)} with dense tensors and static shapes, {share:.1%}; {len(outcomes)} tests in all")
    assert share >= 0.9
