"""Every operator against NumPy or SciPy, by the oracle."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.operators.case import Case, widened
from helpers.operators.cases import CASES
from tilesmith.tensor import ops
from tilesmith.tensor.oracle.reference import evaluate
from tilesmith.tensor.text.parse import parse


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_operators_compute_what_they_say(case: Case) -> None:
    program = case.program()
    inputs = case.inputs(program, 5)
    found = evaluate(program, inputs)
    with np.errstate(all="ignore"):
        truth = case.truth(*map(widened, inputs))
    wanted = truth if isinstance(truth, tuple) else (truth,)
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-11, strict=False)
        assert one.shape == np.shape(other)
    assert parse(str(program)) == program
    assert {stage.origin.operator for stage in program.stages} == {case.operator}


def test_every_operator_has_a_case() -> None:
    assert {case.operator for case in CASES} == set(ops.OPERATORS)
