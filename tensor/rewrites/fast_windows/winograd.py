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

from dataclasses import replace

from ...dtype import i32
from ...expr import Read, call
from ...program import Axis, Program, Stage, Tensor
from ...stage_edits import find_stage, identity_of, product, refuse, result_of, with_stages
from .sliding import SlidingSum, coefficient, point
from .toom_cook import POINTS, Numbers, floats, integers, strided

NO_CONVOLUTION = "this stage is no 3x3 convolution of stride 1 or 2"


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

    Where another window slides with steps of one, as over the pictures of a film, each picture is transformed once: with p + r
    as an axis p_r of NAME_columns, NAME_data and all that judges data, NAME_products sums over r as well as over c, and
    NAME_around[n, p, tile row, tile column] is the largest spread of what is seen at once.
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
        if tile not in POINTS:
            raise refuse(stage, "unknown tile of winograd", expected="2 or 4", found=str(tile))
        self._halves, self._tile = halves, tile
        self._sum = SlidingSum(program, stage, (rows, columns), NO_CONVOLUTION, window=3, stacks=True)
        self._windows = self._sum.windows
        self._stride = self._windows[0].stride
        self._points = (tile - 1) * self._stride + 3
        self._matrices = strided(POINTS[tile], tile, 3, self._stride)
        self._numbers = self._find_numbers()
        self._y, self._x = (Axis(self._sum.fresh(name), self._points) for name in ("y", "x"))
        self._counts = tuple(-(-w.output.extent // tile) for w in self._windows)
        self._tiles = Axis(self._sum.fresh("tiles"), self._counts[0] * self._counts[1])

    def program(self) -> Program:
        """The rewritten program."""
        matrices, numbers = self._matrices, self._numbers
        tables = [
            self._sum.table("data", matrices.data, numbers.parts),
            self._sum.table("filter", matrices.filter, numbers.parts, numbers.scale),
            self._sum.table("result", matrices.result, numbers.sums),
        ]
        lines = self._column_stage(tables[0].tensor)
        data = self._data_stage(tables[0].tensor, lines)
        filters = self._filter_stages(tables[1].tensor)
        products = self._product_stage(data, filters[-1])
        half, fast = self._fast_stages(tables[2].tensor, products)
        made = (lines, data, *filters, products, *self._finished(half, fast))
        extended = replace(self._sum.program, tables=(*self._sum.program.tables, *tables))
        return with_stages(extended, {self._sum.stage.name: made})

    def _find_numbers(self) -> Numbers:
        if self._sum.stage.bodies[0].dtype.is_float:
            return floats(self._sum.stage.bodies[0].dtype)
        return integers(
            self._sum.program, self._sum.stage, product(self._sum.data), product(self._sum.filter), self._matrices
        )

    def _column_stage(self, transform: Tensor) -> Stage:
        """L[y, ..., tiles, b, ...] = sum[a](B[y, a] * data at (tile row * m * stride + a, the same of columns + b))"""
        a, b = (Axis(self._sum.fresh(name), self._points) for name in ("a", "b"))
        across = self._counts[1]
        starts = (self._tiles.var // across, self._tiles.var % across)
        step = self._tile * self._stride
        rows, columns = (start * step + inside.var for start, inside in zip(starts, (a, b), strict=True))
        outer, reduced = self._sum.data_axes()
        axes = (self._y, *outer, self._tiles, b, *reduced)
        data = self._sum.data_at(rows, columns, (*axes, a)).cast(self._numbers.parts)
        return self._sum.made("columns", axes, product([coefficient(transform, self._y, a), data]), (a,))

    def _data_stage(self, transform: Tensor, lines: Stage) -> Stage:
        """V[y, x, ..., tiles, ...] = sum[b](B[x, b] * L[y, ..., tiles, b, ...])"""
        place = lines.axes.index(self._tiles) + 1
        b = lines.axes[place]
        axes = (self._y, self._x, *lines.axes[1:place], *lines.axes[place + 1 :])
        return self._sum.made("data", axes, product([coefficient(transform, self._x, b), result_of(lines)]), (b,))

    def _filter_stages(self, transform: Tensor) -> tuple[Stage, ...]:
        """U[y, x, ...] = sum[r, s](G[y, r] * G[x, s] * filter), or that in halves."""
        outer, reduced = self._sum.used(self._sum.filter)
        r, s = (window.window for window in self._windows)
        filters = product(self._sum.filter).cast(self._numbers.parts)
        down, across = coefficient(transform, self._y, r), coefficient(transform, self._x, s)
        if not self._halves:
            return (
                self._sum.made(
                    "filter", (self._y, self._x, *reduced, *outer), product([down, across, filters]), (r, s)
                ),
            )
        half = self._sum.made("filter_half", (*reduced, self._y, s, *outer), product([down, filters]), (r,))
        body = product([across, result_of(half)])
        return half, self._sum.made("filter", (*reduced, self._y, self._x, *outer), body, (s,))

    def _product_stage(self, data: Stage, filters: Stage) -> Stage:
        """M[y, x, outer, tiles, outer of the filter] = sum[c](V * U), one matrix product for each y, x"""
        shared, _ = self._sum.used(self._sum.data)
        axes = (self._y, self._x, *shared, self._tiles, *(axis for axis in self._sum.outer if axis not in shared))
        factors_ = [read.cast(self._numbers.sums) for read in (self._sum.seen(data), result_of(filters))]
        return self._sum.made("products", axes, product(factors_), self._sum.reduced)

    def _fast_stages(self, transform: Tensor, products: Stage) -> tuple[Stage, Stage]:
        """H[x, p, tile column] = sum[y](A[p % m, y] * M at the tile of p) and the result at p, q: sum[x](A[q % m, x] * H at the
        tile column of q), in the order of the products"""
        rows, columns = (window.output for window in self._windows)
        across = Axis(self._sum.fresh("across"), self._counts[1])
        tile = rows.var // self._tile * self._counts[1] + across.var
        place = tuple(tile if axis == self._tiles else axis.var for axis in products.axes)
        axes = tuple(
            part for axis in products.axes[1:] for part in ((rows, across) if axis == self._tiles else (axis,))
        )
        body = product([self._at_point(transform, rows, self._y), Read(products.name, place, self._numbers.sums)])
        half = self._sum.made("half", axes, body, (self._y,))
        place = tuple(columns.var // self._tile if axis == across else axis.var for axis in half.axes)
        axes = tuple(columns if axis == across else axis for axis in half.axes[1:])
        body = product([self._at_point(transform, columns, self._x), Read(half.name, place, self._numbers.sums)])
        return half, self._sum.made("fast", axes, body, (self._x,))

    def _at_point(self, transform: Tensor, position: Axis, point: Axis) -> Read:
        return Read(transform.name, (position.var % self._tile, point.var), transform.dtype)

    def _finished(self, half: Stage, fast: Stage) -> tuple[Stage, ...]:
        """The stages that make results of the transformed products: of floats by a choice, of integers by a quotient."""
        if self._numbers.sums.is_float:
            uneven, gauge = self._uneven_stages(), self._sum.gauge()
            return *uneven, gauge, half, fast, *self._choosing(fast, uneven[-1], gauge)
        found, scale = result_of(fast), self._numbers.scale
        return half, fast, *self._sum.ordered(fast, found // scale**2 if scale > 1 else found)

    # Tiles that are summed as they stood

    def _uneven_stages(self) -> tuple[Stage, ...]:
        """P[n, i, j] = sum[c](abs(data));  W[n, p, q] = max[r, s](P[n, stride * p + r, stride * q + s]), the largest of a
        window;  T[n, tile] = max[a, b](W);  L[n, tile] = min[a, b](W);  S[n, tile] = select(T <= UNEVEN * L, T, inf)"""
        extents = [count * self._tile for count in self._counts]
        reach = [(extent - 1) * self._stride + 3 for extent in extents]
        i, j = (Axis(self._sum.fresh(name), extent) for name, extent in zip(("i", "j"), reach, strict=True))
        p, q = (Axis(self._sum.fresh(name), extent) for name, extent in zip(("p", "q"), extents, strict=True))
        row, column = (
            Axis(self._sum.fresh(name), count) for name, count in zip(("row", "column"), self._counts, strict=True)
        )
        a, b = (Axis(self._sum.fresh(name), self._tile) for name in ("a", "b"))
        r, s = (Axis(self._sum.fresh(name), 3) for name in ("r", "s"))
        outer, reduced = self._sum.data_axes()
        value = call("abs", self._sum.data_at(i.var, j.var, (*outer, i, j, *reduced)))
        pixels = self._sum.made("size", (*outer, i, j), value, reduced)
        window = (place.var * self._stride + inside.var for place, inside in ((p, r), (q, s)))
        seen = self._sum.made("seen", (*outer, p, q), point(pixels, outer, *window), (r, s), "max")
        inside = (row.var * self._tile + a.var, column.var * self._tile + b.var)
        value = point(seen, outer, *inside)
        most = self._sum.made("most", (*outer, row, column), value, (a, b), "max")
        kept = [place < window.output.extent for place, window in zip(inside, self._windows, strict=True)]
        value = call("select", kept[0] & kept[1], value, identity_of("min", value))
        least = self._sum.made("least", (*outer, row, column), value, (a, b), "min")
        top, bottom = (point(stage, outer, row.var, column.var) for stage in (most, least))
        spread = self._sum.spread((*outer, row, column), top, bottom)
        return pixels, seen, most, least, spread, *self._around(spread, (row, column))

    def _around(self, spread: Stage, tile: tuple[Axis, Axis]) -> tuple[Stage, ...]:
        """R[n, p, tile] = max[r](S[n, p + r, tile]), where a window slides over other axes as well."""
        windows = tuple(window.window for window, _ in self._sum.stacked)
        outer, _ = self._sum.used(self._sum.data)
        return (self._sum.made("around", (*outer, *tile), self._sum.seen(spread), windows, "max"),) if windows else ()

    def _choosing(self, fast: Stage, spread: Stage, gauge: Stage) -> tuple[Stage, ...]:
        """E[n, p, q, o] = the terms of results of uneven tiles; the results"""
        rows, columns = (window.output.var // self._tile for window in self._windows)
        outer = tuple(axis for axis in self._sum.outer if axis in spread.axes)
        return self._sum.chosen(fast, point(spread, outer, rows, columns), gauge)
