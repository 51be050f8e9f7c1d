"""A model: a program of many stages, and the values of its constants.

There is no other graph than the program: operators, layers and source lines are the origins of its stages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..common.errors import ArgumentError
from ..tensor.program import Program


@dataclass(frozen=True, eq=False)
class Model:
    """A program and an array for each of its constant inputs, by name."""

    program: Program
    constants: Mapping[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    name: str = "model"

    def __post_init__(self) -> None:
        for tensor in self.program.constant_inputs:
            value = self.constants.get(tensor.name)
            if value is None:
                raise ArgumentError(f"the constant {tensor.name} has no value", expected=f"an array of {tensor.shape}")
            if value.shape != tensor.shape:
                raise ArgumentError(
                    f"the constant {tensor.name} has the wrong shape",
                    expected=str(tensor.shape),
                    found=str(value.shape),
                )
