"""A model refuses constants that are missing or of another shape; stages carry the origin that an importer sets."""

from __future__ import annotations

import numpy as np
import pytest

import tilesmith as ts
from tilesmith.common.errors import ArgumentError
from tilesmith.graph.model import Model
from tilesmith.tensor.origins import originating
from tilesmith.tensor.program import Origin


def product() -> ts.Program:
    x, w, k = ts.placeholder((2, 3), name="x"), ts.constant((3, 4), name="w"), ts.reduce_axis(3, "k")
    return ts.program(ts.compute((2, 4), lambda i, j: ts.sum(x[i, k] * w[k, j], k), name="y"))


def test_every_constant_has_a_value_of_its_shape() -> None:
    with pytest.raises(ArgumentError, match="the constant w has no value"):
        Model(product(), {})
    with pytest.raises(ArgumentError, match="wrong shape"):
        Model(product(), {"w": np.zeros((4, 3), np.float32)})
    assert Model(product(), {"w": np.zeros((3, 4), np.float32)}).constants.keys() == {"w"}


def test_stages_carry_the_origin_that_is_set_around_them() -> None:
    with originating(Origin("linear", "encoder.0", "model.py", 12)):
        inside = product()
    assert inside.stages[0].origin == Origin("linear", "encoder.0", "model.py", 12)
    assert product().stages[0].origin.operator == "product"
