"""Programs and what rewrites have made of them."""

from __future__ import annotations

import numpy as np

from tilesmith.tensor.oracle.random_inputs import random_inputs
from tilesmith.tensor.oracle.reference import evaluate
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.parse import parse


def agree(original: Program, rewritten: Program, tolerance: float = 1e-11) -> None:
    """The same outputs on the same memory; and the rewritten one survives printing."""
    inputs = random_inputs(original, 11)
    seen = [x.reshape(item.tensor.shape) for x, item in zip(inputs, rewritten.inputs, strict=True)]
    assert rewritten.outputs == original.outputs
    for a, b in zip(evaluate(original, inputs), evaluate(rewritten, seen), strict=True):
        np.testing.assert_allclose(b.ravel(), a.ravel(), rtol=tolerance, atol=tolerance)
    assert parse(str(rewritten)) == rewritten
