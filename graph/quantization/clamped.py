"""clamped_weights: constants that are small bytes say so in the text of the program.

    sum[k](i32(x[i, k]) * i32(w[k, j]))
    ->  w_clamped[k, j] = min(max(w[k, j], -64), 64);  sum[k](i32(x[i, k]) * i32(w_clamped[k, j]))

The values that a constant has are seen here, where kernels know its type alone; what clamps them is a part of the
program, so that its kernels are right for any values (tensor/rewrites/dot_words.py: `small_words`). It costs nothing in a call,
for what depends on constants alone is computed once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ...schedules.rules.cpu.dots import LEAST_DEPTH
from ...tensor.dtype import i8, i32
from ...tensor.expr import Cast, Expr, Read, call, const, rewrite
from ...tensor.program import Axis, Program, Stage, Tensor
from ...tensor.stage_edits import factors, free_name, map_stage
from ..model import Model
from .numbers import SMALL_BYTE, Array


def clamped_weights(model: Model) -> Model:
    """The model with such constants clamped to their range where sums of products of integers read them."""
    program, made, stages = model.program, dict[str, Stage](), list[Stage]()
    for stage in program.stages:
        now = stage
        for name in _weights(stage, model.constants):
            if name not in made:
                made[name] = _clamped(program, name, {one.name for one in made.values()})
                stages.append(made[name])
            now = _reading(now, name, made[name].name)
        stages.append(now)
    return replace(model, program=replace(program, stages=tuple(stages))) if made else model


def _weights(stage: Stage, constants: Mapping[str, Array]) -> list[str]:
    """The constants of a sum of products of integers that are small bytes; sums that become none of words have none."""
    if stage.combiner != "sum" or len(stage.bodies) != 1 or stage.tensors[0].dtype != i32:
        return []
    if all(axis.extent < LEAST_DEPTH for axis in stage.reduction):
        return []
    parts = factors(stage.bodies[0])
    reads = [part.arg for part in parts if isinstance(part, Cast) and isinstance(part.arg, Read)]
    if len(parts) != 2:
        return []
    return [read.tensor for read in reads if read.dtype == i8 and _is_small(constants.get(read.tensor))]


def _is_small(values: Array | None) -> bool:
    return values is not None and values.size > 0 and values.min() >= -SMALL_BYTE and values.max() <= SMALL_BYTE


def _clamped(program: Program, name: str, taken: set[str]) -> Stage:
    axes = tuple(Axis(f"d{d}", size) for d, size in enumerate(program.tensors[name].shape))
    tensor = Tensor(free_name(program, f"{name}_clamped", taken), i8, program.tensors[name].shape)
    value: Expr = Read(name, tuple(axis.var for axis in axes), i8)
    for end, number in (("max", -SMALL_BYTE), ("min", SMALL_BYTE)):
        value = call(end, value, const(number, i8))
    return Stage((tensor,), axes, (value,))


def _reading(stage: Stage, old: str, new: str) -> Stage:
    def moved(node: Expr) -> Expr | None:
        return replace(node, tensor=new) if isinstance(node, Read) and node.tensor == old else None

    return map_stage(stage, lambda body: rewrite(body, moved))
