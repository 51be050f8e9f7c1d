"""The order of the dimensions of what lies between kernels: nobody outside sees it, so each program has the one that suits it.

    a[c, h, w] = ...;  y[h, w, c] = f(a[c, h, w])   ->   a[h, w, c] = ...;  y[h, w, c] = f(a[h, w, c])

Dimensions that the same axes walk, through any number of stages, are one class: the channels of an image and of all that is
computed of it point by point. For each class it is weighed whether all its tensors should have it innermost. What counts is
what a stage with that order would read across memory, or along an axis on which a window slides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod

from ...schedules.access import is_anchor
from ...schedules.prepared import constant_tensors
from ...tensor.expr import Const, Expr, Op, Read, Var
from ...tensor.indices.affine import affine
from ...tensor.program import Axis, Program, Stage
from ...tensor.stage_edits import map_reads, map_stage
from ..place import ALIGNMENT

Dimension = tuple[str, int]  # of a tensor, as the program counts them
DimensionOrder = tuple[int, ...]  # the dimensions of a tensor, outermost first

# What is lost, in elements that a stage could read meanwhile (EPYC Zen 5). Products of 256 x 128 channels at 56 x 56 points run
# at 518 GFLOP/s where the result has channels innermost, else at 464, and at 364 where the data have them innermost then.
ACROSS = 4  # of an element that does not lie next to the one before it
SLIDING = 2  # of an element of a result, where vectors lie along an axis on which a window slides
MOVING = 1  # of an element of a product, where vectors move the data as well
TURNED = 2  # the same where the data lie in another order
ROUNDS = 4  # of weighing all classes
LANES = 16  # of a vector: shorter dimensions leave some empty


def laid_out(program: Program) -> Program:
    """The program, whose tensors have other orders of dimensions where its stages read them better so."""
    found = _Layouts(program)
    return found.reordered() if found.choose() else program


@dataclass(frozen=True)
class _Access:
    """A read as its stage sees it, for each dimension.

    `moved`: the axes with more than one point that move it, with their steps (0 where it stands for some points before it goes
    on, as a quotient does); None where data choose the element. `part`: whether it is a part of an axis.
    `shifted`: whether it begins at no line of memory, counted from where its tensor does: what puts such tensors behind each
    other moves all of them, and others lie there from the beginning (joins.py).
    """

    read: Read
    moved: tuple[Mapping[str, int] | None, ...]
    part: tuple[bool, ...]
    shifted: tuple[bool, ...]


class _Layouts:
    """The orders that are chosen so far."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._constant = constant_tensors(program)
        self._accesses = {stage.name: _accesses(stage, self._constant) for stage in program.stages}
        self._classes = _Classes()
        self._reshapes: list[tuple[Dimension, ...]] = []  # parts of another dimension, and that one
        self._orders: dict[str, DimensionOrder] = {}
        for stage in program.stages:
            self._link(stage)
        self._fixed = self._fixed_tensors()

    # ---- what may change ----

    def _fixed_tensors(self) -> frozenset[str]:
        """Tensors whose order others know, or by which a stage finds its elements.

        Another shape of the same memory has nothing but its order. Of images alone it may change: else the tokens of a
        transformer would lie behind its heads, for products of all with all of them.
        """
        program = self._program
        fixed = {item.tensor.name for item in program.inputs} | {*program.outputs, *self._constant}
        fixed |= {table.tensor.name for table in program.tables}
        for stage in program.stages:
            if stage.fold is not None or len(stage.tensors) > 1:
                fixed |= {tensor.name for tensor in stage.tensors}
            for access in self._accesses[stage.name]:
                if any(moved is None for moved in access.moved):
                    fixed |= {access.read.tensor, stage.name}
        windows = {self._classes.of(dimension) for dimension in self._windows()}
        for dimensions in self._reshapes:
            if windows.isdisjoint(map(self._classes.of, dimensions)):
                fixed |= {tensor for tensor, _ in dimensions}
        return frozenset(fixed)

    def _windows(self) -> Iterator[Dimension]:
        """Yields the dimensions along which windows slide."""
        for stage in self._program.stages:
            reduction = {axis.name for axis in stage.reduction}
            for moved in (moved for access in self._accesses[stage.name] for moved in access.moved):
                if moved and reduction & moved.keys():
                    yield from self._places(stage, moved)

    def _places(self, stage: Stage, moved: Mapping[str, int]) -> list[Dimension]:
        """The dimensions of what a stage gives along these axes."""
        return [(stage.name, n) for n, axis in enumerate(stage.axes) if axis.name in moved]

    def _link(self, stage: Stage) -> None:
        """Notes which dimensions are one class, and which are none, as a stage reads memory in another shape: a part of an
        axis, or several axes in one dimension."""
        for access in self._accesses[stage.name]:
            for n, moved in enumerate(access.moved):
                read, places = (access.read.tensor, n), self._places(stage, moved or {})
                if moved and (access.part[n] or len(places) > 1):
                    self._reshapes.append((read, *places))
                elif places:
                    self._classes.join(places[0], read)

    # ---- what is best ----

    def choose(self) -> bool:
        """Weighs each class; True if some tensor has another order then."""
        classes = self._movable()
        for _ in range(ROUNDS):  # what a class saves depends on those that it meets in products
            gains = [(self._gain(dimensions), -n, dimensions) for n, dimensions in enumerate(classes)]
            if all(gain <= 0 for gain, _, _ in gains):
                break
            for _, _, dimensions in sorted(gains, reverse=True):
                if self._gain(dimensions) > 0:
                    self._orders |= self._innermost(dimensions)
        return bool(self._orders)

    def _movable(self) -> list[list[Dimension]]:
        """The dimensions of each class that may move: where one is cut or put together, as the points of an image are that
        become tokens, none of the tensors with another shape."""
        found: dict[Dimension, list[Dimension]] = {}
        reshaped = {self._classes.of(dimension) for dimensions in self._reshapes for dimension in dimensions}
        tensors = {tensor for dimensions in self._reshapes for tensor, _ in dimensions}
        for stage in self._program.stages:
            for n, axis in enumerate(stage.axes):
                one = self._classes.of((stage.name, n))
                if axis.extent >= LANES and not (one in reshaped and stage.name in tensors):
                    found.setdefault(one, []).append((stage.name, n))
        return list(found.values())

    def _gain(self, dimensions: list[Dimension]) -> float:
        """Returns what all stages that see these dimensions save if the dimensions lie innermost."""
        changed = self._innermost(dimensions)
        if not changed:
            return 0.0
        seen = {name: self._program.stage(name) for name in changed}
        for name in changed:
            seen |= {reader.name: reader for reader in self._program.consumers[name]}
        after = {**self._orders, **changed}
        return sum(self._cost(stage, self._orders) - self._cost(stage, after) for stage in seen.values())

    def _innermost(self, dimensions: list[Dimension]) -> dict[str, DimensionOrder]:
        """The orders of the tensors that change if they have these dimensions innermost."""
        found: dict[str, DimensionOrder] = {}
        for tensor, n in dimensions:
            if tensor in self._fixed:
                continue
            old = found.get(tensor) or self._order(tensor, self._orders)
            found[tensor] = (*(m for m in old if m != n), n)
        return {tensor: new for tensor, new in found.items() if new != self._order(tensor, self._orders)}

    def _order(self, tensor: str, orders: Mapping[str, DimensionOrder]) -> DimensionOrder:
        return orders.get(tensor) or tuple(range(len(self._program.tensors[tensor].shape)))

    def _last(self, tensor: str, orders: Mapping[str, DimensionOrder]) -> int | None:
        """The innermost dimension with more than one point."""
        shape = self._program.tensors[tensor].shape
        return next((n for n in reversed(self._order(tensor, orders)) if shape[n] > 1), None)

    def _cost(self, stage: Stage, orders: Mapping[str, DimensionOrder]) -> float:
        """Returns what a stage loses with these orders, in elements that it could read instead."""
        last = None if stage.fold is not None else self._last(stage.name, orders)
        if last is None or stage.name in self._constant:
            return 0.0
        axis = stage.axes[last]
        cost = _of_product if is_anchor(stage) else _of_points
        total = 0.0
        for access in self._accesses[stage.name]:
            inner = self._last(access.read.tensor, orders)
            if inner is not None and any(axis.name in moved for moved in access.moved if moved):
                size = prod(self._program.tensors[access.read.tensor].shape)
                total += cost(stage, axis, access, inner, size)
        return total

    # ---- what comes of it ----

    def reordered(self) -> Program:
        """The program with the orders chosen. Names stay."""

        def moved(read: Read) -> Expr:
            order = self._orders.get(read.tensor)
            return read if order is None else Read(read.tensor, tuple(read.indices[n] for n in order), read.dtype)

        def changed(stage: Stage) -> Stage:
            order = self._orders.get(stage.name)
            if order is not None:
                tensor = stage.tensors[0]
                made = replace(tensor, shape=tuple(tensor.shape[n] for n in order))
                stage = replace(stage, tensors=(made,), axes=tuple(stage.axes[n] for n in order))
            reads = any(read.tensor in self._orders for read in stage.reads())
            return map_stage(stage, lambda e: map_reads(e, moved)) if reads else stage

        return self._program.replacing(tuple(map(changed, self._program.stages)))


