"""What is compared: a program or a model with its inputs, in a folder that every contender reads.

program.tensor   the program; of a model `ours`, as `Model.save` writes it
inputs.npz       arrays by the names of the inputs, constants of a single program among them
model.onnx       of a model, where it is an ONNX file or could be made one
module.pt        of a model that is a module of PyTorch: pickled, written and read by this program alone
facts.json       operator and its sizes, where there is one; why a form is missing
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...graph.model import Model
from ...tensor.oracle.random_inputs import named_inputs
from ...tensor.printing import print_program
from ...tensor.program import Program
from ...tensor.text.parse import parse
from .calls import Array

_OURS, _PROGRAM, _INPUTS, _FACTS = "ours", "program.tensor", "inputs.npz", "facts.json"
ONNX, MODULE = "model.onnx", "module.pt"


@dataclass(frozen=True)
class Subject:
    """A program, or a model. `operator` and `sizes`: what a person named, if it is one; `reasons`: why a form is missing."""

    program: Program
    model: Model | None = None
    operator: str = ""
    sizes: Mapping[str, Any] = field(default_factory=dict)
    onnx: str = ""
    reasons: Mapping[str, str] = field(default_factory=dict)

    def write(self, folder: Path, seed: int = 1) -> None:
        """Writes it, with inputs that are drawn."""
        if self.model is not None:
            self.model.save(folder / _OURS)
        else:
            (folder / _PROGRAM).write_text(print_program(self.program), encoding="utf-8")
        given = self.program.inputs if self.model is None else [one for one in self.program.inputs if not one.constant]
        arrays = named_inputs(self.program, [one.tensor.name for one in given], seed)
        np.savez(folder / _INPUTS, **arrays)  # type: ignore[arg-type]
        facts = {"operator": self.operator, "sizes": dict(self.sizes), "onnx": self.onnx, "reasons": dict(self.reasons)}
        (folder / _FACTS).write_text(json.dumps(facts), encoding="utf-8")

    @staticmethod
    def read(folder: Path) -> Subject:
        """Reads what `write` wrote."""
        facts = json.loads((folder / _FACTS).read_text(encoding="utf-8"))
        model = Model.load(folder / _OURS) if (folder / _OURS).exists() else None
        program = model.program if model else parse((folder / _PROGRAM).read_text(encoding="utf-8"))
        return Subject(program, model, facts["operator"], facts["sizes"], facts["onnx"], facts["reasons"])


def arrays_of(folder: Path) -> dict[str, Array]:
    """The inputs by name."""
    with np.load(folder / _INPUTS) as held:
        return {name: held[name] for name in held.files}
