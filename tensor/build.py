"""Writing programs in Python.

    A, B = placeholder((64, 32), name="A"), placeholder((32, 48), name="B")
    k = reduce_axis(32, "k")
    C = compute((64, 48), lambda i, j: sum(A[i, k] * B[k, j], k), name="C")
    D = compute((64, 48), lambda i, j: maximum(C[i, j], 0), name="D")
    relu_of_product = program([D])

There is no global list of anything: a computed tensor carries its stage and the tensors it reads, and `program`
collects what its outputs need (collect.py). Functions of expressions and reductions are in functions.py and mathematics.py.
"""

from __future__ import annotations

import inspect
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from ..common.errors import ProgramError
from . import mathematics
from .check import check_size, check_stage
from .collect import Made, Operation, fresh_name, program, renamed_stage, stage_name
from .dtype import DType, i64
from .expr import Const, Expr, Local, PythonNumber, Read, Var, as_expr, const, rewrite, walk
from .functions import (
    ReduceAxis,
    Reduction,
    absolute,
    bf16_high,
    bf16_low,
    bf16_pair,
    cast,
    find_dtype,
    literal,
    max,
    maximum,
    min,
    minimum,
    prod,
    select,
    sum,
)
from .mathematics import *  # noqa: F403
from .origins import current_origin
from .program import Axis, Fold, Input, Origin, Stage, Table, Tensor

__all__ = [
    "ReduceAxis", "Reduction", "State", "absolute", "bf16_high", "bf16_low", "bf16_pair", "cast", "compute",
    "compute_several", "constant", "fold", "literal", "max", "maximum", "min", "minimum", "named",
    "placeholder", "prod", "program", "read", "reduce_axis", "select", "sum", "table",
]  # fmt: skip
__all__ += mathematics.__all__

T = TypeVar("T")
Shape = Sequence[int] | int


