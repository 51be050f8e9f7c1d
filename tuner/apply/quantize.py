"""quantize(model, scheme): a model in fewer bits. What only its values tell, this machine's kernels say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...common.errors import ArgumentError
from ...graph.model import Model
from ...graph.quantization.quantize import QuantizedModel, quantized_model
from .compile import compile


def quantize(
    model: Model,
    scheme: str,
    *,
    calibration: object = None,
    group: int = 64,
    percentile: float | None = None,
    weight_bits: int = 8,
    threads: int | None = None,
) -> QuantizedModel:
    """The model with its products of data and weights in fewer bits (docs/low-precision.md); `report` says what that costs.

    Args:
        model: of floats.
        scheme: "int8" or "int4" (weights alone), "dynamic-int8", "static-int8" (weights and data), "bf16".
        calibration: [inputs, ...], as the model is called with them: "static-int8" takes ranges from all of them, and the
            report errors from the first.
        group: weights of four bits that share a scale.
        percentile: of the absolute values of data, which a range reaches; all of them unless given.
        weight_bits: of weights in products of integers; 8, or 7, which processors without an instruction for sums of products
            of bytes multiply faster, at twice the error of the weights.
        threads: how many run the model for calibration.

    Errors: ArgumentError for a scheme that the model cannot take, and for calibration that does not fit its inputs.
    """
    if not isinstance(model, Model):
        raise ArgumentError(
            "that is no model", expected="a Model, as from tilesmith.from_onnx or tilesmith.from_torch",
            found=repr(model)[:80],
        )  # fmt: skip

    def observe(shown: Model, inputs: Sequence[np.ndarray[Any, Any]]) -> Sequence[np.ndarray[Any, Any]]:
        found = compile(shown, threads=threads)(*inputs)
        return found if isinstance(found, tuple) else (found,)

    return quantized_model(model, scheme, observe, calibration, group, percentile, weight_bits)
