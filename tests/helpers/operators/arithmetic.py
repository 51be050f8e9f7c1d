"""Programs in the arithmetic that they ask for, operator by operator in NumPy: each result is rounded to its dtype.

It knows no kernel and no error bound, so that what a program of f16 or bf16 loses shows even where no code was generated.
Floats of up to 32 bits are carried as float32; functions are computed in float64 and rounded once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from tilesmith.tensor.dtype import DType, accumulator
from tilesmith.tensor.expr import Cast, Const, Expr, Local, Op, Read, Var
from tilesmith.tensor.language import MATHEMATICS
from tilesmith.tensor.program import Program, Stage

Array = NDArray[Any]


def sigmoid(x: Array) -> Array:
    """SciPy's is 0 from -710 on, where the truth is subnormal."""
    return np.where(x < -40, np.exp(x), special.expit(x))


def erfc(x: Array) -> Array:
    """SciPy's is off by hundreds of units where it is small; exp(x^2) erfc(x) is not."""
    with_tail = np.exp(-(x.astype(np.longdouble) ** 2)) * special.erfcx(np.maximum(x, 0))
    return np.where(x > 0.5, with_tail, special.erfc(x)).astype(np.float64)


FUNCTIONS = {
    name: entry.value for name, entry in MATHEMATICS.items() if entry.rounding and max(entry.rounding.ulp) > 0.5
}
FUNCTIONS |= {"erfc": erfc, "sigmoid": sigmoid}
EXACT = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "floordiv": np.floor_divide, "mod": np.mod,
    "neg": np.negative, "min": np.minimum, "max": np.maximum, "abs": np.abs, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal, "and": np.logical_and,
    "or": np.logical_or, "not": np.logical_not, "sqrt": np.sqrt, "floor": np.floor, "ceil": np.ceil, "round": np.rint,
    "select": np.where,
}  # fmt: skip
COMBINERS = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


def computed(program: Program, inputs: Sequence[Array]) -> tuple[Array, ...]:
    """All outputs, of inputs as they lie in memory; bfloat16 comes out as float32."""
    known = {i.tensor.name: from_memory(a, i.tensor.dtype) for i, a in zip(program.inputs, inputs, strict=True)}
    for table in program.tables:
        known[table.tensor.name] = rounded(np.array(table.values).reshape(table.tensor.shape), table.tensor.dtype)
    with np.errstate(all="ignore"):
        for stage in program.stages:
            known.update(_fold(stage, known) if stage.fold else _plain(stage, known))
    return tuple(known[name] for name in program.outputs)


def rounded(values: Array, dtype: DType) -> Array:
    """Values as a dtype holds them, rounded once, to nearest even."""
    if not dtype.is_float or dtype.name == "f64":
        return values.astype(np.float64 if dtype.is_float else dtype.numpy)
    if dtype.name == "f16":
        with np.errstate(over="ignore"):
            return values.astype(np.float16).astype(np.float32)
    if dtype.name == "f32":
        with np.errstate(over="ignore"):
            return values.astype(np.float32)
    values = values.astype(np.float64)  # what is cut off to leave 8 bits is found exactly in float64
    fraction, exponent = np.frexp(values)
    bits = np.maximum(exponent - 8, -133)
    short = np.ldexp(np.rint(np.ldexp(fraction, exponent - bits)), bits)
    short = np.where(np.abs(short) >= 2.0**128, np.copysign(np.inf, values), short)
    return np.where(np.isfinite(values), np.copysign(short, values), values).astype(np.float32)


def from_memory(array: Array, dtype: DType) -> Array:
    """An array as it lies in memory, in the dtype in which it is carried here."""
    if dtype.name == "bf16":
        return (array.astype(np.uint32) << 16).view(np.float32)
    return rounded(array, dtype)


def to_memory(values: Array, dtype: DType) -> Array:
    """Values rounded to a dtype, as they lie in memory."""
    short = rounded(np.asarray(values), dtype)
    if dtype.name == "bf16":
        bits = np.ascontiguousarray(short, np.float32).view(np.uint32) >> 16
        return (bits | np.where(np.isnan(short), 0x40, 0).astype(np.uint32)).astype(np.uint16)
    return np.ascontiguousarray(short, dtype=dtype.numpy)


