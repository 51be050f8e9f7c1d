"""Random programs that a seed draws: reductions that feed broadcasts that feed reductions, products, stencils, scans, moves.

A draft is a list of steps, each an operation on tensors made before. It can be told in two ways (kinds.py), independently
of each other: as a program of ours (`program`), and as calls of an array library (`results`), NumPy or torch. So drafts are
workloads that nobody chose, with torch.compile as a peer, and as tests, with NumPy as the truth.

Dimensions of the size 1 broadcast, as in NumPy; reductions keep theirs with the size 1. Values stay moderate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from random import Random
from types import ModuleType

from drafts.kinds import BINARY, COMBINE, KINDS, UNARY, Array, Shape, Step
from tilesmith.tensor import build
from tilesmith.tensor.build import placeholder
from tilesmith.tensor.program import Program

SMALL = (1, 2, 3, 5, 7, 8, 9, 13, 16, 17, 31, 33)
LARGE = (24, 48, 63, 64, 96, 100, 127, 128, 192, 256, 320, 509, 512)


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
        """Writes it as a program."""
        made = [
            placeholder(shape, "i64" if chosen else dtype, f"x{number}")
            for number, (shape, chosen) in enumerate(zip(self.inputs, self.chosen, strict=True))
        ]
        inputs = list(made)
        for step in self.steps:
            made.append(KINDS[step.kind].ours(step, [made[number] for number in step.reads]))
        return build.program([made[number] for number in self.outputs], inputs)

    def results(self, library: ModuleType, arrays: Sequence[Array]) -> list[Array]:
        """Returns what `library` (numpy, or torch) makes of the inputs."""
        made = list(arrays)
        for step in self.steps:
            made.append(KINDS[step.kind].theirs(step, library, [made[number] for number in step.reads]))
        return [made[number] for number in self.outputs]


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


_MAKERS = {"softmax": "along", "scan": "along"}
_WEIGHTS = {
    "unary": 5, "binary": 8, "reduction": 7, "softmax": 2, "matmul": 4, "stencil": 3, "scan": 1, "swapped": 2,
    "strided": 1, "concat": 1, "gather": 1,
}  # fmt: skip


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
        return Step(kind, (number,), self._shape(number), option=self._random.randrange(UNARY))

    def _binary(self, kind: str) -> Step | None:
        """Combines with an older tensor where shapes allow it, or with a new input that broadcasts."""
        one = self._pick()
        shape = self._shape(one)
        fitting = [n for n in range(len(self._steps)) if n != one and _joined(shape, self._shape(n)) is not None]
        if fitting and self._random.random() < 0.6:
            other = self._random.choice(fitting)
        else:
            other = self._input(tuple(size if self._random.random() < 0.6 else 1 for size in shape))
        joined = _joined(shape, self._shape(other))
        assert joined is not None
        return Step(kind, (one, other), joined, option=self._random.randrange(BINARY))

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
        option = self._random.randrange(COMBINE)
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
