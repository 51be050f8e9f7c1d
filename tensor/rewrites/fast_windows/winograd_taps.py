"""Winograd's minimal filtering for sums over large windows with 3x3 results: F(3x3, 4x4) and F(3x3, 2x2).

    D[c, o, r, s] = sum[n, i, j](d[n, c, r + i, s + j] * g[n, o, i, j])

as the gradient of a 3x3 filter is, whose window is the image. The window is cut into tiles of taps, each of which has all nine
results, and these are summed before they are transformed back:

    D = A^T [ sum[n, tiles] (G g G^T) * (B^T d B) ] A

F(3x3, 4x4) does 4 times fewer multiplications than the definition. It has the points, and so the matrices, of F(4x4, 3x3)
(winograd.py) with data and taps in each other's place.

All nine results of one c and o have a share in the roundings of all tiles. So data that would spoil results which do not see
them are kept apart, by c:

    size[i, j] = max[n](abs(d));  seen[r, s] = the largest size in the window of a result
    spread = the largest size, infinite where some window has less than 1 / UNEVEN of it
    D = select(spread[c] < 2^64 and gauge[o] < 2^64, fast, exact)

with `exact` and `gauge` as in winograd.py: NaN, infinities and huge numbers of either operand are summed by the
definition. The error of each result has a bound, a small multiple of UNEVEN * eps * sum[n, tiles]((the largest abs of d in the
window) * (the largest abs of g in the tile)). docs/accuracy.md has the figures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ...expr import Expr, call
from ...program import Axis, Program, Stage, Tensor
from ...stage_edits import find_stage, product, refuse, result_of, with_stages
from .sliding import SlidingSum, coefficient, point
from .toom_cook import POINTS, toom_cook

RESULTS = 3  # in each direction
NO_SUM = "this stage is no sum over windows of stride 1 with 3x3 results"


def winograd_taps(program: Program, stage: str, rows: str, columns: str, tile: int = 4) -> Program:
    """A sum over large windows with 3x3 results becomes transforms of both operands, a batch of matrix products, and a
    transform back.

    Args:
        stage: a sum of products in which, for each of the two axes, the data are read at axis + window, the filter at window
            alone; both axes have extent 3.
        rows, columns: the two axes of extent 3 that slide.
        tile: taps of one tile in each direction, 2 or 4.

    Stages made, for outer axes c of the data and o of the filter and reduced axes n, all tiles being one axis:
    NAME_columns[y, n, tiles, tile column, c] and NAME_data[y, x, n, tiles, c], NAME_taps[y, n, tiles, tile column, o] and
    NAME_filter[y, x, n, tiles, o] (one direction each), NAME_products[y, x, c, o] (the matrix products), NAME_half[x, p, c, o]
    and NAME_fast[p, q, c, o] (one direction each); NAME_size[c, row, column], NAME_seen[c, p, q], the largest in a window,
    NAME_most, NAME_least and NAME_spread[c], NAME_gauge[o]; NAME_exact[p, q, c, o], whose terms count only where data are
    uneven, and the stage itself, which chooses. Where its axes stand in another order it takes its elements from NAME_checked,
    which has that of the others.
    Errors: ProgramError where the stage is no such sum.
    """
    found = find_stage(program, stage)
    if not found.bodies[0].dtype.is_float:
        raise refuse(found, NO_SUM, expected="floating-point data")
    if tile not in POINTS:
        raise refuse(found, "unknown tile of winograd_taps", expected="2 or 4", found=str(tile))
    return _WinogradTaps(SlidingSum(program, found, (rows, columns), NO_SUM, output=RESULTS), tile).program()


class _WinogradTaps:
    """Takes one sum apart and puts it together again."""

    def __init__(self, parts: SlidingSum, tile: int) -> None:
        if parts.windows[0].stride != 1:
            raise parts.refused("steps of one")
        self._sum, self._tile = parts, tile
        self._dtype = parts.stage.bodies[0].dtype
        self._matrices = toom_cook(POINTS[tile], RESULTS, tile)
        size = RESULTS + tile - 1
        self._y, self._x, self._a, self._b = (Axis(parts.fresh(name), size) for name in ("y", "x", "a", "b"))
        self._counts = tuple(-(-window.window.extent // tile) for window in parts.windows)
        self._tiles = Axis(parts.fresh("tiles"), self._counts[0] * self._counts[1])

    def program(self) -> Program:
        """The rewritten program."""
        parts, matrices = self._sum, self._matrices
        names = {"data": matrices.data, "filter": matrices.filter, "result": matrices.result}
        tables = [parts.table(name, matrix, self._dtype) for name, matrix in names.items()]
        data = self._transformed(("columns", "data"), tables[0].tensor, parts.data, parts.data_at)
        filters = self._transformed(("taps", "filter"), tables[1].tensor, parts.filter, parts.filter_at)
        products = self._product_stage(data[-1], filters[-1])
        half, fast = self._fast_stages(tables[2].tensor, products)
        uneven, gauge = self._uneven_stages(), parts.gauge()
        ends = parts.chosen(fast, result_of(uneven[-1]), gauge)
        made = (*data, *filters, products, *uneven, gauge, half, fast, *ends)
        extended = replace(parts.program, tables=(*parts.program.tables, *tables))
        return with_stages(extended, {parts.stage.name: made})

    def _transformed(
        self, names: tuple[str, str], transform: Tensor, parts: Sequence[Expr], at: Callable[..., Expr]
    ) -> tuple[Stage, Stage]:
        """L[y, n, tiles, b, c] = sum[a](B[y, a] * the data at (a, b) of a tile), V[y, x, n, tiles, c] = sum[b](B[x, b] * L)"""
        outer, reduced = self._sum.used(parts)
        size = transform.shape[1]
        a, b = (replace(axis, extent=size) for axis in (self._a, self._b))
        starts = (self._tiles.var // self._counts[1], self._tiles.var % self._counts[1])
        rows, columns = (start * self._tile + inside.var for start, inside in zip(starts, (a, b), strict=True))
        axes = (self._y, *reduced, self._tiles, b, *outer)
        down = product([coefficient(transform, self._y, a), at(rows, columns, (*axes, a))])
        lines = self._sum.made(names[0], axes, down, (a,))
        across = product([coefficient(transform, self._x, b), result_of(lines)])
        return lines, self._sum.made(names[1], (self._y, self._x, *reduced, self._tiles, *outer), across, (b,))

    def _product_stage(self, data: Stage, filters: Stage) -> Stage:
        """M[y, x, c, o] = sum[n, tiles](V * U), one matrix product for each y, x"""
        axes = (self._y, self._x, *self._sum.outer)
        body = product([result_of(data), result_of(filters)])
        return self._sum.made("products", axes, body, (*self._sum.reduced, self._tiles))

    def _fast_stages(self, transform: Tensor, products: Stage) -> tuple[Stage, Stage]:
        """H[x, r, c, o] = sum[y](A[r, y] * M), D[r, s, c, o] = sum[x](A[s, x] * H)"""
        rows, columns = (window.output for window in self._sum.windows)
        body = product([coefficient(transform, rows, self._y), result_of(products)])
        half = self._sum.made("half", (self._x, rows, *self._sum.outer), body, (self._y,))
        body = product([coefficient(transform, columns, self._x), result_of(half)])
        return half, self._sum.made("fast", (rows, columns, *self._sum.outer), body, (self._x,))

    def _uneven_stages(self) -> tuple[Stage, ...]:
        """P[c, i, j] = max[n](abs(data)) of all that tiles read;  W[c, r, s] = max[p, q](P[c, r + p, s + q]), the largest of a
        window;  T[c] = max[i, j](P);  L[c] = min[r, s](W);  S[c] = select(T <= UNEVEN * L, T, inf)"""
        parts = self._sum
        outer, reduced = parts.used(parts.data)
        i, j = (
            Axis(parts.fresh(name), count * self._tile + RESULTS - 1)
            for name, count in zip(("i", "j"), self._counts, strict=True)
        )
        r, s = (window.output for window in parts.windows)
        p, q = (Axis(parts.fresh(name), axis.extent) for name, axis in zip(("p", "q"), parts.window_axes, strict=True))
        value = call("abs", parts.data_at(i.var, j.var, (*outer, i, j, *reduced)))
        size = parts.made("size", (*outer, i, j), value, reduced, "max")
        value = point(size, outer, r.var + p.var, s.var + q.var)
        seen = parts.made("seen", (*outer, r, s), value, (p, q), "max")
        most = parts.made("most", outer, result_of(size), (i, j), "max")
        least = parts.made("least", outer, result_of(seen), (r, s), "min")
        return size, seen, most, least, parts.spread(outer, result_of(most), result_of(least))