def _accesses(stage: Stage, constant: frozenset[str]) -> tuple[_Access, ...]:
    """Returns what a stage reads at each call."""
    points = {axis.name for axis in stage.all_axes if axis.extent == 1}
    return tuple(
        _Access(
            read,
            tuple(_moved(index, points) for index in read.indices),
            tuple(not affine(index).is_linear for index in read.indices),
            tuple(affine(index).constant * read.dtype.bytes % ALIGNMENT != 0 for index in read.indices),
        )
        for read in stage.reads()
        if read.tensor not in constant
    )


def _moved(index: Expr, points: set[str]) -> Mapping[str, int] | None:
    found: dict[str, int] = {}
    for atom, step in affine(index).terms:
        known = _step_of(atom)
        if known is None:
            return None
        name, own = known
        if name not in points:
            found[name] = found.get(name, 0) + own * step
    return found


def _step_of(atom: Expr) -> tuple[str, int] | None:
    """The axis of which an atom is a part, and by how much one step along it moves the atom, mostly."""
    match atom:
        case Var():
            return atom.name, 1
        case Op(name="floordiv" | "mod" as name, args=(inner, Const())):
            terms = affine(inner).terms
            known = _step_of(terms[0][0]) if len(terms) == 1 else None
            return known and (known[0], known[1] * terms[0][1] if name == "mod" else 0)
        case _:
            return None


