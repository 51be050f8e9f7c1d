"""What a program means, told a second time: NumPy over all points of a stage, sharing no code with the oracle.

Floats are float64, integers wrap at their own width. Only what a `select` chooses is evaluated, so that a read which
stands outside of its tensor is an error here, never a clamped element.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilesmith.tensor.dtype import DType
from tilesmith.tensor.expr import Cast, Const, Expr, Local, Op, Read, Var
from tilesmith.tensor.oracle.reference import bounded
from tilesmith.tensor.program import Program, Stage

Array = NDArray[Any]
ROOM = 4.0  # of a bound: it takes roundings for independent, and here sums have equal terms
NEAR = 0.05  # of a value whose error nobody can bound


def plain_results(program: Program, inputs: Sequence[Array]) -> list[Array]:
    """The outputs, in order: float64, int64 or bool. Raises IndexError for a read outside of its tensor."""
    tensors: dict[str, Array] = {}
    for item, array in zip(program.inputs, inputs, strict=True):
        tensors[item.tensor.name] = numbers(array, item.tensor.dtype)
    for table in program.tables:
        tensors[table.tensor.name] = _held(np.array(table.values), table.tensor.dtype).reshape(table.tensor.shape)
    with np.errstate(all="ignore"):
        for stage in program.stages:
            tensors.update(_fold(stage, tensors) if stage.fold is not None else _stage(stage, tensors))
    return [tensors[name] for name in program.outputs]


def numbers(array: Array, dtype: DType) -> Array:
    """An array as it lies in memory, as float64, int64 or bool."""
    if dtype.name == "bf16":
        return (array.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return array.astype(bool if dtype.name == "bool" else np.float64 if dtype.is_float else np.int64)


def _held(values: Array, dtype: DType) -> Array:
    """Numbers as a dtype holds them: integers wrap; floats stay float64."""
    if dtype.name == "bool":
        return values.astype(bool)
    if dtype.is_float:
        return values.astype(np.float64)
    if dtype.bits == 64:
        return values.astype(np.int64)
    values = values.astype(np.int64) & ((1 << dtype.bits) - 1)
    if dtype.name[0] == "i":
        values = values - ((values >> (dtype.bits - 1)) << dtype.bits)
    return values


def _points(extents: Sequence[int]) -> list[Array]:
    return [axis.reshape(-1) for axis in np.indices(tuple(extents))]


def _stage(stage: Stage, tensors: Mapping[str, Array]) -> dict[str, Array]:
    shape = tuple(a.extent for a in stage.axes)
    names = [a.name for a in stage.all_axes]
    places = dict(zip(names, _points([a.extent for a in stage.all_axes]), strict=True))
    count = math.prod(a.extent for a in stage.all_axes)
    found = {}
    for tensor, body in zip(stage.tensors, stage.bodies, strict=True):
        values = _Points(places, count, tensors).value(body)
        if stage.reduction:
            rows = values.reshape(math.prod(shape), -1)
            values = rows[:, 0]
            for column in range(1, rows.shape[1]):
                values = _held(_COMBINE[str(stage.combiner)](values, rows[:, column]), tensor.dtype)
        found[tensor.name] = values.reshape(shape)
    return found


def _fold(stage: Stage, tensors: Mapping[str, Array]) -> dict[str, Array]:
    fold, (ordered,) = stage.fold, stage.reduction
    assert fold is not None
    states = {
        t.name: np.full([a.extent for a in stage.axes_of(n)], fold.initial[n].value, dtype=_kind(t.dtype))
        for n, t in enumerate(stage.tensors)
    }
    for step in range(ordered.extent):
        new = {}
        for n, (tensor, body) in enumerate(zip(stage.tensors, stage.bodies, strict=True)):
            axes = stage.axes_of(n)
            extents = [a.extent for a in axes]
            places = dict(zip([a.name for a in axes], _points(extents), strict=True))
            count = math.prod(extents)
            places[ordered.name] = np.full(count, step)
            points = _Points(places, count, {**tensors, **states}, dict(fold.locals))
            new[tensor.name] = points.value(body).reshape(extents)
        states = new
    return states


def _kind(dtype: DType) -> type:
    return bool if dtype.name == "bool" else float if dtype.is_float else np.int64


class _Points:
    """Expressions at a list of points."""

    def __init__(
        self, places: Mapping[str, Array], count: int, tensors: Mapping[str, Array],
        locals_: Mapping[str, Expr] | None = None,
    ) -> None:  # fmt: skip
        self.places, self.count, self.tensors, self.locals = places, count, tensors, locals_ or {}

    def value(self, expr: Expr) -> Array:
        """One number for each point."""
        match expr:
            case Const(value=value, dtype=dtype):
                return np.full(self.count, value, dtype=_kind(dtype))
            case Var(name=name):
                return self.places[name]
            case Local(name=name):
                return self.value(self.locals[name])
            case Read(tensor=name, indices=indices):
                return self._read(self.tensors[name], [self.value(index) for index in indices])
            case Cast(arg=arg, dtype=dtype):
                return _cast(self.value(arg), dtype)
            case Op(name="select", args=(condition, yes, no)):
                return self._select(self.value(condition), yes, no, expr.dtype)
            case Op(name=name, args=args, dtype=dtype):
                return _held(_OPERATORS[name](*map(self.value, args)), dtype)
        raise TypeError(f"no meaning for {type(expr).__name__}")

    def _read(self, tensor: Array, indices: list[Array]) -> Array:
        for index, extent in zip(indices, tensor.shape, strict=True):
            if self.count and (index.min() < 0 or index.max() >= extent):
                raise IndexError(f"{index.min()} .. {index.max()} of {extent}")
        return tensor[tuple(indices)] if indices else np.full(self.count, tensor)

    def _select(self, chosen: Array, yes: Expr, no: Expr, dtype: DType) -> Array:
        result = np.zeros(self.count, dtype=_kind(dtype))
        for mask, arm in ((chosen, yes), (~chosen, no)):
            some = {name: place[mask] for name, place in self.places.items()}
            result[mask] = _Points(some, int(mask.sum()), self.tensors, self.locals).value(arm)
        return result


def _cast(values: Array, dtype: DType) -> Array:
    if dtype.name == "bool":
        return values != 0
    if not dtype.is_float and values.dtype.kind == "f":
        values = np.trunc(values)
    return _held(values, dtype)


def _floor_divide(a: Array, b: Array) -> Array:
    """Rounded down; 0 where b is."""
    size = np.abs(a) // np.where(b == 0, 1, np.abs(b))
    exact = size * np.abs(b) == np.abs(a)
    return np.where(b == 0, 0, np.where((a < 0) == (b < 0), size, np.where(exact, -size, -size - 1)))


def _remainder(a: Array, b: Array) -> Array:
    return np.where(b == 0, 0, a - b * _floor_divide(a, b))


def _erf(x: Array) -> Array:
    return np.array([math.erf(v) for v in x])


def _larger(a: Array, b: Array) -> Array:
    return np.where((a > b) | np.isnan(a), a, b)


def _smaller(a: Array, b: Array) -> Array:
    return np.where((a < b) | np.isnan(a), a, b)


_OPERATORS: dict[str, Callable[..., Array]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "div": lambda a, b: a / b,
    "floordiv": _floor_divide, "mod": _remainder, "neg": lambda a: -a,
    "min": _smaller, "max": _larger, "abs": lambda a: np.where(a < 0, -a, a) + 0,
    "lt": lambda a, b: a < b, "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b,
    "and": lambda a, b: a & b, "or": lambda a, b: a | b, "not": lambda a: ~a,
    "exp": np.exp, "log": np.log, "tanh": np.tanh, "erf": _erf, "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "floor": np.floor, "ceil": np.ceil,
    "round": lambda x: np.where(np.abs(x - np.trunc(x)) == 0.5, 2 * np.trunc(x / 2 + 0.25 * np.sign(x)), np.floor(x + 0.5)),
    "sin": np.sin, "cos": np.cos, "pow": lambda a, b: a**b,
}  # fmt: skip
_COMBINE: dict[str, Callable[[Array, Array], Array]] = {
    "sum": lambda a, b: a + b, "prod": lambda a, b: a * b, "max": _larger, "min": _smaller,
}  # fmt: skip


def compared(program: Program, inputs: Sequence[Array], outputs: Sequence[Array]) -> str:
    """What is wrong with the outputs of a kernel, as they lie in memory, "" if nothing is: integers are equal, floats no
    farther from the truth than the arithmetic of the program explains, or near it where no bound can be told."""
    wanted, bounds = plain_results(program, inputs), bounded(program, inputs)
    for name, output, want, (_, tolerance) in zip(program.outputs, outputs, wanted, bounds, strict=True):
        dtype = program.tensors[name].dtype
        found = numbers(output, dtype).reshape(want.shape)
        same = found == want
        if dtype.is_float:
            near = np.where(np.isfinite(tolerance), ROOM * tolerance, NEAR * (1 + np.abs(want)))
            with np.errstate(invalid="ignore"):
                same |= np.abs(found - want) <= np.maximum(near, dtype.eps * 1e-3)
        if not same.all():
            first = tuple(np.argwhere(~same)[0].tolist())
            return f"{name}{list(first)}: {found[first]} for {want[first]}, {(~same).sum()} of {same.size} points"
    return ""
