"""Sums of products whose operands lie in words, as units multiply them in tiles: what several rewrites share.

    C[i, j] = sum[k](X[i, k] * Y[k, j])
    ->  C_rows[i', b, p, i'', l], C_columns[j', b, p, l, j'']      words of X and Y; p: parts of each element, if there are some
        C_products[i, j] = sum[b, l](sums of products of what two words hold)

A block b of the depth is a row of a tile, WORDS words. Rows and columns are rounded up to whole tiles; what is beyond the depth
and the tensors is zero. A rewrite says what words hold, what is summed, and what becomes of the results.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ....common.errors import ProgramError
from ....targets.matrix_instructions import BF16_TILES
from ...dtype import DType, f32, i32, i64
from ...expr import Const, Expr, Read, Var, call, variables
from ...indices.affine import simplify
from ...indices.forms import affine
from ...indices.intervals import Known
from ...program import Axis, Program, Stage, Tensor
from ...stage_edits import find_axis, free_axis_name, free_name, refuse, result_of, shape_of, with_stages

WORDS = BF16_TILES.words  # words of a row of a matrix register
LARGEST = 2.0**127  # products below are right: nothing in them has become infinite or NaN
TILE = BF16_TILES.m  # rows of a matrix register, and columns: these rewrites are of units whose tiles are square
# An index along the depth -> what is read there, under which conditions.
ElementAt = Callable[[Expr], tuple[Read, list[Expr]]]


@dataclass(frozen=True, slots=True)
class TileOperand:
    """A read: the dimension of the depth, and that of the rows or the columns."""

    read: Read
    deep: int
    wide: int

    @property
    def others(self) -> list[int]:
        """The other dimensions, in order."""
        return [d for d in range(len(self.read.indices)) if d not in (self.deep, self.wide)]


class TileProducts(ABC):
    """Takes one product apart. A rewrite of its own is a class below it."""

    parts = 1  # of each element
    step = WORDS  # elements of the depth in a row of words
    wanted = "such a product"

    def __init__(
        self, program: Program, stage: Stage, rows: str, columns: str, depth: str, flat: Sequence[str] = (),
        turned: bool = False,
    ) -> None:  # fmt: skip
        self._program = program
        self._stage = stage
        self._flat = flat
        self._turned = turned
        self._rows, self._columns, self._depth = (find_axis(stage, name) for name in (rows, columns, depth))
        if self._rows not in stage.axes or self._columns not in stage.axes or rows == columns:
            raise self._refused(f"{rows} and {columns} as two spatial axes")
        if self._depth not in stage.reduction:
            raise self._refused(f"{depth} as a reduction axis")
        left, right = self._two_reads()
        if rows in variables(right):
            left, right = right, left
        if {rows, columns} & variables(left) != {rows} or {rows, columns} & variables(right) != {columns}:
            raise self._refused(f"{rows} in the indices of one read alone, {columns} in those of the other alone")
        self._x = TileOperand(left, self._plain(left, self._depth), self._row_dimension(left))
        self._y = TileOperand(right, self._plain(right, self._depth), self._plain(right, self._columns))
        self._blocks = -(-self._depth.extent // self.step)
        self._padded = {a.name: replace(a, extent=-(-a.extent // TILE) * TILE) for a in (self._rows, self._columns)}

    # What a rewrite says

    @abstractmethod
    def _two_reads(self) -> tuple[Read, Read]:
        """Returns what is multiplied. Errors: ProgramError where the stage is no such product."""

    @abstractmethod
    def _word(self, element: ElementAt, block: Expr, word: Expr) -> Expr:
        """Returns what a word of a block holds."""

    @abstractmethod
    def _terms(self, row: Sequence[Read], column: Sequence[Read]) -> Expr:
        """The sum of products of two words, of which all parts are given."""

    @abstractmethod
    def _sum_dtype(self) -> DType:
        """Returns the type in which products are summed."""

    # What is expected

    def _refused(self, expected: str) -> ProgramError:
        return refuse(self._stage, f"this stage is no product that {self.wanted}", expected=expected)

    def _plain(self, read: Read, axis: Axis) -> int:
        """The one dimension of a read whose index is the axis."""
        found = [d for d, index in enumerate(read.indices) if axis.name in variables(index)]
        if len(found) != 1 or affine(read.indices[found[0]]) != affine(axis.var):
            raise self._refused(f"{axis.name} as one index of {read.tensor}, and in no other")
        return found[0]

    def _row_dimension(self, read: Read) -> int:
        """The one dimension of a read in whose index the rows are."""
        name = self._rows.name
        found = [d for d, index in enumerate(read.indices) if name in variables(index)]
        form = affine(read.indices[found[0]])
        if len(found) != 1 or not form.is_linear or form.coefficients[name] < 1:
            raise self._refused(f"{name} in one index of {read.tensor}, which rises with it by a fixed step")
        return found[0]

    # The words

    def _row_stage(self) -> Stage:
        """R[rows / 16, others of X.., block, part, rows % 16, word], or, of rows that slide,
        R[others of X.., block, part, row dimension, word]"""
        x = self._x
        size = self._shape(x.read)[x.wide]
        others, block, part, word = self._dimensions(x)
        if self._plain_rows:
            tile, row = Axis("rblock", self._padded[self._rows.name].extent // TILE), Axis("r16", TILE)
            return self._words(
                "rows", x, (tile, *others, block, part, row, word), others, tile.var * TILE + row.var, size
            )
        bounds = {axis.name: (0, axis.extent - 1) for axis in (*self._stage.all_axes, *self._padded.values())}
        reached = Known(bounds).interval(x.read.indices[x.wide])[1] + 1
        row = Axis("row", max(size, reached))
        return self._words("rows", x, (*others, block, part, row, word), others, row.var, size)

    @property
    def _plain_rows(self) -> bool:
        """Says whether tiles of rows are a dimension: each then has its words side by side. Rows that slide begin anywhere."""
        return "rows" not in self._flat and affine(self._x.read.indices[self._x.wide]) == affine(self._rows.var)

    def _column_stages(self, numbers: Stage | None = None) -> tuple[Stage, ...]:
        """W[columns / 16, others of Y.., block, part, word, columns % 16], or W[others of Y.., block, part, word, columns]

        Turned: before it L[columns / 16, others of Y.., block, part, columns % 16, word], of which W is a copy. Along the
        depth words of L lie as their elements do. Of numbers, if there are some: N[columns / 16, others of Y.., depth,
        columns % 16] has the elements of Y, and zeros up to whole tiles.
        """
        y, count = self._y, self._columns.extent
        padded = self._padded[self._columns.name].extent
        others, block, part, word = self._dimensions(y)
        if "columns" in self._flat:
            column = Axis("column", padded)
            axes = (*others, block, part, word, column)
            if numbers is not None:
                return (self._made("columns", i32, axes, self._word_of_numbers(numbers, others, column.var)),)
            return (self._words("columns", y, axes, others, column.var, count),)
        tile, column = Axis("cblock", padded // TILE), Axis("c16", TILE)
        wide = tile.var * TILE + column.var
        if not self._turned:
            axes = (tile, *others, block, part, word, column)
            return (self._words("columns", y, axes, others, wide, count),)
        lines = self._words("lines", y, (tile, *others, block, part, column, word), others, wide, count)
        axes = (*lines.axes[:-2], word, column)
        name = free_name(self._program, f"{self._stage.name}_columns")
        made = Stage((Tensor(name, i32, shape_of(axes)),), axes, (result_of(lines),), origin=self._stage.origin)
        return lines, made

    def _shape(self, read: Read) -> tuple[int, ...]:
        return self._program.tensors[read.tensor].shape

    def _dimensions(self, operand: TileOperand) -> tuple[tuple[Axis, ...], Axis, Axis, Axis]:
        shape = self._shape(operand.read)
        others = tuple(Axis(f"d{d}", shape[d]) for d in operand.others)
        return others, Axis("kblock", self._blocks), Axis("part", self.parts), Axis("k16", WORDS)

    def _counts(self, kind: str, wide: Expr, deep: Expr) -> list[Expr]:
        """Returns further conditions under which an element of the rows or the columns counts."""
        return []

    def _words(
        self, kind: str, operand: TileOperand, axes: tuple[Axis, ...], others: tuple[Axis, ...], wide: Expr, count: int
    ) -> Stage:
        """The stage of words of an operand; elements at `wide` from `count` on do not count, nor those below the depth."""

        def element(deep: Expr) -> tuple[Read, list[Expr]]:
            read, inside = self._element(operand, axes, others, wide, count, deep)
            return read, [*inside, *self._counts(kind, wide, deep)]

        return self._made(kind, i32, axes, self._word(element, Var("kblock"), Var("k16")))

    def _word_of_numbers(self, numbers: Stage, others: tuple[Axis, ...], wide: Expr) -> Expr:
        """The word of a place in words of columns, made of numbers."""
        outer = [axis.var for axis in others]
        return self._word(lambda deep: (number_at(numbers, outer, deep, wide), []), Var("kblock"), Var("k16"))

    def _element(
        self, operand: TileOperand, axes: tuple[Axis, ...], others: tuple[Axis, ...], wide: Expr, count: int, deep: Expr
    ) -> tuple[Read, list[Expr]]:
        """The read of one element of an operand, and where it counts: not beyond the ends."""
        known = Known({axis.name: (0, axis.extent - 1) for axis in axes})
        places: dict[int, Expr] = {operand.deep: deep, operand.wide: wide}
        places |= zip(operand.others, (axis.var for axis in others), strict=True)
        read = replace(operand.read, indices=tuple(simplify(places[d], known.bounds) for d in sorted(places)))
        ends = (wide, count), (deep, self._depth.extent)
        return read, [simplify(i) < size for i, size in ends if known.interval(i)[1] >= size]

    def _made(self, kind: str, dtype: DType, axes: tuple[Axis, ...], body: Expr) -> Stage:
        name = free_name(self._program, f"{self._stage.name}_{kind}")
        return Stage((Tensor(name, dtype, shape_of(axes)),), axes, (body,), origin=self._stage.origin)

    # The products

    def _product_stage(self, rows: Stage, columns: Stage) -> Stage:
        """M[others.., rows, columns] = sum[other reductions, block, word](products of what the words hold)"""
        stage = self._stage
        block, word = Axis(free_axis_name(stage, "kblock"), self._blocks), Axis(free_axis_name(stage, "k16"), WORDS)
        last = (self._padded[self._rows.name], self._padded[self._columns.name])
        axes = (*(axis for axis in stage.axes if axis.name not in self._padded), *last)
        reduction = (*(axis for axis in stage.reduction if axis != self._depth), block, word)
        y, column = self._y, self._columns.var

        def column_word(part: int) -> Read:
            outer = [y.read.indices[d] for d in y.others]
            if "columns" in self._flat:
                return read_at(columns, *outer, block.var, Const(part, i64), word.var, column)
            return read_at(columns, column // TILE, *outer, block.var, Const(part, i64), word.var, column % TILE)

        parts = range(self.parts)
        row_words = [self._row_word(rows, block.var, part, word.var) for part in parts]
        total = self._terms(row_words, [column_word(part) for part in parts])
        name, dtype = free_name(self._program, f"{stage.name}_products"), self._sum_dtype()
        return Stage((Tensor(name, dtype, shape_of(axes)),), axes, (total,), reduction, "sum", None, stage.origin)

    def _row_word(self, rows: Stage, block: Expr, part: int, word: Expr) -> Read:
        """The word of the row of a point, at a place of the depth."""
        x = self._x
        outer, wide = [x.read.indices[d] for d in x.others], x.read.indices[x.wide]
        if self._plain_rows:
            return read_at(rows, wide // TILE, *outer, block, Const(part, i64), wide % TILE, word)
        return read_at(rows, *outer, block, Const(part, i64), wide, word)

    def _with_stand_ins(self, packed: Sequence[Stage], products: Stage, term: Expr, scale: float = 1.0) -> Program:
        """The rewritten program, where sums of terms stand in for products that are not finite, and others are scaled."""
        exact, checked = self._checked(products, term, scale)
        made: tuple[Stage, ...] = (*packed, products, exact, checked)
        if checked.axes != self._stage.axes:
            made = (*made, replace(self._stage, bodies=(result_of(checked),), reduction=(), combiner=None))
        return with_stages(self._program, {self._stage.name: made})

    def _checked(self, products: Stage, term: Expr, scale: float) -> tuple[Stage, Stage]:
        """E[others.., rows, columns] = the sum of terms where products are not finite; T[same axes] = the results"""
        stage = self._stage
        extents = {axis.name: axis for axis in stage.axes}
        axes = tuple(extents[axis.name] for axis in products.axes)
        found = Read(products.name, tuple(axis.var for axis in axes), f32)
        fine = call("abs", found) < LARGEST
        counted = call("select", ~fine, term, Const(0.0, f32))
        tensor = Tensor(free_name(self._program, f"{stage.name}_exact"), f32, shape_of(axes))
        exact = Stage((tensor,), axes, (counted,), stage.reduction, "sum", None, stage.origin)
        value = call("select", fine, found if scale == 1.0 else found * scale, result_of(exact))
        name = stage.name if axes == stage.axes else free_name(self._program, f"{stage.name}_checked")
        return exact, Stage((Tensor(name, f32, shape_of(axes)),), axes, (value,), origin=stage.origin)


def number_at(numbers: Stage, others: Sequence[Expr], deep: Expr, wide: Expr) -> Read:
    """The read of an element of the columns where it lies in numbers: [columns / 16, others.., depth, columns % 16]."""
    return read_at(numbers, wide // TILE, *others, deep, wide % TILE)


def read_at(stage: Stage, *indices: Expr) -> Read:
    """The read of a stage's tensor at a place."""
    return Read(stage.name, indices, stage.tensors[0].dtype)
