"""Which part of each tensor a piece of a loop nest touches, in bytes of whole cache lines.

An `Access` is a read or a write of one stage. From the sizes of the stage's axes inside some loop follow the points touched
along each dimension (`IndexSpan`), and from these the cache lines:

    contiguous runs     the innermost dimension, and the next one too where the inner one is covered whole, ...
    moved bytes         runs * lines of a run: what must travel
    pages               in which the lines lie
    crowding            how many times more cache than that is needed because runs lie at strides near a page: all
                        first-level caches, and the in-page part of all others, place a line by its address modulo 4 KiB

Numbers are floats, float64 arrays with one entry for each candidate, or columns, which stand for such arrays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd
from typing import Union

import numpy as np
from numpy.typing import NDArray

from ..schedules.extents import Extent, Sym
from ..schedules.recording import Column, elementwise
from ..tensor.expr import Cast, Expr, Op, Var, variables
from ..tensor.indices.forms import affine, to_expr
from ..tensor.indices.intervals import Bounds, interval_of_form

Value = Union[float, NDArray[np.float64], Column]
AxisSizes = Mapping[str, Value]
PAGE = 4096.0
SETS = 128  # of translations: pages at multiples of it compete for the places of one (Sapphire Rapids; EPYC 9004: 256)
# Bytes from row to row from which on each piece of a row is a visit of a page by itself: the few of a page do not show a core
# where they are going. Pieces of 64, 128, 512 and 1280 bytes of rows of 2560 (blur 3x3 of bytes, an EPYC of Zen 3): 0.70, 0.68,
# 0.50 and 0.46 ms; where all lies in the second cache they take the same time. Of 9x9 floats in rows of as many bytes: 4.75,
# 5.49 and 2.90 ms for pieces of 64, 128 and 1024 bytes.
FAR = 1024
COLLIDING = 1024  # bytes: rows at multiples of it begin at four places of a page at most


def real(extent: Extent) -> Value:
    """A number of loop trips or points as a float (or floats). TypeError while it is symbolic."""
    if isinstance(extent, Sym):
        raise TypeError(f"the extent {extent} has no number yet: apply a config first")
    return float(extent) if isinstance(extent, int | np.integer) else extent.astype(np.float64)


@dataclass(frozen=True, slots=True)
class IndexSpan:
    """Says how many values an index takes over a box: 1 + sum(|coefficient| * (size of the axis - 1)) + the inner spans.

    `inner`: (|coefficient|, span, divisor, kept): the span of `x // divisor` (kept = 0) or of `x % kept`.
    """

    terms: tuple[tuple[str, int], ...]
    inner: tuple[tuple[int, IndexSpan, int, int], ...] = ()
    fixed: int = 0  # values beyond the first that do not depend on the box: data-dependent indices
    apart: int = 0  # from the first to the last of `several` such spans that one access takes
    several: int = 1

    def moved_by(self, distances: Sequence[int]) -> IndexSpan:
        """This one and the same at some distances together, of which 0 is one."""
        apart = max(distances) - min(distances)
        return replace(self, apart=apart, several=len(set(distances))) if apart else self

    def of(self, sizes: AxisSizes) -> Value:
        """The number of values, at least 1."""
        one = self._one(sizes)
        return np.minimum(one + float(self.apart), one * float(self.several)) if self.apart else one

    def _one(self, sizes: AxisSizes) -> Value:
        total: Value = 1.0 + self.fixed
        for axis, coefficient in self.terms:
            total = total + coefficient * (sizes[axis] - 1.0)
        for coefficient, span, divisor, kept in self.inner:
            steps = span.of(sizes) - 1.0
            steps = np.minimum(steps, kept - 1.0) if kept else _blocks(span, steps, divisor)
            total = total + coefficient * steps
        return total


def _blocks(span: IndexSpan, steps: Value, divisor: int) -> Value:
    """Says how many more values than one x // divisor takes while x moves by `steps`.

    The pieces of an axis begin at multiples of their size: one that is a multiple of the divisor, or divides it, begins where
    a block begins, or ends where one ends.
    """
    across = np.ceil(steps / divisor)
    if span.inner or span.fixed or span.apart or [coefficient for _, coefficient in span.terms] != [1]:
        return across
    size = steps + 1.0
    inside = np.where(np.equal(divisor % size, 0.0), 0.0, across)
    return np.where(np.equal(size % divisor, 0.0), size / divisor - 1.0, inside)


def span_of(index: Expr, extent: int) -> IndexSpan:
    """The span of an index into a dimension of `extent` points."""
    terms: list[tuple[str, int]] = []
    inner: list[tuple[int, IndexSpan, int, int]] = []
    fixed = 0
    for atom, coefficient in affine(index).terms:
        match atom:
            case Var(name=name):
                terms.append((name, abs(coefficient)))
            case Op(name="floordiv", args=(x, divisor)) if affine(divisor).is_constant:
                inner.append((abs(coefficient), span_of(x, extent), abs(affine(divisor).constant), 0))
            case Op(name="mod", args=(x, divisor)) if affine(divisor).is_constant:
                inner.append((abs(coefficient), span_of(x, extent), 1, abs(affine(divisor).constant)))
            case Op(name="min" | "max" | "select", args=args):  # a clamp does not widen what it clamps
                widest = max((span_of(a, extent) for a in args[-2:]), key=lambda s: (len(s.terms), s.fixed))
                inner.append((abs(coefficient), widest, 1, 0))
            case Cast(arg=x) if variables(x):
                inner.append((abs(coefficient), span_of(x, extent), 1, 0))
            case _:
                fixed = extent - 1
    return IndexSpan(tuple(terms), tuple(inner), fixed)


def far_parts(index: Expr, bounds: Bounds, element: int) -> tuple[Expr, Expr, int] | None:
    """An index part * step + rest, 0 <= rest < step, into parts that lie at least a page apart: (part, rest, step). They are
    rows to whoever goes over several at once. None for any other index."""
    form = affine(index)
    if len(form.terms) < 2 or not form.is_linear:
        return None
    part, step = max(form.terms, key=lambda term: term[1])
    rest = form.plus(affine(part), -step)
    low, high = interval_of_form(rest, bounds)
    return (part, to_expr(rest), step) if step * element >= PAGE and low >= 0 and high < step else None


@dataclass(frozen=True, eq=False)
class Access:
    """A read or a write of one tensor by one stage.

    spans, shape: for each dimension of more than one point, outermost first; `shape` is that of the storage.
    dense: the storage follows the order of the reader, so that any box of it is one run (copies).
    each_step: of a fold, stored in each of its steps and not once it is done.
    strides: bytes between neighbours along each dimension but the innermost, where no schedule changes them.
    """

    tensor: str
    spans: tuple[IndexSpan, ...]
    shape: tuple[Value, ...]
    axes: frozenset[str]
    element: int
    written: bool
    dense: bool = False
    each_step: bool = False
    strides: tuple[int, ...] = ()

    def extents(self, sizes: AxisSizes) -> list[Value]:
        """Points along each dimension that are touched inside a loop where the axes have these sizes."""
        return [np.minimum(span.of(sizes), extent) for span, extent in zip(self.spans, self.shape, strict=True)]

    def moved(self, extents: list[Value], line: int) -> Value:
        """Bytes of the lines of `line` bytes in a box of these extents."""
        if not extents:
            return float(line)
        if self.dense:
            return np.maximum(_product(extents) * self.element, float(line))
        alike = not self.strides or self.strides[-1] % line == 0  # all runs begin alike, mostly at the start of a line
        return _lines_of_runs(line, self.element, alike, *extents, *self.shape)

    def pages(self, extents: list[Value]) -> Value:
        """Bytes of the pages of a box: those of its runs, or of all from its first to its last byte if that is less."""
        if not extents:
            return PAGE
        if self.dense:
            return np.ceil(_product(extents) * (self.element / PAGE)) * PAGE
        return _pages_of_runs(self.element, *extents, *self.shape)

    def runs(self, extents: list[Value]) -> tuple[Value, Value]:
        """(elements of a contiguous run, number of runs) of a box of these extents."""
        return _runs(extents, self.shape)

    @property
    def pages_apart(self) -> float:
        """The power of two in the distance of neighbouring rows, in pages, at least 1: their translations compete."""
        apart = self.strides[-1] // int(PAGE)
        return float(min(apart & -apart, SETS)) if apart and self.strides[-1] % int(PAGE) == 0 else 1.0

    @property
    def crowds(self) -> bool:
        """Says whether rows can lie at strides that share much with a page."""
        return any(gcd(stride, int(PAGE)) >= 256 for stride in self.strides)

    @property
    def collides(self) -> bool:
        """Says whether neighbouring rows begin at the same few places of a first-level cache."""
        return bool(self.strides) and gcd(self.strides[-1], int(PAGE)) >= COLLIDING

    @property
    def is_far_apart(self) -> bool:
        """Says whether neighbouring rows begin in different pages, or so few of them in one that a core does not see from these
        where short pieces of them are going."""
        return bool(self.strides) and self.strides[-1] >= FAR

    def crowding(self, extents: list[Value], line: int) -> Value:
        """Cache needed by the box over the bytes in it, >= 1: a page's worth of places over the places that its lines use."""
        places = [PAGE / gcd(stride, int(PAGE)) for stride in self.strides]
        return _crowding(line, self.element, *extents, *self.shape, *places)


