"""What a quantised model costs and saves, layer by layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from ...common.printable import printable
from ..model import Model
from ..model_table import aligned, amount
from .calibration import Observe, values_at
from .numbers import Array, relative_error
from .products import WeightedSum
from .schemes import Quantized


@dataclass(frozen=True, slots=True)
class QuantizedLayer:
    """One sum of products.

    Args:
        layer: where it comes from.
        scheme: what was done with it.
        weights: bytes of its weights before; `narrow`: after, scales among them.
        share: of the products of all layers.
        weights_error: of its weights, in the root mean square, of theirs.
        error: the same of its results for the first calibration inputs, with all layers before it quantised; None without.
    """

    layer: str
    scheme: str
    weights: int
    narrow: int
    share: float
    weights_error: float
    error: float | None


@dataclass(frozen=True, slots=True)
class QuantizationReport:
    """The layers in order. `str(report)` is a table."""

    layers: tuple[QuantizedLayer, ...]
    error: float | None = None  # of the outputs, as of a layer

    def __str__(self) -> str:
        head = ("layer", "scheme", "", "bytes", "now", "products", "weights' error", "error")
        rows = [
            (
                one.layer, one.scheme, "", amount(one.weights), amount(one.narrow), f"{100 * one.share:.1f}%",
                f"{100 * one.weights_error:.3f}%", _percent(one.error),
            )
            for one in self.layers
        ]  # fmt: skip
        total = ("all", "", "", amount(self.weights), amount(self.narrow), "", "", _percent(self.error))
        return printable("\n".join(aligned([head, *rows, total])))

    @property
    def weights(self) -> int:
        """Counts the bytes of all weights before."""
        return sum(one.weights for one in self.layers)

    @property
    def narrow(self) -> int:
        """Counts the bytes of all weights now."""
        return sum(one.narrow for one in self.layers)


def report_of(
    before: Model, after: Model, sums: Sequence[WeightedSum], made: Mapping[str, Quantized],
    samples: Sequence[Sequence[Array]], observe: Observe,
) -> QuantizationReport:  # fmt: skip
    """The report; with errors of results where there are inputs."""
    names = [one.stage.name for one in sums]
    errors: dict[str, float] = {}
    if samples:
        wanted = [*names, *before.program.outputs]
        old, new = (values_at(model, wanted, samples[0], observe) for model in (before, after))
        errors = {name: relative_error(old[name], new[name]) for name in wanted}
    products = {one.stage.name: prod(axis.extent for axis in one.stage.all_axes) for one in sums}
    whole = sum(products.values())
    rows = []
    for one in sums:
        name, found = one.stage.name, made[one.stage.name]
        constants = {read.tensor for stage in found.stages for read in stage.reads()} & set(after.constants)
        narrow = sum(after.constants[n].nbytes for n in constants - set(before.constants))
        rows.append(QuantizedLayer(
            one.stage.origin.layer or name, found.scheme, before.constants[one.weights.tensor].nbytes, narrow,
            products[name] / whole, found.error, errors.get(name),
        ))  # fmt: skip
    outputs = [errors[name] for name in before.program.outputs if name in errors]
    return QuantizationReport(tuple(rows), max(outputs) if outputs else None)


def _percent(error: float | None) -> str:
    return "" if error is None else f"{100 * error:.3f}%"
