"""A model: a program of many stages, and the values of its constants.

There is no other graph than the program: operators, layers and source lines are the origins of its stages.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..common.errors import ArgumentError
from ..common.notebook import facts_html
from ..tensor.program import Program
from .model_files import load_model, save_model
from .model_table import table_of


@dataclass(frozen=True, eq=False, repr=False)
class Model:
    """A program and an array for each of its constant inputs, by name. `str(model)` is a table of its layers."""

    program: Program
    constants: Mapping[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    name: str = "model"

    def __post_init__(self) -> None:
        for tensor in self.program.constant_inputs:
            value = self.constants.get(tensor.name)
            if value is None:
                raise ArgumentError(f"the constant {tensor.name} has no value", expected=f"an array of {tensor.shape}")
            if value.shape != tensor.shape or value.dtype != tensor.dtype.numpy:
                raise ArgumentError(
                    f"the constant {tensor.name} has the wrong shape or dtype",
                    expected=f"{tensor.dtype.numpy}{list(tensor.shape)}",
                    found=f"{value.dtype}{list(value.shape)}",
                )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the model into a folder, or into one file where the path ends in .safetensors: the program's text, its
        constants, and where its stages come from."""
        save_model(Path(path), self.program, self.constants, self.name)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Model:
        """The model that `save` wrote into a folder or file. Errors: ArgumentError for what is none."""
        return Model(*load_model(Path(path)))

    def __str__(self) -> str:
        return table_of(self.program, self.constants, self.name)

    def __repr__(self) -> str:
        program = self.program
        given = ", ".join(f"{t.name}: {t.dtype}{list(t.shape)}" for t in program.dynamic_inputs)
        made = ", ".join(
            f"{t.name}: {t.dtype}{list(t.shape)}" for t in map(program.tensors.__getitem__, program.outputs)
        )
        return f"<Model {self.name} ({given}) -> {made}, {len(program.stages)} stages, {len(self.constants)} constants>"

    def _repr_html_(self) -> str:
        """Returns what goes in and out, and the table of its layers, for notebooks."""
        program, tensors = self.program, self.program.tensors
        facts = {
            "inputs": ", ".join(f"{t.name}: {t.dtype}{list(t.shape)}" for t in program.dynamic_inputs),
            "outputs": ", ".join(
                f"{name}: {tensors[name].dtype}{list(tensors[name].shape)}" for name in program.outputs
            ),
            "stages": str(len(program.stages)),
            "constants": f"{len(self.constants)}, {sum(value.nbytes for value in self.constants.values()) / 1e6:.1f} MB",
        }
        return facts_html(f"Model {self.name}", facts, {"layers": str(self)})
