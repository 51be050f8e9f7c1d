"""Winograd's minimal filtering for 3x3 convolutions of stride 1: F(2x2, 3x3) and F(4x4, 3x3).

Y = A^T [ (G g G^T) * (B^T d B) ] A  over tiles d of the image: Lavin and Gray, Fast Algorithms for Convolutional Neural
Networks, 2015; the matrices are those of toom_cook.py. F(4x4, 3x3) does 4 times fewer multiplications than the definition, at
the price of errors a few times larger; an infinity or NaN in the image spreads over its tile.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from .affine import simplify
from .dtype import DType, i64
from .expr import Const, Expr, Op, Read, call, children, reads, substitute, variables, with_children
from .forms import affine
from .intervals import Known
from .program import Axis, Program, Stage, Table, Tensor
from .surgery import (
    factors,
    find_axis,
    find_stage,
    free_axis_name,
    free_name,
    identity_of,
    product,
    refuse,
    with_stages,
)
from .toom_cook import Matrix, toom_cook

# Outputs of a tile in one direction -> where data and filter are evaluated, beside infinity. Of the points for 4 outputs with
# as many zeros in the matrices these have the least errors: over the points 0, 1, -1, 2, -2 of Lavin and Gray a half in the
# mean and less than a third at worst (64 channels, uniform data).
POINTS = {
    2: (Fraction(0), Fraction(1), Fraction(-1)),
    4: (Fraction(0), Fraction(3, 4), Fraction(-3, 4), Fraction(3, 2), Fraction(-3, 2)),
}


@dataclass(frozen=True, slots=True)
class _Window:
    """One sliding direction: output axis, window axis (extent 3); the data are read at output + window + constant."""

    output: Axis
    window: Axis


def winograd(program: Program, stage: str, rows: str, columns: str, tile: int = 2) -> Program:
    """A 3x3 convolution becomes transforms of data and filter, a batch of matrix products, and a transform back.

    Args:
        stage: a sum of products in which, for each of the two axes, the data are read at axis + window, the filter at
            window alone; both windows have extent 3.
        rows, columns: the two spatial axes that slide.
        tile: outputs of one tile in each direction, 2 or 4.

    Stages made, for outer axes n of the data and o of the filter alone and reduced axes c, all tiles being one axis:
    NAME_columns[y, n, tiles, tile column, c] and NAME_data[y, x, n, tiles, c] (one direction each), NAME_filter[y, x, c, o],
    NAME_products[y, x, n, tiles, o] (the matrix products), and the stage itself, a sum over the y, x of its tile.
    Errors: ProgramError where the stage is no such convolution.
    """
    return _Winograd(program, stage, rows, columns, tile).program()


class _Winograd:
    """Takes one convolution apart and puts it together again."""

    def __init__(self, program: Program, stage: str, rows: str, columns: str, tile: int) -> None:
        self._program = program
        self._stage = find_stage(program, stage)
        if tile not in POINTS:
            raise refuse(self._stage, "unknown tile of winograd", expected="2 or 4", found=str(tile))
        self._tile = tile
        self._points = tile + 2
        self._windows = self._find_windows((rows, columns))
        windows = {window.window.name for window in self._windows}
        outputs = {window.output.name for window in self._windows}
        parts = factors(self._stage.bodies[0])
        self._data = [part for part in parts if variables(part) & outputs]
        self._filter = [part for part in parts if not variables(part) & outputs]
        filter_axes = {name for part in self._filter for name in variables(part)}
        if not self._filter or not windows <= filter_axes:
            raise self._refused("one factor that reads the filter at both windows")
        self._dtype: DType = self._stage.bodies[0].dtype
        self._y, self._x = (Axis(self._fresh(name), self._points) for name in ("y", "x"))
        self._counts = tuple(-(-w.output.extent // tile) for w in self._windows)
        self._tiles = Axis(self._fresh("tiles"), self._counts[0] * self._counts[1])
        self._reduced = tuple(axis for axis in self._stage.reduction if axis.name not in windows)
        self._outer = tuple(axis for axis in self._stage.axes if axis.name not in outputs)

    def program(self) -> Program:
        """The rewritten program."""
        matrices = toom_cook(POINTS[self._tile], self._tile, 3)
        tables = [
            self._table(name, rows)
            for name, rows in (("data", matrices.data), ("filter", matrices.filter), ("result", matrices.result))
        ]
        lines = self._column_stage(tables[0].tensor)
        data = self._data_stage(tables[0].tensor, lines)
        filters = self._filter_stage(tables[1].tensor)
        products = self._product_stage(data, filters)
        made = (lines, data, filters, products, self._last_stage(tables[2].tensor, products))
        extended = replace(self._program, tables=(*self._program.tables, *tables))
        return with_stages(extended, {self._stage.name: made})

    def _refused(self, expected: str) -> Exception:
        return refuse(self._stage, "this stage is no 3x3 convolution of stride 1", expected=expected)

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
            partners: set[str] = set()
            for part in factors(stage.bodies[0]):
                for read in reads(part) if name in variables(part) else ():
                    for index in read.indices:
                        terms = affine(index).coefficients
                        if name in terms:
                            partners |= {other for other in terms if other != name and terms[other] == terms[name] == 1}
            windows = [a for a in stage.reduction if a.name in partners and a.extent == 3]
            if output not in stage.axes or len(windows) != 1:
                raise self._refused(f"{name} as a spatial axis that slides over a window of extent 3 with stride 1")
            found.append(_Window(output, windows[0]))
        self._check_sliding(found)
        return found[0], found[1]

    def _check_sliding(self, windows: list[_Window]) -> None:
        """Replacing output by output + 1 and window by window - 1 must leave every factor of the data as it is."""
        for part in factors(self._stage.bodies[0]):
            for window in windows:
                if window.output.name not in variables(part):
                    continue
                moved = substitute(
                    part, {window.output.name: window.output.var + 1, window.window.name: window.window.var - 1}
                )
                if simplify(moved) != simplify(part):
                    raise self._refused(f"{window.output.name} and {window.window.name} used as their sum alone")

    def _table(self, kind: str, rows: Matrix) -> Table:
        name = free_name(self._program, f"{self._stage.name}_{kind}_transform")
        values = tuple(float(value) if self._dtype.is_float else int(value) for row in rows for value in row)
        if not self._dtype.is_float:
            raise self._refused("floating-point data: the transforms have fractions")
        return Table(Tensor(name, self._dtype, (len(rows), len(rows[0]))), values)

    def _made(self, kind: str, axes: tuple[Axis, ...], body: Expr, reduction: tuple[Axis, ...]) -> Stage:
        tensor = Tensor(free_name(self._program, f"{self._stage.name}_{kind}"), body.dtype, _shape(axes))
        return Stage((tensor,), axes, (body,), reduction, "sum", None, self._stage.origin)

    def _column_stage(self, transform: Tensor) -> Stage:
        """L[y, ..., tiles, b, ...] = sum[a](B[y, a] * data at (tile row * m + a, tile column * m + b))"""
        a, b = (Axis(self._fresh(name), self._points) for name in ("a", "b"))
        across = self._counts[1]
        starts = (self._tiles.var // across, self._tiles.var % across)
        places: dict[str, Expr] = {}
        for window, start, inside in zip(self._windows, starts, (a, b), strict=True):
            places[window.output.name] = start * self._tile + inside.var
            places[window.window.name] = Const(0, i64)
        used = {name for part in self._data for name in variables(part)}
        outer, reduced = ([x for x in axes if x.name in used] for axes in (self._outer, self._reduced))
        axes = (self._y, *outer, self._tiles, b, *reduced)
        bounds = {axis.name: (0, axis.extent - 1) for axis in (*axes, a)}
        data = simplify(substitute(product(self._data), places), bounds)
        data = self._guarded(data, Known(bounds))
        return self._made("columns", axes, product([_at(transform, self._y, a), data]), (a,))

    def _data_stage(self, transform: Tensor, lines: Stage) -> Stage:
        """V[y, x, ..., tiles, ...] = sum[b](B[x, b] * L[y, ..., tiles, b, ...])"""
        place = lines.axes.index(self._tiles) + 1
        b = lines.axes[place]
        axes = (self._y, self._x, *lines.axes[1:place], *lines.axes[place + 1 :])
        read = Read(lines.name, tuple(axis.var for axis in lines.axes), self._dtype)
        return self._made("data", axes, product([_at(transform, self._x, b), read]), (b,))

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

    def _filter_stage(self, transform: Tensor) -> Stage:
        """U[y, x, ...] = sum[r, s](G[y, r] * G[x, s] * filter)"""
        used = {name for part in self._filter for name in variables(part)}
        axes = (self._y, self._x, *(x for x in (*self._reduced, *self._outer) if x.name in used))
        r, s = (window.window for window in self._windows)
        body = product([_at(transform, self._y, r), _at(transform, self._x, s), *self._filter])
        return self._made("filter", axes, body, (r, s))

    def _product_stage(self, data: Stage, filters: Stage) -> Stage:
        """M[y, x, outer, tiles, outer of the filter] = sum[c](V * U), one matrix product for each y, x"""
        shared = [axis for axis in self._outer if axis in data.axes]
        axes = (self._y, self._x, *shared, self._tiles, *(axis for axis in self._outer if axis not in shared))
        parts = [Read(s.name, tuple(a.var for a in s.axes), self._dtype) for s in (data, filters)]
        stage = self._made("products", axes, product(parts), self._reduced)
        return stage if self._reduced else replace(stage, combiner=None)

    def _last_stage(self, transform: Tensor, products: Stage) -> Stage:
        """The result at p, q: sum[y, x](A[p % m, y] * A[q % m, x] * M at the tile of p, q)"""
        rows, columns = (window.output.var for window in self._windows)
        tile = rows // self._tile * self._counts[1] + columns // self._tile
        place = tuple(tile if axis == self._tiles else axis.var for axis in products.axes)
        parts = [
            Read(transform.name, (position % self._tile, point.var), transform.dtype)
            for position, point in ((rows, self._y), (columns, self._x))
        ]
        body = product([*parts, Read(products.name, place, self._dtype)])
        return replace(self._stage, bodies=(body,), reduction=(self._y, self._x))


def _shape(axes: tuple[Axis, ...]) -> tuple[int, ...]:
    return tuple(axis.extent for axis in axes)


def _at(tensor: Tensor, first: Axis, second: Axis) -> Read:
    return Read(tensor.name, (first.var, second.var), tensor.dtype)
