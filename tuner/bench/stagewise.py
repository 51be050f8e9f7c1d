"""A program stage by stage in the functions of an array library: what a person writes where the library has no name for it.

Sums of products become einsum, all else arithmetic on whole arrays that broadcast. What reads elements by computed indices
(windows, gathers), folds, and narrow floats has no such form.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...tensor.expr import Cast, Const, Expr, Op, Read, Var, walk
from ...tensor.program import Program, Stage

DTYPES = ("f32", "f64", "i32", "i64", "bool")
StageResults = Callable[..., tuple[Any, ...]]  # from arrays by name to all outputs


@dataclass(frozen=True, slots=True)
class ArrayLibrary:
    """The functions of a library by the names of the expression language, and what arrays need besides."""

    functions: Mapping[str, Callable[..., Any]]
    reductions: Mapping[str, Callable[[Any, tuple[int, ...]], Any]]
    einsum: Callable[..., Any]
    permute: Callable[[Any, tuple[int, ...]], Any]
    expand: Callable[[Any, tuple[int, ...]], Any]
    cast: Callable[[Any, str], Any]
    array: Callable[[np.ndarray[Any, Any]], Any]


def stage_by_stage(program: Program, library: ArrayLibrary) -> StageResults | None:
    """The program as a function of its inputs by name; None where it has no such form."""
    if not all(_is_plain(stage, library) for stage in program.stages):
        return None
    if any(tensor.dtype.name not in DTYPES for tensor in program.tensors.values()):
        return None
    known = {
        t.tensor.name: library.array(np.array(t.values, t.tensor.dtype.numpy).reshape(t.tensor.shape))
        for t in program.tables
    }
    stages = [_Evaluated(stage, library) for stage in program.stages]

    def results(**given: Any) -> tuple[Any, ...]:
        arrays = {**known, **given}
        for stage in stages:
            arrays[stage.name] = stage.result(arrays)
        return tuple(arrays[name] for name in program.outputs)

    return results


def _is_plain(stage: Stage, library: ArrayLibrary) -> bool:
    if stage.fold is not None or len(stage.bodies) != 1 or any(axis.extent < 1 for axis in stage.all_axes):
        return False
    if stage.combiner is not None and stage.combiner not in library.reductions:
        return False
    for node in walk(stage.bodies[0]):
        if isinstance(node, Op) and node.name not in library.functions:
            return False
        if isinstance(node, Cast) and node.dtype.name not in DTYPES:
            return False
        if isinstance(node, Read):
            names = [index.name for index in node.indices if isinstance(index, Var)]
            if len(set(names)) < len(names) or not all(isinstance(index, Var | Const) for index in node.indices):
                return False
    return True


class _Evaluated:
    """One stage, with its literals made beforehand."""

    def __init__(self, stage: Stage, library: ArrayLibrary) -> None:
        self.name = stage.name
        self._stage, self._library = stage, library
        self._axes = [axis.name for axis in stage.all_axes]
        self._shape = tuple(axis.extent for axis in stage.all_axes)
        factors = _factors(stage.bodies[0]) if stage.combiner == "sum" else None
        read = {index.name for one in factors or () for index in one.indices if isinstance(index, Var)}
        self._factors = factors if factors and len(factors) > 1 and read == set(self._axes) else None
        self._made = {
            id(node): library.array(self._literal(node)) for node in walk(stage.bodies[0]) if isinstance(node, Const | Var)
        }  # fmt: skip

    def _literal(self, node: Const | Var) -> np.ndarray[Any, Any]:
        if isinstance(node, Const):
            return np.array(node.value, node.dtype.numpy)
        if node.name not in self._axes:
            return np.zeros((), np.int64)
        place = self._axes.index(node.name)
        return np.arange(self._shape[place]).reshape([-1 if n == place else 1 for n in range(len(self._shape))])

    def result(self, arrays: Mapping[str, Any]) -> Any:
        """The stage's tensor."""
        if self._factors is not None:
            return self._summed(arrays, self._factors)
        found = self._value(self._stage.bodies[0], arrays)
        if tuple(found.shape) != self._shape:
            found = self._library.expand(found, self._shape)
        if self._stage.combiner is None:
            return found
        axes = tuple(range(len(self._stage.axes), len(self._shape)))
        return self._library.reductions[self._stage.combiner](found, axes)

    def _summed(self, arrays: Mapping[str, Any], factors: Sequence[Read]) -> Any:
        letters = dict(zip(self._axes, string.ascii_letters, strict=False))
        terms, operands = [], []
        for read in factors:
            operands.append(_fixed(arrays[read.tensor], read))
            terms.append("".join(letters[index.name] for index in read.indices if isinstance(index, Var)))
        out = "".join(letters[axis.name] for axis in self._stage.axes)
        return self._library.einsum(f"{','.join(terms)}->{out}", *operands)

    def _value(self, expr: Expr, arrays: Mapping[str, Any]) -> Any:
        match expr:
            case Const() | Var():
                return self._made[id(expr)]
            case Read():
                return self._placed(expr, arrays)
            case Cast(arg=arg, dtype=dtype):
                return self._library.cast(self._value(arg, arrays), dtype.name)
            case Op(name=name, args=args):
                return self._library.functions[name](*[self._value(arg, arrays) for arg in args])
        raise TypeError(f"no array form of {type(expr).__name__}")

    def _placed(self, read: Read, arrays: Mapping[str, Any]) -> Any:
        """The array that is read, its dimensions in the order of the axes, ones for axes that it lacks."""
        array = _fixed(arrays[read.tensor], read)
        places = [self._axes.index(index.name) for index in read.indices if isinstance(index, Var)]
        order = tuple(sorted(range(len(places)), key=places.__getitem__))
        if order != tuple(range(len(places))):
            array = self._library.permute(array, order)
        shape = tuple(extent if number in places else 1 for number, extent in enumerate(self._shape))
        return array if tuple(array.shape) == shape else array.reshape(shape)


def _factors(body: Expr) -> list[Read] | None:
    """The reads whose product a body is; None for any other body."""
    match body:
        case Read():
            return [body]
        case Op(name="mul", args=(left, right)):
            one, other = _factors(left), _factors(right)
            return None if one is None or other is None else one + other
    return None


def _fixed(array: Any, read: Read) -> Any:
    """The array at the indices that are numbers."""
    if not any(isinstance(index, Const) for index in read.indices):
        return array
    return array[tuple(int(i.value) if isinstance(i, Const) else slice(None) for i in read.indices)]
