"""Faults that kernels have, planted into right outputs: what a kernel with the fault would leave in memory.

The right output is the oracle's, rounded. Faults of reductions are made by evaluating the program with another value of the
stage in question: without one of its terms, or with terms added up in a narrow type.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from tilesmith.tensor.dtype import DTYPES, DType, Kind, accumulator
from tilesmith.tensor.expr import Expr, Read, Var, call
from tilesmith.tensor.identity import identity
from tilesmith.tensor.oracle.evaluator import Evaluator
from tilesmith.tensor.oracle.roundings import FACTOR
from tilesmith.tensor.program import Program, Stage

Array = NDArray[np.generic]
Outputs = list[Array]  # float64 for floats, of the kernel's exact values

_NARROW = {"f64": "f32", "f32": "bf16", "f16": "f16", "bf16": "bf16", "i64": "i8", "i32": "i8", "i16": "i8"}
_ROUNDINGS = (
    64  # of float32 or float64 that any computation may make, of its largest value; a sum of n terms may make n
)
_COMBINE = {"sum": np.add, "prod": np.multiply}


def outputs_of(program: Program, inputs: Sequence[Array], known: dict[str, Array] | None = None) -> Outputs:
    """All outputs by the oracle, unrounded; `known`: what stages gave that are not evaluated."""
    evaluator = Evaluator(program, inputs, errors=False)
    for name, values in (known or {}).items():
        evaluator._whole[name] = values, None
    with np.errstate(all="ignore"):
        return [np.array(evaluator.whole(name)[0]) for name in program.outputs]


def stored(values: Array, dtype: DType) -> Array:
    """What a kernel writes for these values, as it lies in memory."""
    if dtype.kind is not Kind.BFLOAT:
        with np.errstate(all="ignore"):
            return values.astype(dtype.numpy)
    bits = values.astype(np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return np.where(np.isnan(values), 0x7FC0, rounded).astype(np.uint16)


def rounded(values: Array, dtype: DType) -> Array:
    """Floats as numbers of a dtype; integers wrap."""
    raw = stored(values, dtype)
    if dtype.kind is Kind.BFLOAT:
        return (raw.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return raw.astype(values.dtype)


def whole_faults(right: Outputs, others: Outputs) -> Iterator[tuple[str, Outputs]]:
    """Faults of what is written, whatever it is; `others`: the outputs for other inputs."""
    yield "zeros", [np.zeros_like(values) for values in right]
    first = right[0].reshape(-1)
    middle = first.size // 2
    yield "wrong tail", _changed(right, -1, first[0])
    yield "stale", _changed(right, middle, others[0].reshape(-1)[middle])
    shape = right[0].shape
    if len(shape) > 1:
        row, column = (size // 2 for size in shape[-2:])
        yield "row of zeros", _changed(right, np.index_exp[shape[0] // 2], 0)
        yield "block of zeros", _changed(right, np.index_exp[..., row : row + 4, column : column + 4], 0)


def _changed(outputs: Outputs, place: object, value: object) -> Outputs:
    """Outputs with another value in a place of the first, which is flat where it is one number."""
    found = [values.copy() for values in outputs]
    (found[0].reshape(-1) if isinstance(place, int | np.integer) else found[0])[place] = value  # type: ignore[index]
    return found


def reduction_faults(program: Program, inputs: Sequence[Array], many: int = 0) -> Iterator[tuple[str, Outputs]]:
    """Faults of each reduction: terms left out at the end and in the middle, one or `many`, and sums in a narrow type."""
    for stage in program.stages:
        if not stage.reduction:
            continue
        axis = max(stage.reduction, key=lambda a: a.extent)
        for count in dict.fromkeys((1, many or 1)):
            if count < axis.extent:
                for where, end in (("last", axis.extent), ("middle", (axis.extent + count) // 2)):
                    dropped = without(program, stage, axis.name, end - count, end)
                    yield f"{where} {count} of {stage.name} left out", outputs_of(dropped, inputs)
        if stage.combiner in _COMBINE and stage.bodies[0].dtype.name in _NARROW:
            yield f"{stage.name} narrow", accumulated(program, stage, inputs)


def why_invisible(program: Program, right: Outputs, fault: Outputs) -> str:
    """The reason why no check can find a fault in what a kernel stores; "" where it can."""
    dtypes = [program.tensors[name].dtype for name in program.outputs]
    terms = [prod(axis.extent for axis in stage.reduction) for stage in program.stages]
    roundings = max(_ROUNDINGS, *terms)
    reasons = {_why(one, other, dtype, roundings) for one, other, dtype in zip(right, fault, dtypes, strict=True)}
    return "" if "" in reasons else max(reasons, key=len)


def _why(right: Array, fault: Array, dtype: DType, roundings: int) -> str:
    if np.array_equal(rounded(right, dtype), rounded(fault, dtype), equal_nan=dtype.is_float):
        return "the same values"
    if not dtype.is_float:
        return ""
    with np.errstate(invalid="ignore"):
        kept = rounded(fault, dtype)
        change = np.where(right == kept, 0.0, np.abs(right - kept))
        size, least = np.abs(right), 2.0**-25 if dtype.name == "f16" else 0.0
        largest = np.max(size, where=np.isfinite(size), initial=0.0)
    computed = accumulator(dtype)
    if computed != dtype:
        allowed, reason = size * (dtype.eps + FACTOR * roundings * computed.eps) / 2 + least, f"half a unit of {dtype}"
    else:
        allowed, reason = largest * roundings * dtype.eps / 2, f"{roundings} roundings of {dtype}"
    return "" if np.any(change > allowed) else reason


def without(program: Program, stage: Stage, axis: str, first: int, end: int) -> Program:
    """The program whose stage skips these places of a reduction axis."""
    place = Var(axis)
    skipped = (place >= first) & (place < end)

    def changed(number: int, body: Expr) -> Expr:
        tensor = stage.tensors[number]
        if stage.fold is None:
            return call("select", skipped, identity(stage.combiner or "", body.dtype), body)
        own = Read(tensor.name, tuple(Var(a.name) for a in stage.axes_of(number)), tensor.dtype)
        return call("select", skipped, own, body)

    bodies = tuple(changed(number, body) for number, body in enumerate(stage.bodies))
    return program.replacing(tuple(replace(s, bodies=bodies) if s is stage else s for s in program.stages))


def accumulated(program: Program, stage: Stage, inputs: Sequence[Array]) -> Outputs:
    """All outputs where a stage adds up, or multiplies, in a narrow type, one term after the other."""
    axes = (*stage.axes, *stage.reduction)
    shape, name = tuple(axis.extent for axis in axes), stage.tensors[0].name
    terms_stage = replace(
        stage, tensors=(replace(stage.tensors[0], shape=shape),), axes=axes, reduction=(), combiner=None
    )
    before = program.stages[: program.stages.index(stage)]
    evaluator = Evaluator(_Open(program, (*before, terms_stage)), inputs, errors=False)
    with np.errstate(all="ignore"):
        terms = np.broadcast_to(evaluator.whole(name)[0], shape).reshape(*shape[: len(stage.axes)], -1)
        dtype = stage.bodies[0].dtype
        narrow = _narrow_of(program, dtype)
        total = np.full(terms.shape[:-1], 0 if stage.combiner == "sum" else 1, terms.dtype)
        for k in range(terms.shape[-1]):
            total = rounded(_COMBINE[stage.combiner](total, terms[..., k]), narrow)
    return outputs_of(program, inputs, {name: total.astype(terms.dtype)})


def _narrow_of(program: Program, dtype: DType) -> DType:
    """What a fault accumulates in: the narrow type of the inputs where there is one, else the next narrower one."""
    found = [i.tensor.dtype for i in program.inputs if i.tensor.dtype.is_float and i.tensor.dtype.bits < 32]
    return found[0] if found and dtype.is_float else DTYPES[_NARROW[dtype.name]]


class _Open:
    """The part of a program before one of its stages, and the terms of that: no whole program, but enough to evaluate."""

    def __init__(self, program: Program, stages: Sequence[Stage]) -> None:
        self.inputs, self.tables, self.stages = program.inputs, program.tables, tuple(stages)
        self.tensors = {**program.tensors, **{t.name: t for s in stages for t in s.tensors}}
        self.producers = {t.name: s for s in stages for t in s.tensors}
