"""ONNX's own tests of operators: none is wrong, what is not covered is refused by a clear error."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pytest

from helpers.onnx_nodes import PASSED, REFUSED, Outcome, cases, operator_of, outcome, table

pytest.importorskip("onnx")

# Element types that tensors here do not have, and what is no dense tensor or has no static shape.
_OUTSIDE = (
    "strings", "sequences", "optional values", "float8", "float4", "int4", "int2", "uint16", "uint32", "uint64",
    "depends on the data", "depends on data", "random numbers", "older than 13", "ImageDecoder", "without elements",
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
    assert sum(one.kind == PASSED for one in outcomes) >= 0.9 * len(inside)
