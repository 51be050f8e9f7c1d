"""The operations that drafts are made of (drafts.py), each told twice: as a stage of ours, and as calls of an array library."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from tilesmith.tensor import build
from tilesmith.tensor.build import compute, reduce_axis
from tilesmith.tensor.dtype import i64
from tilesmith.tensor.expr import Const, Expr
from tilesmith.tensor.program import Tensor

Shape = tuple[int, ...]
Array = Any


@dataclass(frozen=True)
class Step:
    """An operation of KINDS on earlier tensors. `reads` are their numbers, inputs first; `option` picks among its variants."""

    kind: str
    reads: tuple[int, ...]
    shape: Shape  # of the result
    axis: int = 0
    option: int = 0


@dataclass(frozen=True)
class Kind:
    """One operation, told twice; `stages` is how many stages of a program it takes."""

    ours: Callable[[Step, Sequence[Tensor]], Tensor]
    theirs: Callable[[Step, ModuleType, Sequence[Array]], Array]
    stages: int = 1


def at(tensor: Tensor, indices: Sequence[Expr]) -> Expr:
    """An element; dimensions of the size 1 broadcast."""
    return tensor[tuple(Const(0, i64) if size == 1 else i for i, size in zip(indices, tensor.shape, strict=True))]


def replaced(indices: Sequence[Expr], axis: int, index: Expr) -> tuple[Expr, ...]:
    """The indices with another one at the axis."""
    return (*indices[:axis], index, *indices[axis + 1 :])


def _over(step: Step, x: Tensor, combine: Callable[..., Any], value: Callable[[Expr], Expr]) -> Tensor:
    over = reduce_axis(x.shape[step.axis], "k")
    shape = (*x.shape[: step.axis], 1, *x.shape[step.axis + 1 :])
    return compute(shape, lambda *i: combine(value(x[replaced(i, step.axis, over)]), over))


def _reduction_ours(step: Step, made: Sequence[Tensor]) -> Tensor:
    (x,) = made
    combine, _, mean = _COMBINE[step.option]
    factor = 1 / x.shape[step.axis] if mean else 1.0
    return _over(step, x, combine, lambda v: v * factor)


def _reduction_theirs(step: Step, library: ModuleType, arrays: Sequence[Array]) -> Array:
    _, name, mean = _COMBINE[step.option]
    return getattr(library, "mean" if mean else name)(arrays[0], axis=step.axis, keepdims=True)


def _softmax_ours(step: Step, made: Sequence[Tensor]) -> Tensor:
    (x,) = made
    top = _over(step, x, build.max, lambda v: v)
    powers = compute(x.shape, lambda *i: build.exp(x[i] - at(top, i)))
    total = _over(step, powers, build.sum, lambda v: v)
    return compute(x.shape, lambda *i: powers[i] / at(total, i))


def _softmax_theirs(step: Step, library: ModuleType, arrays: Sequence[Array]) -> Array:
    (x,) = arrays
    powers = library.exp(x - library.amax(x, axis=step.axis, keepdims=True))
    return powers / library.sum(powers, axis=step.axis, keepdims=True)


def _matmul_ours(step: Step, made: Sequence[Tensor]) -> Tensor:
    a, b = made
    k = reduce_axis(a.shape[-1], "k")
    factor = 1 / a.shape[-1]

    def element(*i: Expr) -> object:
        *outer, m, n = i
        right = (n, k) if step.option else (k, n)
        return build.sum(at(a, (*outer, m, k)) * at(b, (*outer, *right)) * factor, k)

    return compute(step.shape, element)


def _matmul_theirs(step: Step, library: ModuleType, arrays: Sequence[Array]) -> Array:
    a, b = arrays
    return library.matmul(a, library.swapaxes(b, -1, -2) if step.option else b) * (1 / a.shape[-1])


def _stencil_ours(step: Step, made: Sequence[Tensor]) -> Tensor:
    """Three neighbours, zeros outside; weighted, or the greatest of them."""
    x, weights = made
    over, size = reduce_axis(3, "r"), x.shape[step.axis]

    def element(*i: Expr) -> object:
        place = i[step.axis] + over - 1
        value = build.select((place >= 0) & (place < size), x[replaced(i, step.axis, place)], 0)
        return build.max(value + weights[over], over) if step.option else build.sum(value * weights[over], over)

    return compute(step.shape, element)


def _stencil_theirs(step: Step, library: ModuleType, arrays: Sequence[Array]) -> Array:
    x, weights = arrays
    size = x.shape[step.axis]
    edge = library.zeros_like(x[_part(x, step.axis, 0, 1)])
    padded = library.concatenate([edge, x, edge], axis=step.axis)
    parts = [padded[_part(x, step.axis, r, r + size)] for r in range(3)]
    if step.option:
        return library.maximum(library.maximum(parts[0] + weights[0], parts[1] + weights[1]), parts[2] + weights[2])
    return parts[0] * weights[0] + parts[1] * weights[1] + parts[2] * weights[2]


def _part(x: Array, axis: int, start: int, stop: int, by: int = 1) -> tuple[slice, ...]:
    return tuple(slice(start, stop, by) if d == axis else slice(None) for d in range(x.ndim))


def _scan_ours(step: Step, made: Sequence[Tensor]) -> Tensor:
    """Running means, by a fold."""
    (x,) = made
    over, rank = reduce_axis(x.shape[step.axis], "k"), len(x.shape) - 1
    outer = (*x.shape[: step.axis], *x.shape[step.axis + 1 :])
    factor = 1 / x.shape[step.axis]

    def one(*given: Expr) -> list[Expr]:
        i, place, so_far, results = given[:rank], given[rank], given[-2], given[-1]
        new = build.named("new", so_far + x[(*i[: step.axis], over, *i[step.axis :])] * factor)
        return [new, build.select(place.equal(over), new, results)]

    states = [build.State(None, rank, 0, x.dtype), build.State(None, rank + 1, 0, x.dtype)]
    results = build.fold((*outer, x.shape[step.axis]), over, states, one)[1]
    return compute(x.shape, lambda *i: results[(*i[: step.axis], *i[step.axis + 1 :], i[step.axis])])


def _concat_ours(step: Step, made: Sequence[Tensor]) -> Tensor:
    one, other = made
    size = one.shape[step.axis]

    def element(*i: Expr) -> Expr:
        place = i[step.axis]
        return build.select(place < size, one[i], other[replaced(i, step.axis, place - size)])

    return compute(step.shape, element)


def _gather_ours(step: Step, made: Sequence[Tensor]) -> Tensor:
    x, index = made
    last = x.shape[step.axis] - 1

    def element(*i: Expr) -> Expr:
        return x[replaced(i, step.axis, build.minimum(build.maximum(index[i[step.axis]], 0), last))]

    return compute(step.shape, element)


def _gather_theirs(step: Step, library: ModuleType, arrays: Sequence[Array]) -> Array:
    x, index = arrays
    return x[(*(slice(None),) * step.axis, library.clip(index, 0, x.shape[step.axis] - 1))]


def _strided_ours(step: Step, made: Sequence[Tensor]) -> Tensor:
    (x,) = made
    return compute(step.shape, lambda *i: x[replaced(i, step.axis, i[step.axis] * 2 + step.option)])


def _strided_theirs(step: Step, library: ModuleType, arrays: Sequence[Array]) -> Array:
    (x,) = arrays
    return x[_part(x, step.axis, step.option, x.shape[step.axis], 2)]


def _sigmoid(library: ModuleType, x: Array) -> Array:
    return 1 / (1 + library.exp(-x))


_COMBINE: list[tuple[Callable[..., Any], str, bool]] = [
    (build.sum, "sum", True), (build.sum, "sum", True), (build.max, "amax", False), (build.min, "amin", False),
]  # fmt: skip
_UNARY: list[tuple[Callable[[Expr], Expr], Callable[[ModuleType, Array], Array]]] = [
    (lambda x: x * 0.5, lambda n, x: x * 0.5),
    (lambda x: 1 - x, lambda n, x: 1 - x),
    (build.absolute, lambda n, x: n.abs(x)),
    (lambda x: build.maximum(x, 0), lambda n, x: n.where(x > 0, x, 0 * x)),
    (build.tanh, lambda n, x: n.tanh(x)),
    (build.sigmoid, _sigmoid),
    (lambda x: x * build.sigmoid(x), lambda n, x: x * _sigmoid(n, x)),
    (lambda x: build.exp(build.minimum(x, 1)), lambda n, x: n.exp(n.clip(x, None, 1))),
    (lambda x: build.log(build.absolute(x) + 1), lambda n, x: n.log(n.abs(x) + 1)),
    (lambda x: build.sqrt(build.absolute(x) + 0.5), lambda n, x: n.sqrt(n.abs(x) + 0.5)),
    (lambda x: 1 / (build.absolute(x) + 1), lambda n, x: 1 / (n.abs(x) + 1)),
]
_BINARY: list[tuple[Callable[[Expr, Expr], Expr], Callable[[ModuleType, Array, Array], Array]]] = [
    (lambda a, b: a + b, lambda n, a, b: a + b),
    (lambda a, b: a - b, lambda n, a, b: a - b),
    (lambda a, b: a * b, lambda n, a, b: a * b),
    (lambda a, b: a / (build.absolute(b) + 1), lambda n, a, b: a / (n.abs(b) + 1)),
    (build.maximum, lambda n, a, b: n.maximum(a, b)),
    # without a jump where a and b meet: roundings decide there
    (lambda a, b: build.select(a < b, a, (a + b) * 0.5), lambda n, a, b: n.where(a < b, a, (a + b) * 0.5)),
]

KINDS: Mapping[str, Kind] = {
    "unary": Kind(
        lambda step, made: compute(step.shape, lambda *i: _UNARY[step.option][0](made[0][i])),
        lambda step, library, arrays: _UNARY[step.option][1](library, arrays[0]),
    ),
    "binary": Kind(
        lambda step, made: compute(step.shape, lambda *i: _BINARY[step.option][0](at(made[0], i), at(made[1], i))),
        lambda step, library, arrays: _BINARY[step.option][1](library, arrays[0], arrays[1]),
    ),
    "reduction": Kind(_reduction_ours, _reduction_theirs),
    "softmax": Kind(_softmax_ours, _softmax_theirs, stages=4),
    "matmul": Kind(_matmul_ours, _matmul_theirs),
    "stencil": Kind(_stencil_ours, _stencil_theirs),
    "scan": Kind(
        _scan_ours, lambda step, n, arrays: n.cumsum(arrays[0], axis=step.axis) * (1 / step.shape[step.axis]), stages=2
    ),
    "swapped": Kind(
        lambda step, made: compute(step.shape, lambda *i: made[0][(*i[:-2], i[-1], i[-2])]),
        lambda step, library, arrays: library.swapaxes(arrays[0], -1, -2),
    ),
    "strided": Kind(_strided_ours, _strided_theirs),
    "concat": Kind(_concat_ours, lambda step, n, arrays: n.concatenate(list(arrays), axis=step.axis)),
    "gather": Kind(_gather_ours, _gather_theirs),
}

# How many options a step of these kinds has.
UNARY, BINARY, COMBINE = len(_UNARY), len(_BINARY), len(_COMBINE)
