"""A sum of products over two windows that slide, taken apart: what rewrites of such sums share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import product as product_of
from operator import and_

from ...dtype import DType, i64
from ...exceptional import HUGE
from ...expr import Const, Expr, Op, Read, call, children, reads, substitute, variables, with_children
from ...indices.affine import simplify
from ...indices.forms import affine
from ...indices.intervals import Known
from ...program import Axis, Program, Stage, Table, Tensor
from ...stage_edits import (
    factors,
    find_axis,
    free_axis_name,
    free_name,
    identity_of,
    product,
    refuse,
    result_of,
    shape_of,
)
from .toom_cook import Matrix

STRIDES = (1, 2)
UNEVEN = 2.0**5  # how many times the size of the largest pixel of a window that of the largest one of its tile may be
GAUGE = 2.0**20  # 2^64 of sums of data, 2^44 of the filter, and some 2^14 of all coefficients stay below 2^127


@dataclass(frozen=True, slots=True)
class Sliding:
    """One direction: output axis, window axis; the data are read at stride * output + dilation * window + constant."""

    output: Axis
    window: Axis
    stride: int
    dilation: int = 1


class SlidingSum:
    """The parts of such a sum, and stages made of them.

    program, stage: where it stands; windows: its directions; data: the factors of a term that slide, filter: the others;
    outer, reduced: the axes and the reduction axes that are none of a direction; stacked: windows over other axes, as over the
    pictures of a film, and for each of them the axis of all places that it sees.
    """

    def __init__(
        self,
        program: Program,
        stage: Stage,
        names: tuple[str, str],
        none: str,
        *,
        window: int | None = None,
        output: int | None = None,
        stacks: bool = False,
        dilated: bool = False,
    ) -> None:
        """Takes a stage apart. `names`: the output axes that slide; `none`: what it is none of, where it is refused; `window`,
        `output`: the extents that these axes must have, if any; `stacks`: whether `stacked` is looked for; `dilated`: whether
        there are gaps between the points of the window, of results that are next to each other.

        Errors: ProgramError where it is no such sum.
        """
        self.program, self.stage, self._none = program, stage, none
        self._dilated = dilated
        self.windows = self._find_windows(names, window, output)
        self.window_axes = tuple(direction.window for direction in self.windows)
        windows = {axis.name for axis in self.window_axes}
        outputs = {direction.output.name for direction in self.windows}
        parts = factors(stage.bodies[0])
        self.data = [part for part in parts if variables(part) & outputs]
        self.filter = [part for part in parts if not variables(part) & outputs]
        if not self.filter or not windows <= {name for part in self.filter for name in variables(part)}:
            raise self.refused("one factor that reads the filter at both windows")
        self.reduced = tuple(axis for axis in stage.reduction if axis.name not in windows)
        self.outer = tuple(axis for axis in stage.axes if axis.name not in outputs)
        self.stacked = tuple(self._find_stacked()) if stacks else ()

    def refused(self, expected: str) -> Exception:
        """Returns the error for a sum that is none of this kind."""
        return refuse(self.stage, self._none, expected=expected)

    def _find_windows(self, names: tuple[str, str], size: int | None, results: int | None) -> tuple[Sliding, Sliding]:
        """The window axis of each sliding axis: they are only used as their sum, in the factors that use the latter."""
        stage = self.stage
        if stage.combiner != "sum" or names[0] == names[1]:
            raise self.refused("a sum of products and two different axes")
        found: list[Sliding] = []
        for name in names:
            output = find_axis(stage, name)
            partners: dict[str, tuple[int, int]] = {}
            for part in factors(stage.bodies[0]):
                for read in reads(part) if name in variables(part) else ():
                    for index in read.indices:
                        terms = affine(index).coefficients
                        step = terms.pop(name, 0)
                        partners |= {other: (step, by) for other, by in terms.items() if self._is_sliding(step, by)}
            windows = [a for a in stage.reduction if a.name in partners and size in (None, a.extent)]
            if output not in stage.axes or len(windows) != 1 or results not in (None, output.extent):
                wanted = f"over a window of extent {size}" if size else f"to {results} places"
                raise self.refused(f"{name} as a spatial axis that slides {wanted}")
            found.append(Sliding(output, windows[0], *partners[windows[0].name]))
        if (found[0].stride, found[0].dilation) != (found[1].stride, found[1].dilation):
            raise self.refused("one stride in both directions, and one dilation")
        self._check_sliding(found)
        return found[0], found[1]

    def _is_sliding(self, step: int, by: int) -> bool:
        """Says whether a window slides that moves by one number along a result, and by another along the window."""
        return step == 1 and by > 1 if self._dilated else step in STRIDES and by == 1

    def _check_sliding(self, windows: Sequence[Sliding]) -> None:
        """Checks that every factor of the data uses output and window as their sum alone."""
        for part in factors(self.stage.bodies[0]):
            for window in windows:
                if window.output.name in variables(part) and not _slides(part, window):
                    raise self.refused(f"{window.output.name} and {window.window.name} used as their sum alone")

    def _find_stacked(self) -> Iterator[tuple[Sliding, Axis]]:
        """Yields windows of stride 1 among the other axes of the data."""
        outer, reduced = self.used(self.data)
        for output, window in product_of(outer, reduced):
            found = Sliding(output, window, 1)
            if all(_slides(part, found) for part in self.data):
                places = output.extent + window.extent - 1
                yield found, Axis(self.fresh(f"{output.name}_{window.name}"), places)

    # Parts of what is made

    def fresh(self, name: str) -> str:
        """Returns a name for an axis."""
        return free_axis_name(self.stage, name)

    def used(self, parts: Sequence[Expr]) -> tuple[tuple[Axis, ...], tuple[Axis, ...]]:
        """Returns the outer and the reduced axes that factors depend on."""
        names = {name for part in parts for name in variables(part)}
        return tuple(a for a in self.outer if a.name in names), tuple(a for a in self.reduced if a.name in names)

    def data_axes(self) -> tuple[tuple[Axis, ...], tuple[Axis, ...]]:
        """Returns the outer and the reduced axes of what is made of data alone: the places of a window, where its axis was."""
        outer, reduced = self.used(self.data)
        places = {window.output: axis for window, axis in self.stacked}
        windows = {window.window for window, _ in self.stacked}
        return tuple(places.get(a, a) for a in outer), tuple(a for a in reduced if a not in windows)

    def seen(self, made: Stage) -> Read:
        """Reads what was made of data alone, at the place of a result and its windows."""
        places: dict[str, Expr] = {axis.name: window.output.var + window.window.var for window, axis in self.stacked}
        return Read(made.name, tuple(places.get(a.name, a.var) for a in made.axes), made.tensors[0].dtype)

    def table(self, kind: str, rows: Matrix, dtype: DType, scale: int = 1) -> Table:
        """Returns a matrix, times a number, as a table NAME_KIND_transform."""
        name = free_name(self.program, f"{self.stage.name}_{kind}_transform")
        values = [value * scale for row in rows for value in row]
        numbers = tuple(float(value) if dtype.is_float else int(value) for value in values)
        return Table(Tensor(name, dtype, (len(rows), len(rows[0]))), numbers)

    def made(
        self, kind: str, axes: Sequence[Axis], body: Expr, reduction: Sequence[Axis], combiner: str = "sum"
    ) -> Stage:
        """Returns a stage NAME_KIND."""
        axes, reduction = tuple(axes), tuple(reduction)
        tensor = Tensor(free_name(self.program, f"{self.stage.name}_{kind}"), body.dtype, shape_of(axes))
        return Stage((tensor,), axes, (body,), reduction, combiner if reduction else None, None, self.stage.origin)

    def data_at(self, rows: Expr, columns: Expr, axes: Sequence[Axis], first: tuple[Expr, Expr] | None = None) -> Expr:
        """Returns the data that the first output, or the one at `first`, would see at some row and column of its window, which
        `axes` move. What a tile at the edge would read outside of its tensor is 0: no result that is kept needs it."""
        places: dict[str, Expr] = dict(zip((w.output.name for w in self.windows), first or (), strict=False))
        stacked = ((window, axis.var) for window, axis in self.stacked)
        for window, place in (*zip(self.windows, (rows, columns), strict=True), *stacked):
            places.setdefault(window.output.name, Const(0, i64))
            places[window.window.name] = place
        return self._bounded(substitute(product(self.data), places), axes)

    def filter_at(self, rows: Expr, columns: Expr, axes: Sequence[Axis]) -> Expr:
        """Returns the filter at some row and column of its window, which `axes` move; beyond the window it is 0."""
        places = dict(zip((axis.name for axis in self.window_axes), (rows, columns), strict=True))
        inside = (place < axis.extent for axis, place in zip(self.window_axes, places.values(), strict=True))
        found = substitute(product(self.filter), places)
        return self._bounded(call("select", reduce(and_, inside), found, identity_of("sum", found)), axes)

    def _bounded(self, found: Expr, axes: Sequence[Axis]) -> Expr:
        bounds = {axis.name: (0, axis.extent - 1) for axis in axes}
        return self._guarded(simplify(found, bounds), Known(bounds))

    def _guarded(self, data: Expr, known: Known) -> Expr:
        def visit(expr: Expr, known: Known) -> Expr:
            if isinstance(expr, Op) and expr.name == "select":
                condition, yes, no = expr.args
                arms = [
                    visit(arm, inside) if (inside := known.assume(condition, holds)) is not None else arm
                    for arm, holds in ((yes, True), (no, False))
                ]
                return call("select", condition, *arms)
            if not isinstance(expr, Read):
                return with_children(expr, tuple(visit(child, known) for child in children(expr)))
            guard: Expr | None = None
            for index, size in zip(expr.indices, self.program.tensors[expr.tensor].shape, strict=True):
                low, high = known.interval(index)
                conditions = [index >= 0] * (low < 0) + [index < size] * (high >= size)
                for condition in conditions:
                    guard = condition if guard is None else guard & condition
            return expr if guard is None else call("select", guard, expr, identity_of("sum", expr))

        return visit(data, known)

    # How it ends

    def spread(self, axes: Sequence[Axis], most: Read, least: Read) -> Stage:
        """Returns S = select(most <= UNEVEN * least, most, inf): the largest size, infinite where data are uneven."""
        even = call("select", most <= least * UNEVEN, most, Const(float("inf"), most.dtype))
        return self.made("spread", axes, even, ())

    def gauge(self) -> Stage:
        """Returns G[o] = max[c, r, s](abs(filter) * 2^20)."""
        axes, reduced = self.used(self.filter)
        reduction = [axis for axis in self.stage.reduction if axis in reduced or axis in self.window_axes]
        return self.made("gauge", axes, call("abs", product(self.filter)) * GAUGE, reduction, "max")

    def chosen(self, fast: Stage, spread: Read, gauge: Stage) -> tuple[Stage, ...]:
        """Returns the sum by its definition, whose terms count where the spread of data or the gauge of the filter is huge
        (exceptional.py), and the results."""
        stage, dtype = self.stage, fast.tensors[0].dtype
        here = tuple(axis.var for axis in fast.axes)
        ordinary = (call("abs", spread) < HUGE) & (call("abs", result_of(gauge)) < HUGE)
        term = call("select", ~ordinary, stage.bodies[0], identity_of("sum", stage.bodies[0]))
        exact = self.made("exact", fast.axes, term, stage.reduction)
        found, summed = (Read(made.name, here, dtype) for made in (fast, exact))
        return exact, *self.ordered(fast, call("select", ordinary, found, summed))

    def ordered(self, fast: Stage, result: Expr) -> tuple[Stage, ...]:
        """Returns the results, in the order of the axes of `fast` and in their own."""
        stage = self.stage
        if fast.axes == stage.axes:
            return (replace(stage, bodies=(result,), reduction=(), combiner=None),)
        checked = self.made("checked", fast.axes, result, ())
        return checked, replace(stage, bodies=(result_of(checked),), reduction=(), combiner=None)


def _slides(part: Expr, window: Sliding) -> bool:
    """Says whether a factor stays as it is where output + dilation stands for output, and window - stride for window."""
    step = {
        window.output.name: window.output.var + window.dilation,
        window.window.name: window.window.var - window.stride,
    }
    return simplify(substitute(part, step)) == simplify(part)


def coefficient(tensor: Tensor, first: Axis, second: Axis) -> Read:
    """Returns an element of a matrix."""
    return Read(tensor.name, (first.var, second.var), tensor.dtype)


def point(stage: Stage, outer: Sequence[Axis], *place: Expr) -> Read:
    """Returns a stage's tensor at its outer axes and some place."""
    return Read(stage.name, (*(axis.var for axis in outer), *place), stage.tensors[0].dtype)
