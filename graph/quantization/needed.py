"""Dead code elimination after a rewrite of a whole model: unused stages and constants go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ...tensor.program import Program
from ...tensor.stage_edits import needed_stages
from ..model import Model
from .numbers import Array


def needed_model(program: Program, constants: Mapping[str, Array], name: str) -> Model:
    """The model without stages that no output needs, and without constants that nothing reads."""
    whole = needed_stages(program)
    read = {read.tensor for stage in whole.stages for read in stage.reads()} | set(whole.outputs)
    inputs = tuple(item for item in whole.inputs if not item.constant or item.tensor.name in read)
    kept = {item.tensor.name: constants[item.tensor.name] for item in inputs if item.constant}
    return Model(replace(whole, inputs=inputs), kept, name)