def _runs(extents: Sequence[Value], shape: Sequence[Value]) -> tuple[Value, Value]:
    run = extents[-1]
    runs: Value = 1.0
    whole = run >= shape[-1]
    for extent, full in zip(reversed(extents[:-1]), reversed(shape[:-1]), strict=True):
        run = np.where(whole, run * extent, run)
        runs = np.where(whole, runs, runs * extent)
        whole = whole & (extent >= full)
    return run, runs


@elementwise
def _lines_of_runs(line: int, element: int, alike: bool, *sizes: Value) -> Value:
    """`sizes`: of the box, then of the storage."""
    shape = sizes[len(sizes) // 2 :]
    run, runs = _runs(sizes[: len(sizes) // 2], shape)
    size = run * element
    size = np.ceil(size / line) * line if alike else size + (line - element)
    # neighbouring short runs may lie in one line: never more than the whole tensor
    return np.minimum(runs * size, _product(shape) * element + line)


@elementwise
def _pages_of_runs(element: int, *sizes: Value) -> Value:
    """`sizes`: of the box, then of the storage."""
    extents, shape = sizes[: len(sizes) // 2], sizes[len(sizes) // 2 :]
    run, runs = _runs(extents, shape)
    apart = np.ceil(run * (element / PAGE)) * runs
    reach = extents[-1]
    step: Value = 1.0
    for extent, inner in zip(reversed(extents[:-1]), reversed(shape[1:]), strict=True):
        step = step * inner
        reach = reach + (extent - 1.0) * step
    return np.minimum(apart, np.ceil(reach * (element / PAGE))) * PAGE


@elementwise
def _crowding(line: int, element: int, *sizes: Value) -> Value:
    """`sizes`: of the box, of the storage, then the places of lines for each dimension but the innermost."""
    rank = (len(sizes) + 1) // 3
    extents, shape, strided = sizes[:rank], sizes[rank : 2 * rank], sizes[2 * rank :]
    whole = extents[-1] >= shape[-1]
    covered = np.minimum(np.ceil(extents[-1] * element / line) * line, PAGE)
    for extent, full, places in zip(reversed(extents[:-1]), reversed(shape[:-1]), reversed(strided), strict=True):
        used = np.minimum(extent, places)
        covered = np.minimum(np.where(whole, covered * extent, covered * used), PAGE)
        whole = whole & (extent >= full)
    crowding: Value = PAGE / covered
    return crowding


def _product(values: Sequence[Value]) -> Value:
    total: Value = 1.0
    for value in values:
        total = total * value
    return total


def log_ratio(value: Value, of: Value) -> Value:
    """log2 of a ratio, both numbers not negative; cut off at 2^-12 and 2^20, where one of them as good as vanishes."""
    return np.log2(np.minimum(np.maximum(value / np.maximum(of, 1e-9), 2.0**-12), 2.0**20))


def total_of(values: list[Value]) -> Value:
    """Adds the values up; none give 0."""
    total: Value = 0.0
    for value in values:
        total = total + value
    return total