def _empty(extent: int) -> float:
    """The lanes that are left empty along a dimension, for each that is not."""
    return -(-extent // LANES) * LANES / extent - 1


def _of_points(stage: Stage, axis: Axis, access: _Access, inner: int, size: int) -> float:
    """Returns what a stage without reuse loses by one access, with vectors along an axis. `inner`: the innermost dimension
    read."""
    reduction = {a.name for a in stage.reduction}
    points = prod(a.extent for a in stage.axes)
    along = access.moved[inner] or {}
    if axis.name in along:
        if along[axis.name] != 1 or reduction & along.keys():
            return points * (SLIDING + 2 * _empty(axis.extent))
        return min(points, size) * ACROSS if access.shifted[inner] else 0.0
    slides = any(reduction & moved.keys() for moved in access.moved if moved and axis.name in moved)
    if reduction & along.keys() and not slides:
        return 0.0  # a row is summed up where it lies
    return min(points, size) * ACROSS


def _of_product(stage: Stage, axis: Axis, access: _Access, inner: int, size: int) -> float:
    """The same of a product, whose vectors had better move nothing but what is turned ahead."""
    points, reduction = prod(a.extent for a in stage.axes), {a.name for a in stage.reduction}
    window = any(reduction & moved.keys() and moved.keys() - reduction for moved in access.moved if moved)
    contiguous = window or axis.name in (access.moved[inner] or {})
    return points * (MOVING if contiguous else TURNED)


class _Classes:
    """Dimensions that belong together, as a forest in which each points at another one of its class."""

    def __init__(self) -> None:
        self._above: dict[Dimension, Dimension] = {}

    def of(self, one: Dimension) -> Dimension:
        """The dimension that stands for the class."""
        path = []
        while one in self._above:
            path.append(one)
            one = self._above[one]
        for passed in path:
            self._above[passed] = one
        return one

    def join(self, one: Dimension, other: Dimension) -> None:
        """Makes one class of two."""
        one, other = self.of(one), self.of(other)
        if one != other:
            self._above[one] = other
