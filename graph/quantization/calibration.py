"""Calibration: which range the data of products have, for inputs as they come."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ...codegen.artifact import BufferSpec
from ...common.errors import ArgumentError
from ...runtime.arguments import accept, argument
from ...tensor.oracle.evaluate import from_memory
from ...tensor.program import Program
from ...tensor.stage_edits import needed_stages
from ..model import Model
from .numbers import Array, checked
from .products import WeightedSum
from .schemes import Range

Observe = Callable[[Model, Sequence[Array]], Sequence[Array]]  # a model and inputs -> its outputs


def samples_of(program: Program, calibration: object) -> tuple[tuple[Array, ...], ...]:
    """Inputs of some calls. Errors: ArgumentError for what the program could not be called with."""
    wanted = program.dynamic_inputs
    if not isinstance(calibration, Sequence) or isinstance(calibration, str) or not calibration:
        raise ArgumentError(
            "calibration is no list of inputs", expected="[inputs, ...], one entry for each call",
            found=type(calibration).__name__,
        )  # fmt: skip
    specs = [BufferSpec(tensor.name, tensor.dtype.name, tensor.shape) for tensor in wanted]
    found = []
    for number, one in enumerate(calibration):
        given = [one[t.name] for t in wanted if t.name in one] if isinstance(one, Mapping) else one
        arrays = (given,) if not isinstance(given, list | tuple) else tuple(given)
        if len(arrays) != len(wanted):
            raise ArgumentError(
                f"calibration[{number}] has another number of inputs than the model",
                expected=", ".join(t.name for t in wanted), found=f"{len(arrays)} arrays",
            )  # fmt: skip
        expected = (argument(f"calibration[{number}]", spec) for spec in specs)
        found.append(tuple(accept(value, operand) for value, operand in zip(arrays, expected, strict=True)))
    return tuple(found)


def values_at(model: Model, names: Sequence[str], inputs: Sequence[Array], observe: Observe) -> dict[str, Array]:
    """Finds what tensors of a model hold for some inputs: those that stages make are computed."""
    program = model.program
    given = {t.name: from_memory(a, t.dtype) for t, a in zip(program.dynamic_inputs, inputs, strict=True)}
    made = [name for name in dict.fromkeys(names) if name not in given]
    found = {name: given[name] for name in names if name in given}
    if made:
        shown = needed_stages(Program(program.inputs, program.stages, tuple(made), program.tables))
        arrays = observe(Model(shown, model.constants, model.name), inputs)
        found |= {n: from_memory(a, program.tensors[n].dtype) for n, a in zip(made, arrays, strict=True)}
    return found


def observed(
    model: Model,
    sums: Sequence[WeightedSum],
    samples: Sequence[Sequence[Array]],
    observe: Observe,
    percentile: float | None,
) -> dict[str, Range]:
    """The range of each tensor of data, over all samples: from the least to the greatest, or what a percentile of a sample's
    absolute values reaches."""
    names = list(dict.fromkeys(one.data.tensor for one in sums if one.data.dtype.is_float))
    found: dict[str, Range] = {}
    for inputs in samples:
        for name, values in values_at(model, names, inputs, observe).items():
            wide = checked(values, f"{name} of a calibration call")
            least, greatest = float(wide.min()), float(wide.max())
            if percentile is not None:
                most = float(np.percentile(np.abs(wide), percentile))
                least, greatest = max(least, -most), min(greatest, most)
            old = found.get(name, Range(0.0, 0.0))
            found[name] = Range(min(old.least, least), max(old.greatest, greatest))
    return found