def _grid(stage: Stage) -> Mapping[str, Array]:
    rank = len(stage.all_axes)
    return {
        axis.name: np.arange(axis.extent).reshape([-1 if d == n else 1 for d in range(rank)])
        for n, axis in enumerate(stage.all_axes)
    }


@dataclass
class _Scope:
    """Where an expression is evaluated. `done`: what was found for each node, which stands in many places."""

    axes: Mapping[str, Array]
    known: Mapping[str, Array]
    local: dict[str, Array] = field(default_factory=dict)
    done: dict[int, Array] = field(default_factory=dict)

    def value(self, expr: Expr) -> Array:
        if id(expr) not in self.done:
            self.done[id(expr)] = _value(expr, self)
        return self.done[id(expr)]


def _plain(stage: Stage, known: Mapping[str, Array]) -> dict[str, Array]:
    shape, scope = tuple(axis.extent for axis in stage.all_axes), _Scope(_grid(stage), known)
    found = [np.broadcast_to(scope.value(body), shape) for body in stage.bodies]
    if stage.combiner is None:
        return {t.name: np.array(v) for t, v in zip(stage.tensors, found, strict=True)}
    kind = stage.tensors[0].dtype
    inside = rounded(found[0], accumulator(kind)) if stage.combiner in ("sum", "prod") else found[0]
    terms = inside.reshape(*(axis.extent for axis in stage.axes), prod(axis.extent for axis in stage.reduction))
    return {stage.name: rounded(COMBINERS[stage.combiner].reduce(terms, axis=-1, dtype=terms.dtype), kind)}


def _fold(stage: Stage, known: Mapping[str, Array]) -> dict[str, Array]:
    assert stage.fold is not None
    state = {
        tensor.name: np.full([a.extent for a in stage.axes_of(n)], rounded(np.array(first.value), tensor.dtype))
        for n, (tensor, first) in enumerate(zip(stage.tensors, stage.fold.initial, strict=True))
    }
    (ordered,) = stage.reduction
    shape = [*(axis.extent for axis in stage.axes), 1]
    for step in range(ordered.extent):
        scope = _Scope({**_grid(stage), ordered.name: np.array(step)}, {**known, **state})
        for name, expr in stage.fold.locals:
            scope.local[name] = scope.value(expr)
        for number, (tensor, body) in enumerate(zip(stage.tensors, stage.bodies, strict=True)):
            order = [stage.axes.index(axis) for axis in stage.axes_of(number)]
            place = tuple(slice(None) if d in order else 0 for d in range(len(stage.axes)))
            state[tensor.name] = np.array(np.broadcast_to(scope.value(body), shape)[(*place, 0)].transpose(order))
    return state


def _value(expr: Expr, scope: _Scope) -> Array:
    match expr:
        case Const(value=value, dtype=dtype):
            return rounded(np.array(value), dtype)
        case Var(name=name):
            return scope.axes[name]
        case Local(name=name):
            return scope.local[name]
        case Read(tensor=tensor, indices=indices):
            array = scope.known[tensor]
            places = [scope.value(index) for index in indices]
            return array[tuple(np.clip(p, 0, size - 1) for p, size in zip(places, array.shape, strict=True))]
        case Cast(arg=arg, dtype=dtype):
            value = scope.value(arg)
            if dtype.is_integer and arg.dtype.is_float:
                value = np.trunc(value)
            return value != 0 if dtype.name == "bool" else rounded(value, dtype)
        case Op(name=name, args=args, dtype=dtype):
            values = [scope.value(arg) for arg in args]
            if name in FUNCTIONS and dtype.name != "f64":
                return rounded(FUNCTIONS[name](*(v.astype(np.float64) for v in values)), dtype)
            result = np.asarray({**EXACT, **FUNCTIONS}[name](*values))
            return rounded(result, dtype) if dtype.is_float else result
    raise TypeError(f"unknown expression node {type(expr).__name__}")
