"""quantize: a model whose products of data and weights are in fewer bits, with what that costs and saves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from ...common.errors import ArgumentError
from ...common.near import did_you_mean
from ...tensor.program import Input, Stage
from ..model import Model
from .calibration import Observe, observed, samples_of
from .clamped import clamped_weights
from .needed import needed_model
from .numbers import BYTE, SMALL_BYTE
from .products import WeightedSum, weighted_sums
from .report import QuantizationReport, report_of
from .schemes import Quantized, Quantizer

Way = Callable[[Quantizer, WeightedSum], Quantized]

SCHEMES: Mapping[str, Way] = {
    "int8": Quantizer.int8,
    "int4": Quantizer.int4,
    "dynamic-int8": Quantizer.dynamic_int8,
    "static-int8": Quantizer.static_int8,
    "bf16": Quantizer.bf16,
}
CALIBRATED = "static-int8"
LARGEST: Mapping[int, int] = {8: BYTE, 7: SMALL_BYTE}  # bits of weights -> the largest of them
IN_INTEGERS = ("dynamic-int8", "static-int8")


@dataclass(frozen=True, eq=False, repr=False)
class QuantizedModel(Model):
    """A model that `quantize` has made, with a report by layer; it compiles, saves and loads as any other."""

    report: QuantizationReport = field(default_factory=lambda: QuantizationReport(()))


def quantized_model(
    model: Model,
    scheme: str,
    observe: Observe,
    calibration: object = None,
    group: int = 64,
    percentile: float | None = None,
    weight_bits: int = 8,
) -> QuantizedModel:
    """The model in a scheme. `observe`: runs a model, for what only its values tell. Errors: ArgumentError."""
    way = _way(scheme, group, percentile)
    _check_bits(scheme, weight_bits)
    found = weighted_sums(model.program)
    if not found:
        raise ArgumentError(
            f"{model.name} has nothing to quantise",
            expected="a sum of products of data and a constant", found=f"{len(model.program.stages)} stages without",
        )  # fmt: skip
    samples = samples_of(model.program, calibration) if calibration is not None else ()
    if scheme == CALIBRATED and not samples:
        raise ArgumentError(
            f"{scheme} needs calibration", expected="calibration=[inputs, ...], as the model is called with them"
        )
    ranges = observed(model, found, samples, observe, percentile) if scheme == CALIBRATED else {}
    quantizer = Quantizer(model.program, model.constants, group, ranges, LARGEST[weight_bits])
    made = {one.stage.name: way(quantizer, one) for one in found}
    result = clamped_weights(_assembled(model, quantizer, made))
    report = report_of(model, result, found, made, samples[:1], observe)
    return QuantizedModel(result.program, result.constants, result.name, report)


def _way(scheme: str, group: int, percentile: float | None) -> Way:
    way = SCHEMES.get(scheme)
    if way is None:
        near = did_you_mean(scheme, SCHEMES)
        raise ArgumentError(f"unknown scheme {scheme!r}", expected="one of " + ", ".join(SCHEMES), advice=near)
    if group < 2 or group % 2:
        raise ArgumentError("groups have two or more weights", expected="an even group", found=str(group))
    if percentile is not None and not 50 < percentile <= 100:
        raise ArgumentError("that is no percentile", expected="more than 50, at most 100", found=str(percentile))
    return way


def _check_bits(scheme: str, weight_bits: int) -> None:
    if weight_bits not in LARGEST:
        raise ArgumentError("weights in bytes have 8 bits or 7", expected="8 or 7", found=str(weight_bits))
    if weight_bits != 8 and scheme not in IN_INTEGERS:
        raise ArgumentError(
            f"{scheme} has no products of integers, which weights of {weight_bits} bits are for",
            expected="one of " + ", ".join(IN_INTEGERS),
        )


def _assembled(model: Model, quantizer: Quantizer, made: Mapping[str, Quantized]) -> Model:
    """The model with sums replaced, and without constants that nothing reads any more."""
    program = model.program
    stages: list[Stage] = []
    for stage in program.stages:
        if stage.name in made:
            stages += [replace(one, origin=stage.origin) for one in made[stage.name].stages]
        else:
            stages.append(stage)
    new = [Input(tensor, True) for tensor, _ in quantizer.constants.values()]
    values = {**model.constants, **{name: value for name, (_, value) in quantizer.constants.items()}}
    return needed_model(replace(program, inputs=(*program.inputs, *new), stages=tuple(stages)), values, model.name)
