"""Winograd's minimal filtering for 3x3 convolutions: F(2x2, 3x3) and F(4x4, 3x3).

Y = A^T [ (G g G^T) * (B^T d B) ] A  over tiles d of the image: Lavin and Gray, Fast Algorithms for Convolutional Neural
Networks, 2015; the matrices are those of toom_cook.py. F(4x4, 3x3) does 4 times fewer multiplications than the definition, at
the price of errors a few times larger. Of stride 2, where each output takes every other of its pixels from each phase of the
image, it does 1.8 times fewer, and F(2x2, 3x3) 1.4 instead of 2.25 times.

A tile is transformed as a whole, so its largest element has a share in the rounding errors of all its results, those too
whose windows do not hold it. Therefore the results of uneven tiles are summed as they stood:

    size[pixel] = sum[c](abs(d))
    spread[tile] = the largest size, infinite where all pixels of some window have less than 1 / UNEVEN of it
    y = select(spread[tile] < 2^64 and gauge[o] < 2^64, fast, exact)

exact being a sum that only such tiles have terms in (exceptional.py). NaN, infinities and huge numbers take the same way, those
of the filter by its gauge, the largest element times 2^20: no product of what remains overflows. So nothing differs from the
definition but roundings, and the error of each result has a bound that its own window gives, a small multiple of UNEVEN * eps *
(the largest size in the window) * (the largest abs of the filter): what lies outside cannot spoil it. docs/accuracy.md has the
figures.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from ..dtype import DType, i32, i64
from ..exceptional import HUGE
from ..expr import Const, Expr, Op, Read, call, children, reads, substitute, variables, with_children
from ..indices.affine import simplify
from ..indices.forms import affine
from ..indices.intervals import Known
from ..program import Axis, Program, Stage, Table, Tensor
from ..stage_edits import (
    factors,
    find_axis,
    find_stage,
    free_axis_name,
    free_name,
    identity_of,
    product,
    refuse,
    result_of,
    shape_of,
    with_stages,
)
from .toom_cook import Matrix, Numbers, floats, integers, strided

# Outputs of a tile in one direction -> where data and filter are evaluated, beside infinity; by 2 taps, at all but the last. Of
# the points for 4 outputs with as many zeros in the matrices these have the least errors: over the points 0, 1, -1, 2, -2 of
# Lavin and Gray a half in the mean and less than a third at worst (64 channels, uniform data).
POINTS = {
    2: (Fraction(0), Fraction(1), Fraction(-1)),
    4: (Fraction(0), Fraction(3, 4), Fraction(-3, 4), Fraction(3, 2), Fraction(-3, 2)),
}

STRIDES = (1, 2)
NO_CONVOLUTION = "this stage is no 3x3 convolution of stride 1 or 2"

UNEVEN = 2.0**5  # how many times the size of the largest pixel of a window that of the largest one of its tile may be
GAUGE = 2.0**20  # 2^64 of sums of data, 2^44 of the filter, and some 2^14 of all coefficients stay below 2^127


@dataclass(frozen=True, slots=True)
class _Window:
    """One sliding direction: output axis, window axis (extent 3); the data are read at stride * output + window + constant."""

    output: Axis
    window: Axis
    stride: int


def winograd(program: Program, stage: str, rows: str, columns: str, tile: int = 2, halves: bool = False) -> Program:
    """A 3x3 convolution becomes transforms of data and filter, a batch of matrix products, and a transform back.

    Args:
        stage: a sum of products in which, for each of the two axes, the data are read at axis + window, or both at
            2 * axis + window, the filter at window alone; both windows have extent 3.
        rows, columns: the two spatial axes that slide.
        tile: outputs of one tile in each direction, 2 or 4.
        halves: the filter is transformed in one direction after the other as well, by NAME_filter_half[c, y, s, o] and then
            NAME_filter[c, y, x, o], as is good where each call does it: all points of one c lie together.

    Stages made, for outer axes n of the data and o of the filter alone and reduced axes c, all tiles being one axis:
    NAME_columns[y, n, tiles, tile column, c] and NAME_data[y, x, n, tiles, c] (one direction each), NAME_filter[y, x, c, o],
    NAME_products[y, x, n, tiles, o] (the matrix products), NAME_half[x, n, p, tile column, o] and NAME_fast[n, p, q, o] (one
    direction each);
    NAME_size[n, row, column], NAME_seen[n, p, q], the largest in a window, NAME_most, NAME_least and NAME_spread[n, tile row,
    tile column], NAME_gauge[o]; NAME_exact[n, p, q, o], whose terms count only in uneven tiles, and the stage itself, which
    chooses. Where its axes stand in another order it takes its elements from NAME_checked, which has that of the others.
    Errors: ProgramError where the stage is no such convolution.
    """
    found = find_stage(program, stage)
    if not found.bodies[0].dtype.is_float:
        raise refuse(found, NO_CONVOLUTION, expected="floating-point data")
    return _Winograd(program, found, rows, columns, tile, halves).program()


def winograd_integers(program: Program, stage: str, rows: str, columns: str) -> Program:
    """The same of products of bytes that are summed in i32, F(2x2, 3x3), and exact.

    Of stride 1 the filter's matrix is taken twice in each direction, so that all coefficients are whole numbers, and NAME_fast
    is 4 times the sum (toom_cook.py); of stride 2 it is the sum. NAME_columns, NAME_data and NAME_filter are i16, and
    NAME_products sums products of these in i32. Nothing is uneven: the stage itself divides, or, where its axes stand in
    another order, NAME_checked does.

    Errors: ProgramError where the stage is no such convolution, or where the types and constants of the program do not tell
    that all these numbers fit.
    """
    found = find_stage(program, stage)
    if found.bodies[0].dtype != i32:
        raise refuse(found, NO_CONVOLUTION, expected="sums of products in i32")
    return _Winograd(program, found, rows, columns, 2).program()


class _Winograd:
    """Takes one convolution apart and puts it together again."""

    def __init__(
        self, program: Program, stage: Stage, rows: str, columns: str, tile: int, halves: bool = False
    ) -> None:
        self._program = program
        self._halves = halves
        self._stage = stage
        if tile not in POINTS:
            raise refuse(self._stage, "unknown tile of winograd", expected="2 or 4", found=str(tile))
        self._tile = tile
        self._windows = self._find_windows((rows, columns))
        self._stride = self._windows[0].stride
        self._points = (tile - 1) * self._stride + 3
        windows = {window.window.name for window in self._windows}
        outputs = {window.output.name for window in self._windows}
        parts = factors(self._stage.bodies[0])
        self._data = [part for part in parts if variables(part) & outputs]
        self._filter = [part for part in parts if not variables(part) & outputs]
        filter_axes = {name for part in self._filter for name in variables(part)}
        if not self._filter or not windows <= filter_axes:
            raise self._refused("one factor that reads the filter at both windows")
        self._matrices = strided(POINTS[tile], tile, 3, self._stride)
        self._numbers = self._find_numbers()
        self._y, self._x = (Axis(self._fresh(name), self._points) for name in ("y", "x"))
        self._counts = tuple(-(-w.output.extent // tile) for w in self._windows)
        self._tiles = Axis(self._fresh("tiles"), self._counts[0] * self._counts[1])
        self._reduced = tuple(axis for axis in self._stage.reduction if axis.name not in windows)
        self._outer = tuple(axis for axis in self._stage.axes if axis.name not in outputs)

    def program(self) -> Program:
        """The rewritten program."""
        matrices, numbers = self._matrices, self._numbers
        tables = [
            self._table("data", matrices.data, numbers.parts),
            self._table("filter", matrices.filter, numbers.parts, numbers.scale),
            self._table("result", matrices.result, numbers.sums),
        ]
        lines = self._column_stage(tables[0].tensor)
        data = self._data_stage(tables[0].tensor, lines)
        filters = self._filter_stages(tables[1].tensor)
        products = self._product_stage(data, filters[-1])
        half, fast = self._fast_stages(tables[2].tensor, products)
        made = (lines, data, *filters, products, *self._finished(half, fast))
        extended = replace(self._program, tables=(*self._program.tables, *tables))
        return with_stages(extended, {self._stage.name: made})

    def _find_numbers(self) -> Numbers:
        if self._stage.bodies[0].dtype.is_float:
            return floats(self._stage.bodies[0].dtype)
        return integers(self._program, self._stage, product(self._data), product(self._filter), self._matrices)

    def _refused(self, expected: str) -> Exception:
        return refuse(self._stage, NO_CONVOLUTION, expected=expected)

    def _fresh(self, name: str) -> str:
        return free_axis_name(self._stage, name)

    def _find_windows(self, names: tuple[str, str]) -> tuple[_Window, _Window]:
        """The window axis of each sliding axis: they are only used as their sum, in the factors that use the latter."""
        stage = self._stage
        if stage.combiner != "sum" or names[0] == names[1]:
            raise self._refused("a sum of products and two different axes")
        found: list[_Window] = []
        for name in names:
            output = find_axis(stage, name)
            partners: dict[str, int] = {}
            for part in factors(stage.bodies[0]):
                for read in reads(part) if name in variables(part) else ():
                    for index in read.indices:
                        terms = affine(index).coefficients
                        if terms.get(name) in STRIDES:
                            partners |= {other: terms[name] for other, by in terms.items() if other != name and by == 1}
            windows = [a for a in stage.reduction if a.name in partners and a.extent == 3]
            if output not in stage.axes or len(windows) != 1:
                raise self._refused(f"{name} as a spatial axis that slides over a window of extent 3")
            found.append(_Window(output, windows[0], partners[windows[0].name]))
        if found[0].stride != found[1].stride:
            raise self._refused("one stride in both directions")
        self._check_sliding(found)
        return found[0], found[1]

    def _check_sliding(self, windows: list[_Window]) -> None:
        """Replacing output by output + 1 and window by window - stride must leave every factor of the data as it is."""
        for part in factors(self._stage.bodies[0]):
            for window in windows:
                if window.output.name not in variables(part):
                    continue
                step = {
                    window.output.name: window.output.var + 1,
                    window.window.name: window.window.var - window.stride,
                }
                if simplify(substitute(part, step)) != simplify(part):
                    raise self._refused(f"{window.output.name} and {window.window.name} used as their sum alone")

    def _table(self, kind: str, rows: Matrix, dtype: DType, scale: int = 1) -> Table:
        name = free_name(self._program, f"{self._stage.name}_{kind}_transform")
        values = [value * scale for row in rows for value in row]
        numbers = tuple(float(value) if dtype.is_float else int(value) for value in values)
        return Table(Tensor(name, dtype, (len(rows), len(rows[0]))), numbers)

    def _made(
        self, kind: str, axes: tuple[Axis, ...], body: Expr, reduction: tuple[Axis, ...], combiner: str = "sum"
    ) -> Stage:
        tensor = Tensor(free_name(self._program, f"{self._stage.name}_{kind}"), body.dtype, shape_of(axes))
        return Stage((tensor,), axes, (body,), reduction, combiner if reduction else None, None, self._stage.origin)

    def _column_stage(self, transform: Tensor) -> Stage:
        """L[y, ..., tiles, b, ...] = sum[a](B[y, a] * data at (tile row * m * stride + a, the same of columns + b))"""
        a, b = (Axis(self._fresh(name), self._points) for name in ("a", "b"))
        across = self._counts[1]
        starts = (self._tiles.var // across, self._tiles.var % across)
        step = self._tile * self._stride
        rows, columns = (start * step + inside.var for start, inside in zip(starts, (a, b), strict=True))
        used = {name for part in self._data for name in variables(part)}
        outer, reduced = ([x for x in axes if x.name in used] for axes in (self._outer, self._reduced))
        axes = (self._y, *outer, self._tiles, b, *reduced)
        data = self._data_at(rows, columns, (*axes, a)).cast(self._numbers.parts)
        return self._made("columns", axes, product([_at(transform, self._y, a), data]), (a,))

    def _data_at(self, rows: Expr, columns: Expr, axes: tuple[Axis, ...]) -> Expr:
        """The data that the first output would see at some row and column of its window, which `axes` move."""
        places: dict[str, Expr] = {}
        for window, place in zip(self._windows, (rows, columns), strict=True):
            places[window.output.name] = Const(0, i64)
            places[window.window.name] = place
        bounds = {axis.name: (0, axis.extent - 1) for axis in axes}
        return self._guarded(simplify(substitute(product(self._data), places), bounds), Known(bounds))

    def _data_stage(self, transform: Tensor, lines: Stage) -> Stage:
        """V[y, x, ..., tiles, ...] = sum[b](B[x, b] * L[y, ..., tiles, b, ...])"""
        place = lines.axes.index(self._tiles) + 1
        b = lines.axes[place]
        axes = (self._y, self._x, *lines.axes[1:place], *lines.axes[place + 1 :])
        return self._made("data", axes, product([_at(transform, self._x, b), result_of(lines)]), (b,))

    def _guarded(self, data: Expr, known: Known) -> Expr:
        """Reads that a tile at the edge would do outside of their tensor give 0: no result that is kept needs them."""

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
            for index, size in zip(expr.indices, self._program.tensors[expr.tensor].shape, strict=True):
                low, high = known.interval(index)
                conditions = [index >= 0] * (low < 0) + [index < size] * (high >= size)
                for condition in conditions:
                    guard = condition if guard is None else guard & condition
            return expr if guard is None else call("select", guard, expr, identity_of("sum", expr))

        return visit(data, known)

    def _filter_stages(self, transform: Tensor) -> tuple[Stage, ...]:
        """U[y, x, ...] = sum[r, s](G[y, r] * G[x, s] * filter), or that in halves."""
        used = {name for part in self._filter for name in variables(part)}
        reduced, outer = (tuple(x for x in axes if x.name in used) for axes in (self._reduced, self._outer))
        r, s = (window.window for window in self._windows)
        filters = product(self._filter).cast(self._numbers.parts)
        down, across = _at(transform, self._y, r), _at(transform, self._x, s)
        if not self._halves:
            return (
                self._made("filter", (self._y, self._x, *reduced, *outer), product([down, across, filters]), (r, s)),
            )
        half = self._made("filter_half", (*reduced, self._y, s, *outer), product([down, filters]), (r,))
        body = product([across, result_of(half)])
        return half, self._made("filter", (*reduced, self._y, self._x, *outer), body, (s,))

    def _product_stage(self, data: Stage, filters: Stage) -> Stage:
        """M[y, x, outer, tiles, outer of the filter] = sum[c](V * U), one matrix product for each y, x"""
        shared = [axis for axis in self._outer if axis in data.axes]
        axes = (self._y, self._x, *shared, self._tiles, *(axis for axis in self._outer if axis not in shared))
        factors_ = [result_of(stage).cast(self._numbers.sums) for stage in (data, filters)]
        return self._made("products", axes, product(factors_), self._reduced)

    def _fast_stages(self, transform: Tensor, products: Stage) -> tuple[Stage, Stage]:
        """H[x, p, tile column] = sum[y](A[p % m, y] * M at the tile of p) and the result at p, q: sum[x](A[q % m, x] * H at the
        tile column of q), in the order of the products"""
        rows, columns = (window.output for window in self._windows)
        across = Axis(self._fresh("across"), self._counts[1])
        tile = rows.var // self._tile * self._counts[1] + across.var
        place = tuple(tile if axis == self._tiles else axis.var for axis in products.axes)
        axes = tuple(
            part for axis in products.axes[1:] for part in ((rows, across) if axis == self._tiles else (axis,))
        )
        body = product([self._at_point(transform, rows, self._y), Read(products.name, place, self._numbers.sums)])
        half = self._made("half", axes, body, (self._y,))
        place = tuple(columns.var // self._tile if axis == across else axis.var for axis in half.axes)
        axes = tuple(columns if axis == across else axis for axis in half.axes[1:])
        body = product([self._at_point(transform, columns, self._x), Read(half.name, place, self._numbers.sums)])
        return half, self._made("fast", axes, body, (self._x,))

    def _at_point(self, transform: Tensor, position: Axis, point: Axis) -> Read:
        return Read(transform.name, (position.var % self._tile, point.var), transform.dtype)

    def _finished(self, half: Stage, fast: Stage) -> tuple[Stage, ...]:
        """The stages that make results of the transformed products: of floats by a choice, of integers by a quotient."""
        if self._numbers.sums.is_float:
            uneven, gauge = self._uneven_stages(), self._gauge_stage()
            return *uneven, gauge, half, fast, *self._choosing(fast, uneven[-1], gauge)
        found, scale = result_of(fast), self._numbers.scale
        return half, fast, *self._ordered(fast, found // scale**2 if scale > 1 else found)

    # Tiles that are summed as they stood

    def _uneven_stages(self) -> tuple[Stage, ...]:
        """P[n, i, j] = sum[c](abs(data));  W[n, p, q] = max[r, s](P[n, stride * p + r, stride * q + s]), the largest of a
        window;  T[n, tile] = max[a, b](W);  L[n, tile] = min[a, b](W);  S[n, tile] = select(T <= UNEVEN * L, T, inf)"""
        extents = [count * self._tile for count in self._counts]
        reach = [(extent - 1) * self._stride + 3 for extent in extents]
        i, j = (Axis(self._fresh(name), extent) for name, extent in zip(("i", "j"), reach, strict=True))
        p, q = (Axis(self._fresh(name), extent) for name, extent in zip(("p", "q"), extents, strict=True))
        row, column = (
            Axis(self._fresh(name), count) for name, count in zip(("row", "column"), self._counts, strict=True)
        )
        a, b = (Axis(self._fresh(name), self._tile) for name in ("a", "b"))
        r, s = (Axis(self._fresh(name), 3) for name in ("r", "s"))
        used = {name for part in self._data for name in variables(part)}
        outer, reduced = (tuple(x for x in axes if x.name in used) for axes in (self._outer, self._reduced))
        value = call("abs", self._data_at(i.var, j.var, (*outer, i, j, *reduced)))
        pixels = self._made("size", (*outer, i, j), value, reduced)
        window = (place.var * self._stride + inside.var for place, inside in ((p, r), (q, s)))
        seen = self._made("seen", (*outer, p, q), _point(pixels, outer, *window), (r, s), "max")
        inside = (row.var * self._tile + a.var, column.var * self._tile + b.var)
        value = _point(seen, outer, *inside)
        most = self._made("most", (*outer, row, column), value, (a, b), "max")
        kept = [place < window.output.extent for place, window in zip(inside, self._windows, strict=True)]
        value = call("select", kept[0] & kept[1], value, identity_of("min", value))
        least = self._made("least", (*outer, row, column), value, (a, b), "min")
        top, bottom = (_point(stage, outer, row.var, column.var) for stage in (most, least))
        even = call("select", top <= bottom * UNEVEN, top, Const(float("inf"), self._numbers.sums))
        return pixels, seen, most, least, self._made("spread", (*outer, row, column), even, ())

    def _gauge_stage(self) -> Stage:
        """G[o] = max[c, r, s](abs(filter) * 2^20)"""
        used = {name for part in self._filter for name in variables(part)}
        axes = tuple(axis for axis in self._outer if axis.name in used)
        reduction = tuple(axis for axis in self._stage.reduction if axis.name in used)
        return self._made("gauge", axes, call("abs", product(self._filter)) * GAUGE, reduction, "max")

    def _choosing(self, fast: Stage, spread: Stage, gauge: Stage) -> tuple[Stage, ...]:
        """E[n, p, q, o] = the terms of results of uneven tiles; the results"""
        stage, axes = self._stage, fast.axes
        rows, columns = (window.output.var // self._tile for window in self._windows)
        outer = tuple(axis for axis in self._outer if axis in axes and axis in spread.axes)
        here = tuple(axis.var for axis in axes)
        found = Read(fast.name, here, self._numbers.sums)
        even = call("abs", _point(spread, outer, rows, columns)) < HUGE
        even = even & (call("abs", _point(gauge, gauge.axes)) < HUGE)
        term = call("select", ~even, stage.bodies[0], identity_of("sum", stage.bodies[0]))
        exact = self._made("exact", axes, term, stage.reduction)
        return exact, *self._ordered(fast, call("select", even, found, Read(exact.name, here, self._numbers.sums)))

    def _ordered(self, fast: Stage, result: Expr) -> tuple[Stage, ...]:
        """The results, in the order of the others and in their own."""
        stage = self._stage
        if fast.axes == stage.axes:
            return (replace(stage, bodies=(result,), reduction=(), combiner=None),)
        checked = self._made("checked", fast.axes, result, ())
        return checked, replace(stage, bodies=(result_of(checked),), reduction=(), combiner=None)


def _at(tensor: Tensor, first: Axis, second: Axis) -> Read:
    return Read(tensor.name, (first.var, second.var), tensor.dtype)


def _point(stage: Stage, outer: tuple[Axis, ...], *place: Expr) -> Read:
    """A stage's tensor at its outer axes and some place."""
    return Read(stage.name, (*(axis.var for axis in outer), *place), stage.tensors[0].dtype)
