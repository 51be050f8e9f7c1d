"""Random programs that a seed draws: reductions that feed broadcasts that feed reductions, products, stencils, scans, moves.

A draft is a list of steps, each an operation on tensors made before. It can be told in two ways, independently of each other:
as a program of ours (`program`), and as calls of an array library (`results`), NumPy or torch. So drafts serve as workloads
that nobody chose, with torch.compile as a peer, and as tests, with NumPy as the truth.

Dimensions of the size 1 broadcast, as in NumPy; reductions keep theirs with the size 1. Values stay moderate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from random import Random
from types import ModuleType
from typing import Any

from tilesmith.tensor import build
from tilesmith.tensor.build import compute, placeholder, reduce_axis
from tilesmith.tensor.dtype import i64
from tilesmith.tensor.expr import Const, Expr
from tilesmith.tensor.program import Program, Tensor

Shape = tuple[int, ...]
Array = Any

SMALL = (1, 2, 3, 5, 7, 8, 9, 13, 16, 17, 31, 33)
LARGE = (24, 48, 63, 64, 96, 100, 127, 128, 192, 256, 320, 509, 512)


@dataclass(frozen=True)
class Step:
    """An operation of KINDS on earlier tensors. `reads` are their numbers, inputs first; `option` picks among its variants."""

    kind: str
    reads: tuple[int, ...]
    shape: Shape  # of the result
    axis: int = 0
    option: int = 0


@dataclass(frozen=True)
class Draft:
    """Shapes of the inputs, i64 where `chosen` says so, the steps in order, and which tensors are the results."""

    inputs: tuple[Shape, ...]
    chosen: tuple[bool, ...]
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]

    def shape(self, number: int) -> Shape:
        """The shape of tensor `number`."""
        return self.inputs[number] if number < len(self.inputs) else self.steps[number - len(self.inputs)].shape

    def program(self, dtype: str = "f32") -> Program:
        """As a program."""
        made = [
            placeholder(shape, "i64" if chosen else dtype, f"x{number}")
            for number, (shape, chosen) in enumerate(zip(self.inputs, self.chosen, strict=True))
        ]
        inputs = list(made)
        for step in self.steps:
            made.append(KINDS[step.kind].ours(step, [made[number] for number in step.reads]))
        return build.program([made[number] for number in self.outputs], inputs)

    def results(self, library: ModuleType, arrays: Sequence[Array]) -> list[Array]:
        """What `library` (numpy, or torch) makes of the inputs."""
        made = list(arrays)
        for step in self.steps:
            made.append(KINDS[step.kind].theirs(step, library, [made[number] for number in step.reads]))
        return [made[number] for number in self.outputs]


@dataclass(frozen=True)
class Kind:
    """One operation, told twice; `stages` is how many stages of a program it takes."""

    ours: Callable[[Step, Sequence[Tensor]], Tensor]
    theirs: Callable[[Step, ModuleType, Sequence[Array]], Array]
    stages: int = 1


def draw(seed: int, sizes: Sequence[int] = SMALL, stages: tuple[int, int] = (3, 6), points: int = 6000) -> Draft:
    """The draft of a seed.

    Args:
        sizes: what dimensions are drawn from.
        stages: the least and the greatest number of stages of the program.
        points: no stage has more points, and no input more elements.
    """
    generator = Random(f"draft {seed}")
    while True:
        found = _Drawing(generator, sizes, points).draft(generator.randint(*stages))
        if found is not None:
            return found


def workload(name: str) -> Draft:
    """The draft of a row of the benchmarks, "draft:17"."""
    return draw(int(name.partition(":")[2]), LARGE, points=1 << 21)


class _Drawing:
    """A draft in the making. Numbers of tensors are -1, -2, ... for inputs until all are known."""

    def __init__(self, generator: Random, sizes: Sequence[int], points: int) -> None:
        self._random = generator
        self._sizes = sizes
        self._points = points
        self._inputs: list[tuple[Shape, bool]] = []
        self._steps: list[Step] = []

    def draft(self, stages: int) -> Draft | None:
        """One of exactly so many stages, or None where chance led nowhere."""
        rank = self._random.choice((2, 2, 3))
        self._input(self._drawn_shape(rank))
        total = 0
        for _ in range(4 * stages):
            kind = self._random.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
            if total + KINDS[kind].stages > stages:
                continue
            step = getattr(self, f"_{_MAKERS.get(kind, kind)}")(kind)
            if step is not None and prod(step.shape) <= self._points:
                self._steps.append(step)
                total += KINDS[kind].stages
            if total == stages:
                return self._finished()
        return None

    def _finished(self) -> Draft:
        read = {number for step in self._steps for number in step.reads}
        ends = [number for number in range(len(self._steps)) if number not in read]  # nothing is computed in vain
        others = [number for number in range(len(self._steps) - 1) if number not in ends]
        if others and self._random.random() < 0.25:
            ends.append(self._random.choice(others))
        used = sorted({-number - 1 for number in read if number < 0})
        count = len(used)

        def final(number: int) -> int:
            return used.index(-number - 1) if number < 0 else count + number

        steps = tuple(replace(step, reads=tuple(final(number) for number in step.reads)) for step in self._steps)
        shapes = tuple(self._inputs[number][0] for number in used)
        return Draft(shapes, tuple(self._inputs[number][1] for number in used), steps, tuple(final(n) for n in ends))

    # what each kind needs

    def _unary(self, kind: str) -> Step:
        number = self._pick()
        return Step(kind, (number,), self._shape(number), option=self._random.randrange(len(_UNARY)))

    def _binary(self, kind: str) -> Step | None:
        """With an older tensor where shapes allow it, or with a new input that broadcasts."""
        one = self._pick()
        shape = self._shape(one)
        fitting = [n for n in range(len(self._steps)) if n != one and _joined(shape, self._shape(n)) is not None]
        if fitting and self._random.random() < 0.6:
            other = self._random.choice(fitting)
        else:
            other = self._input(tuple(size if self._random.random() < 0.6 else 1 for size in shape))
        joined = _joined(shape, self._shape(other))
        assert joined is not None
        return Step(kind, (one, other), joined, option=self._random.randrange(len(_BINARY)))

    def _along(self, kind: str) -> Step | None:
        """An operation along one axis that keeps the shape."""
        number = self._pick()
        axis = self._axis(number)
        return None if axis is None else Step(kind, (number,), self._shape(number), axis)

    def _reduction(self, kind: str) -> Step | None:
        number = self._pick()
        axis = self._axis(number)
        if axis is None:
            return None
        shape = self._shape(number)
        option = self._random.randrange(len(_COMBINE))
        return Step(kind, (number,), (*shape[:axis], 1, *shape[axis + 1 :]), axis, option)

    def _matmul(self, kind: str) -> Step | None:
        number = self._pick()
        *outer, m, k = self._shape(number)
        n = self._random.choice(self._sizes)
        if prod(outer) * m * n * k > 8 * self._points or k * n > self._points or k == 1:
            return None
        flipped = self._random.randrange(2)
        batch = tuple(outer) if self._random.random() < 0.5 else (1,) * len(outer)
        other = self._input((*batch, *((n, k) if flipped else (k, n))))
        return Step(kind, (number, other), (*outer, m, n), option=flipped)

    def _stencil(self, kind: str) -> Step | None:
        number = self._pick()
        axis = self._axis(number)
        if axis is None:
            return None
        weights = self._input((3,))
        return Step(kind, (number, weights), self._shape(number), axis, self._random.randrange(2))

    def _swapped(self, kind: str) -> Step:
        number = self._pick()
        *outer, m, n = self._shape(number)
        return Step(kind, (number,), (*outer, n, m))

    def _strided(self, kind: str) -> Step | None:
        """Every second element along an axis, the first or the second ones."""
        number = self._pick()
        axis = self._axis(number)
        if axis is None:
            return None
        option = self._random.randrange(2)
        shape = self._shape(number)
        return Step(kind, (number,), (*shape[:axis], (shape[axis] - option + 1) // 2, *shape[axis + 1 :]), axis, option)

    def _concat(self, kind: str) -> Step | None:
        one = self._pick()
        shape = self._shape(one)
        axis = self._random.randrange(len(shape))
        same = [n for n in range(len(self._steps)) if self._shape(n) == shape]
        other = self._random.choice(same) if same and self._random.random() < 0.5 else self._input(shape)
        return Step(kind, (one, other), (*shape[:axis], 2 * shape[axis], *shape[axis + 1 :]), axis)

    def _gather(self, kind: str) -> Step:
        number = self._pick()
        shape = self._shape(number)
        axis = self._random.randrange(len(shape))
        count = self._random.choice(self._sizes)
        index = self._input((count,), chosen=True)
        return Step(kind, (number, index), (*shape[:axis], count, *shape[axis + 1 :]), axis)

    # choices

    def _shape(self, number: int) -> Shape:
        return self._inputs[-number - 1][0] if number < 0 else self._steps[number].shape

    def _input(self, shape: Shape, chosen: bool = False) -> int:
        self._inputs.append((shape, chosen))
        return -len(self._inputs)

    def _pick(self) -> int:
        """The newest tensor mostly, so that stages hang together."""
        if not self._steps:
            return -1
        return len(self._steps) - 1 if self._random.random() < 0.75 else self._random.randrange(len(self._steps))

    def _axis(self, number: int) -> int | None:
        longer = [axis for axis, size in enumerate(self._shape(number)) if size > 1]
        return self._random.choice(longer) if longer else None

    def _drawn_shape(self, rank: int) -> Shape:
        shape: list[int] = []
        for _ in range(rank):
            room = self._points // prod(shape)
            shape.append(self._random.choice([size for size in self._sizes if size <= room] or [1]))
        return tuple(shape)


def _joined(one: Shape, other: Shape) -> Shape | None:
    """The shape of both together, or None where they do not broadcast."""
    if len(one) != len(other) or any(a != b and 1 not in (a, b) for a, b in zip(one, other, strict=True)):
        return None
    return tuple(max(a, b) for a, b in zip(one, other, strict=True))


# The operations: ours, and theirs.


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
_MAKERS = {"softmax": "along", "scan": "along"}
_WEIGHTS = {
    "unary": 5, "binary": 8, "reduction": 7, "softmax": 2, "matmul": 4, "stencil": 3, "scan": 1, "swapped": 2,
    "strided": 1, "concat": 1, "gather": 1,
}  # fmt: skip
