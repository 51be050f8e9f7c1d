"""A model as people read it: a table of its layers, with what each computes and how many operations and bytes it takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from math import prod

from ..common.printable import printable
from ..schedules.operations import stage_operations
from ..schedules.useful import useful
from ..tensor.program import Origin, Program, Stage, Tensor
from .safetensors import Array

_HEAD = ("layer", "operator", "result", "stages", "FLOPs", "bytes")


@dataclass(frozen=True, slots=True)
class Layer:
    """Neighbouring stages of one origin.

    Attributes:
        results: what other layers read of it, or the model gives.
        operations: all of them, a multiply and an add being two.
        bytes: of what it reads and what it gives, each tensor once.
    """

    origin: Origin
    stages: tuple[Stage, ...]
    results: tuple[Tensor, ...]
    operations: int
    bytes: int


def layers(program: Program) -> tuple[Layer, ...]:
    """The layers of a program, in order."""
    bounds = useful(program)
    found = []
    for origin, group in groupby(program.stages, lambda stage: stage.origin):
        stages = tuple(group)
        own = {tensor.name for stage in stages for tensor in stage.tensors}
        inside = {stage.name for stage in stages}
        results = tuple(
            program.tensors[name]
            for name in own
            if name in program.outputs or any(reader.name not in inside for reader in program.consumers[name])
        )
        read = {read.tensor for stage in stages for read in stage.reads()} - own
        moved = [program.tensors[name] for name in read] + list(results)
        operations = sum(sum(stage_operations(s, bounds.get(s.name, ())).values()) for s in stages)
        found.append(Layer(origin, stages, results, operations, sum(map(_bytes, moved))))
    return tuple(found)


def table_of(program: Program, constants: Mapping[str, Array], name: str) -> str:
    """The table as text."""
    found = layers(program)
    rows = [_row(layer) for layer in found]
    weights = sum(array.nbytes for array in constants.values())
    total = sum(layer.operations for layer in found)
    lines = aligned([_HEAD, *rows])
    foot = f"{name}: {len(program.stages)} stages, {amount(total)}FLOP, {amount(weights)}B of constants"
    return printable("\n".join([*lines, foot]))


def _row(layer: Layer) -> tuple[str, ...]:
    shapes = ", ".join(
        f"{t.dtype}[{', '.join(map(str, t.shape))}]" for t in sorted(layer.results, key=lambda t: t.name)
    )
    return (
        layer.origin.layer or "-", layer.origin.operator or layer.stages[0].name, shapes, str(len(layer.stages)),
        amount(layer.operations), amount(layer.bytes),
    )  # fmt: skip


def aligned(rows: list[tuple[str, ...]]) -> list[str]:
    """Columns of equal width, the first three from the left, the others from the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            c.ljust(w) if n < 3 else c.rjust(w) for n, (c, w) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def amount(number: int) -> str:
    """ "1.82 G", "512 "."""
    for limit, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= limit:
            return f"{number / limit:.3g} {unit}"
    return f"{number} "


def _bytes(tensor: Tensor) -> int:
    return prod(tensor.shape) * tensor.dtype.bytes