@dataclass(frozen=True, slots=True)
class _MadeRead(Read):
    """A read that knows its tensor. `compute` leaves plain reads in the stage."""

    source: Tensor = field(default=Tensor("", i64, ()), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class _NamedValue(Local):
    """A value of a fold that knows its expression."""

    value: Expr = field(default=Const(0, i64), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class State:
    """One tensor of a fold: it keeps the first `rank` axes and starts as `initial`.

    order: the axis of each of its dimensions, by number; by default as they are.
    """

    name: str | None
    rank: int
    initial: PythonNumber
    dtype: DType | str = "f32"
    order: tuple[int, ...] | None = None

    def kept(self, axes: Sequence[T]) -> tuple[T, ...]:
        """Picks the axes of the fold that it keeps, in the order of its dimensions."""
        return tuple(axes[n] for n in (range(self.rank) if self.order is None else self.order))


def placeholder(shape: Shape, dtype: DType | str = "f32", name: str | None = None) -> Tensor:
    """An operand given at each call. `shape` is a tuple of positive integers, () for a scalar."""
    return _declare(shape, dtype, name, constant=False)


def constant(shape: Shape, dtype: DType | str = "f32", name: str | None = None) -> Tensor:
    """An operand known when the program is compiled (weights): its packing is not part of a call."""
    return _declare(shape, dtype, name, constant=True)


def table(values: Sequence[object] | PythonNumber, dtype: DType | str = "f32", name: str | None = None) -> Tensor:
    """A small array whose values stand in the program; `values` are nested sequences of numbers."""
    kind = find_dtype(dtype)
    shape: list[int] = []
    level: object = values
    while isinstance(level, Sequence):
        shape.append(len(level))
        level = level[0] if level else None
    flat = tuple(const(value, kind).value for value in _flat(values))
    own = name or fresh_name()
    return Made(own, kind, tuple(shape), Operation(Table(Tensor(own, kind, tuple(shape)), flat)))


def reduce_axis(extent: int, name: str | None = None) -> ReduceAxis:
    """An axis for sum, prod, max, min or fold. Without a name it becomes k, or the next free letter."""
    return ReduceAxis(name or fresh_name(), extent)


def compute(
    shape: Shape, body: Callable[..., object], name: str | Sequence[str] | None = None,
    axes: Sequence[str] | None = None,
) -> Tensor:  # fmt: skip
    """A tensor of `shape` whose elements are `body(*axes)`: an expression, or sum(...) and the like.

    Axes are named as the parameters of `body`, unless `axes` names them. Errors: ProgramError, with the place marked, for
    whatever check.py refuses.
    """
    made = compute_several(shape, body, [name] if name is None or isinstance(name, str) else name, axes)
    if len(made) != 1:
        raise ProgramError("compute gives one tensor", found=f"{len(made)} expressions", advice="use compute_several")
    return made[0]


def compute_several(
    shape: Shape, body: Callable[..., object], names: Sequence[str | None] | None = None,
    axes: Sequence[str] | None = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Works as `compute`, for a stage of several tensors: `body` returns a tuple of expressions, one for each."""
    extents = _shape(shape)
    called = _parameters(body, len(extents)) if axes is None else axes
    spatial = tuple(Axis(n, e) for n, e in zip(called, extents, strict=True))
    result = body(*(axis.var for axis in spatial))
    reduced: tuple[ReduceAxis, ...] = ()
    combiner: str | None = None
    bodies: tuple[Expr, ...]
    if isinstance(result, Reduction):
        combiner, reduced, bodies = result.combiner, result.axes, (result.body,)
    else:
        bodies = tuple(_value(item) for item in (result if isinstance(result, tuple) else (result,)))
    check_size("a stage", bodies)
    _check_reduced(bodies, reduced)
    chosen = [stage_name(name) for name in (names if names is not None else [None] * len(bodies))]
    if len(chosen) != len(bodies):
        raise ProgramError("names and expressions differ in number", expected=f"{len(chosen)}", found=f"{len(bodies)}")
    tensors = tuple(Tensor(n, b.dtype, extents) for n, b in zip(chosen, bodies, strict=True))
    reduction, renaming = _reduction_axes(reduced, spatial)
    plain = tuple(_plain(expr, renaming) for expr in bodies)
    stage = Stage(tensors, spatial, plain, reduction, combiner, None, _origin())
    return _made(stage, bodies)


def fold(
    shape: Shape, over: ReduceAxis, states: Sequence[State], step: Callable[..., Sequence[Expr]]
) -> tuple[Tensor, ...]:
    """Tensors made by going over one axis in order, each step from the values before it.

    Args:
        shape: extents of all spatial axes.
        over: the ordered axis.
        states: the tensors; one that keeps fewer axes drops the last ones.
        step: step(*axes, *values) -> the new values, in the order of `states`. `named` gives a value of its own a name.
    """
    extents = _shape(shape)
    names = _parameters(step, len(extents) + len(states))[: len(extents)]
    axes = tuple(Axis(n, e) for n, e in zip(names, extents, strict=True))
    tensors = tuple(Tensor(stage_name(s.name), find_dtype(s.dtype), s.kept(extents)) for s in states)
    before = [Read(t.name, tuple(a.var for a in s.kept(axes)), t.dtype) for t, s in zip(tensors, states, strict=True)]
    bodies = tuple(as_expr(b, r) for b, r in zip(step(*(a.var for a in axes), *before), before, strict=True))
    check_size("a fold", bodies)
    values: dict[str, Expr] = {}
    for body in bodies:
        _collect_values(body, values)
    reduction, renaming = _reduction_axes((over,), axes)
    parts = Fold(
        tuple(tuple(axis.name for axis in s.kept(axes)) for s in states),
        tuple(const(s.initial, t.dtype) for s, t in zip(states, tensors, strict=True)),
        tuple((name, _plain(value, renaming)) for name, value in values.items()),
    )
    plain = tuple(_plain(body, renaming) for body in bodies)
    stage = Stage(tensors, axes, plain, reduction, "fold", parts, _origin())
    return _made(stage, (*values.values(), *bodies))


def named(name: str, value: Expr) -> Expr:
    """A value of a fold's step under a name: it is computed once, however often it is used."""
    return _NamedValue(name, value.dtype, value)


def read(tensor: Tensor, indices: object) -> Read:
    """`tensor[indices]`: an axis, an integer or an integer expression for each dimension. Errors: rank and dtype."""
    given = indices if isinstance(indices, tuple) else (indices,)
    if len(given) != len(tensor.shape):
        raise ProgramError(
            f"{tensor.name} is indexed with the wrong rank",
            expected=f"{len(tensor.shape)} indices for the shape {list(tensor.shape)}",
            found=str(len(given)),
        )
    return _MadeRead(tensor.name, tuple(_index(tensor, index) for index in given), tensor.dtype, tensor)


def _declare(shape: Shape, dtype: DType | str, name: str | None, constant: bool) -> Tensor:
    own, kind, sizes = name or fresh_name(), find_dtype(dtype), _shape(shape)
    return Made(own, kind, sizes, Operation(Input(Tensor(own, kind, sizes), constant)))


def _shape(shape: Shape) -> tuple[int, ...]:
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    for size in sizes:
        if type(size) is not int or size < 1:
            raise ProgramError("a shape needs positive integers", found=str(sizes))
    return sizes


def _flat(values: object) -> Iterator[PythonNumber]:
    if isinstance(values, Sequence):
        for item in values:
            yield from _flat(item)
    else:
        assert isinstance(values, int | float)
        yield values


def _parameters(function: Callable[..., object], count: int) -> list[str]:
    """Names for `count` parameters: those of the function, or i0, i1, ... for *args."""
    found = list(inspect.signature(function).parameters.values())
    if any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in found):
        return [f"i{number}" for number in range(count)]
    if len(found) != count:
        raise ProgramError(
            "the function takes another number of parameters than there are axes",
            expected=f"{count} parameters", found=", ".join(p.name for p in found) or "none",
        )  # fmt: skip
    return [p.name for p in found]


def _index(tensor: Tensor, index: object) -> Expr:
    if isinstance(index, bool) or not isinstance(index, Expr | Axis | int):
        raise ProgramError(
            f"{tensor.name} is indexed with {index!r}", expected="an axis, an integer or an integer expression"
        )
    if isinstance(index, int):
        return Const(index, i64)
    if isinstance(index, Axis):
        return index.var
    if not index.dtype.is_integer:
        raise ProgramError(f"an index of {tensor.name} must be an integer", found=str(index.dtype))
    return index.cast(i64)


def _value(item: object) -> Expr:
    if isinstance(item, Expr):
        return item
    found = "a Python number: write literal(value, dtype)" if isinstance(item, int | float) else repr(item)
    raise ProgramError("a stage computes an expression, or sum, prod, max or min of one", found=found)


def _check_reduced(bodies: tuple[Expr, ...], reduced: tuple[ReduceAxis, ...]) -> None:
    used = dict.fromkeys(node for body in bodies for node in walk(body) if isinstance(node, ReduceAxis))
    for axis in (one for one in used if one not in reduced):
        raise ProgramError(
            f"a reduction axis of extent {axis.extent} is used and not reduced over",
            expected="sum, prod, max or min over it as the whole of the stage",
        )


def _reduction_axes(axes: tuple[ReduceAxis, ...], spatial: tuple[Axis, ...]) -> tuple[tuple[Axis, ...], dict[str, str]]:
    """The axes of the stage with readable, free names, and the renaming that gave them."""
    taken = {axis.name for axis in spatial} | {axis.name for axis in axes}
    letters = itertools.chain("krstuvw", (f"r{n}" for n in itertools.count()))
    renaming: dict[str, str] = {}
    for axis in axes:
        renaming[axis.name] = axis.name if axis.name[0] != "?" else next(c for c in letters if c not in taken)
    return tuple(Axis(renaming[axis.name], axis.extent) for axis in axes), renaming


def _plain(expr: Expr, renaming: dict[str, str]) -> Expr:
    """The expression without what only this file knows: plain reads, variables and locals."""

    def replace(node: Expr) -> Expr | None:
        match node:
            case Read(tensor=tensor, indices=indices, dtype=dtype):
                return Read(tensor, indices, dtype)
            case Var(name=name):
                return Var(renaming.get(name, name))
            case Local(name=name, dtype=dtype):
                return Local(name, dtype)
        return None

    return rewrite(expr, replace)


def _collect_values(expr: Expr, into: dict[str, Expr]) -> None:
    """Named values that occur in `expr`, those that others need first."""
    for node in walk(expr):
        if isinstance(node, _NamedValue) and node.name not in into:
            _collect_values(node.value, into)
            into[node.name] = node.value


def _made(stage: Stage, written: tuple[Expr, ...]) -> tuple[Tensor, ...]:
    """The tensors of a checked stage, with the tensors that the written expressions read."""
    sources: dict[str, Tensor] = {}
    for expr in written:
        for node in walk(expr):
            if isinstance(node, _MadeRead) and sources.setdefault(node.tensor, node.source) is not node.source:
                raise ProgramError(f"two tensors are called {node.tensor!r}", advice="give each its own name")
    check_stage(_shown(stage), {_display(name): tensor for name, tensor in sources.items()})
    operation = Operation(stage, tuple(t for t in sources.values() if isinstance(t, Made)))
    return tuple(Made(t.name, t.dtype, t.shape, operation) for t in stage.tensors)


def _display(name: str) -> str:
    return f"unnamed_{name[1:]}" if name[0] == "?" else name


def _shown(stage: Stage) -> Stage:
    """The stage with names that print, for its check."""
    names = {t.name for t in stage.tensors}
    names |= {node.tensor for expr in stage.expressions for node in walk(expr) if isinstance(node, Read)}
    return renamed_stage(stage, {name: _display(name) for name in names})


_OWN_FOLDER = str(Path(__file__).parent)


def _origin() -> Origin:
    """Returns what `originating` says; or file and line of the first caller outside this package, and the function it stands
    in."""
    if (given := current_origin()) is not None:
        return given
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OWN_FOLDER):
        frame = frame.f_back
    name = frame.f_code.co_name
    return Origin("" if name[0] == "<" else name, file=frame.f_code.co_filename, line=frame.f_lineno)
