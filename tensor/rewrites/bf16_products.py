"""bf16_products: a float32 matrix product as six products of bfloat16 parts, for units that multiply these.

    C[i, j] = sum[k](A[i, k] * B[k, j])
    ->  A_rows[i', b, p, i'', l] = the parts p of A[16 i' + i'', 32 b + l] and of A[.., 32 b + 16 + l], two halves of a word
        B_columns[j', b, p, l, j''] = the same of B[.., 16 j' + j'']
        C_products[i, j] = sum[b, l](sum over six (p, q) of the products of both halves)

The parts of x are x0 = bf16(x), x1 = bf16(x - x0), x2 = x - x0 - x1, each bfloat16: with 8 bits each they hold the 24 of a
float32 exactly. Of the nine products x_p * y_q the three with p + q > 2 are left out, each at most 2^-25 |x y|: together no
more than about one rounding of the product to float32. Source: Henry, Tang and Heinecke, "Leveraging the bfloat16 artificial
intelligence datatype for higher-precision computations", 2019. The unit sums 16 products by themselves before it adds them to
the rest, so that rounding errors grow more slowly than in a plain sum.

The unit takes subnormal numbers as zero, so the parts are those of X * 2^24 and Y * 2^24: of any float32 then, even the least
subnormal one, each part is a normal number. A product that is lost all the same is less than 2^-126 before, and 2^-174 after
the scales are taken back, which is nothing beside the least subnormal number, 2^-149.

    C[i, j] = select(abs(C_products[i, j]) < 2^127, C_products[i, j] * 2^-48, C_exact[i, j])

Infinities and NaN among the elements, elements from about 2^104 on and sums from 2^79 on give products that are not below
2^127: these results are computed as they stood, C_exact (tensor/exceptional.py). So nothing differs from float32 but roundings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...common.errors import ProgramError
from ...targets.matrix_instructions import BF16_TILES
from ..dtype import f32, i32, i64
from ..expr import Const, Expr, Read, Var, call, variables
from ..indices.affine import simplify
from ..indices.forms import affine
from ..indices.intervals import Known
from ..program import Axis, Program, Stage, Tensor
from ..stage_edits import factors, find_axis, find_stage, free_axis_name, free_name, refuse, with_stages

PARTS = 3
PAIRS = ((2, 0), (1, 0), (1, 1), (0, 1), (0, 0), (0, 2))  # neighbours share a part: one alone is taken twice
WORDS = BF16_TILES.words  # words of a row of a matrix register: two elements of the depth each
TILE = BF16_TILES.m  # rows of a matrix register, and columns: bf16_products is of units whose tiles are square
SCALE = 2.0**24  # of either operand: what makes subnormal numbers, and their parts, normal
LARGEST = 2.0**127  # products below are right: nothing in them has become infinite or NaN


def bf16_products(
    program: Program, stage: str, rows: str, columns: str, depth: str, flat: Sequence[str] = ()
) -> Program:
    """A sum of products of two float32 reads X and Y becomes one over words of two bfloat16.

    Args:
        stage: a sum whose body is the product of two reads of f32.
        rows: a spatial axis on which X alone depends, in one affine index with a positive factor (windows may slide: other
            axes may be added to it).
        columns: a spatial axis on which Y alone depends; it is one index of Y.
        depth: a reduction axis that is one index of X and one of Y.
        flat: "rows", "columns", or both: operands whose rows or columns stay one dimension, so that parts of it are boxes.

    Stages made, for the other dimensions x of X and y of Y at their extents, and blocks of 32 of the depth:
    NAME_rows[rows / 16, x.., block, part, 16, word] and NAME_columns[columns / 16, y.., block, part, word, 16] (words of i32;
    word l holds the elements l and 16 + l of its block), NAME_products[other axes, rows, columns] (both rounded up to multiples
    of 16; what is beyond the depth and the tensors is zero), NAME_exact[other axes, rows, columns], whose terms count only
    where the products are not finite, and the stage itself, which chooses. Where its axes stand in another order it takes its
    elements from NAME_checked, which has that of the products. Flat operands and rows that slide: NAME_rows[x.., block, part,
    row dimension, word], enlarged as far as the rounded rows reach, and NAME_columns[y.., block, part, word, columns].
    Errors: ProgramError where the stage is no such product.
    """
    return _Products(program, find_stage(program, stage), rows, columns, depth, flat).program()


def can_bf16_products(program: Program, stage: str, rows: str, columns: str, depth: str) -> bool:
    """True where `bf16_products` applies."""
    try:
        bf16_products(program, stage, rows, columns, depth)
    except ProgramError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class _Operand:
    """A read: the dimension of the depth, and that of the rows or the columns."""

    read: Read
    deep: int
    wide: int

    @property
    def others(self) -> list[int]:
        """The other dimensions, in order."""
        return [d for d in range(len(self.read.indices)) if d not in (self.deep, self.wide)]


class _Products:
    """Takes one product apart and puts it together again."""

    def __init__(
        self, program: Program, stage: Stage, rows: str, columns: str, depth: str, flat: Sequence[str]
    ) -> None:
        self._program = program
        self._stage = stage
        self._flat = flat
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
        self._x = _Operand(left, self._plain(left, self._depth), self._row_dimension(left))
        self._y = _Operand(right, self._plain(right, self._depth), self._plain(right, self._columns))
        self._blocks = -(-self._depth.extent // (2 * WORDS))
        self._padded = {a.name: replace(a, extent=-(-a.extent // TILE) * TILE) for a in (self._rows, self._columns)}

    def program(self) -> Program:
        """The rewritten program."""
        rows, columns = self._row_stage(), self._column_stage()
        products = self._product_stage(rows, columns)
        exact, checked = self._checked(products)
        made: tuple[Stage, ...] = (rows, columns, products, exact, checked)
        if checked.axes != self._stage.axes:
            made = (*made, replace(self._stage, bodies=(_read(checked),), reduction=(), combiner=None))
        return with_stages(self._program, {self._stage.name: made})

    # What is expected

    def _refused(self, expected: str) -> ProgramError:
        return refuse(self._stage, "this stage is no product that bfloat16 parts can make", expected=expected)

    def _two_reads(self) -> tuple[Read, Read]:
        stage = self._stage
        if stage.combiner == "sum":
            match factors(stage.bodies[0]):
                case [Read(dtype=first) as left, Read(dtype=second) as right] if first == second == f32:
                    return left, right
        raise self._refused("a sum of products of two reads of f32")

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

    # The parts

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

    def _column_stage(self) -> Stage:
        """W[columns / 16, others of Y.., block, part, word, columns % 16], or W[others of Y.., block, part, word, columns]"""
        y, count = self._y, self._columns.extent
        padded = self._padded[self._columns.name].extent
        others, block, part, word = self._dimensions(y)
        if "columns" in self._flat:
            column = Axis("column", padded)
            return self._words("columns", y, (*others, block, part, word, column), others, column.var, count)
        tile, column = Axis("cblock", padded // TILE), Axis("c16", TILE)
        wide = tile.var * TILE + column.var
        return self._words("columns", y, (tile, *others, block, part, word, column), others, wide, count)

    def _shape(self, read: Read) -> tuple[int, ...]:
        return self._program.tensors[read.tensor].shape

    def _dimensions(self, operand: _Operand) -> tuple[tuple[Axis, ...], Axis, Axis, Axis]:
        shape = self._shape(operand.read)
        others = tuple(Axis(f"d{d}", shape[d]) for d in operand.others)
        return others, Axis("kblock", self._blocks), Axis("part", PARTS), Axis("k16", WORDS)

    def _words(
        self, kind: str, operand: _Operand, axes: tuple[Axis, ...], others: tuple[Axis, ...], wide: Expr, count: int
    ) -> Stage:
        """The stage of words of an operand; elements at `wide` from `count` on are zero, as those below the depth are."""
        known = Known({axis.name: (0, axis.extent - 1) for axis in axes})

        def element(deep: Expr) -> Expr:
            places: dict[int, Expr] = {operand.deep: deep, operand.wide: wide}
            places |= zip(operand.others, (axis.var for axis in others), strict=True)
            read = replace(operand.read, indices=tuple(simplify(places[d], known.bounds) for d in sorted(places)))
            value: Expr = read
            for index, size in ((wide, count), (deep, self._depth.extent)):
                if known.interval(index)[1] >= size:
                    value = call("select", simplify(index) < size, value, Const(0.0, f32))
            return _part(value * SCALE, Var("part"))

        first = Var("kblock") * (2 * WORDS) + Var("k16")
        body = call("bf16_pair", element(first), element(first + WORDS))
        name = free_name(self._program, f"{self._stage.name}_{kind}")
        return Stage((Tensor(name, i32, _shape(axes)),), axes, (body,), origin=self._stage.origin)

    # The products

    def _product_stage(self, rows: Stage, columns: Stage) -> Stage:
        """M[others.., rows, columns] = sum[other reductions, block, word](products of the halves)"""
        stage = self._stage
        block, word = Axis(free_axis_name(stage, "kblock"), self._blocks), Axis(free_axis_name(stage, "k16"), WORDS)
        last = (self._padded[self._rows.name], self._padded[self._columns.name])
        axes = (*(axis for axis in stage.axes if axis.name not in self._padded), *last)
        reduction = (*(axis for axis in stage.reduction if axis != self._depth), block, word)
        x, y, column = self._x, self._y, self._columns.var

        def row_word(part: int) -> Read:
            outer, wide = [x.read.indices[d] for d in x.others], x.read.indices[x.wide]
            if self._plain_rows:
                return _at(rows, wide // TILE, *outer, block.var, Const(part, i64), wide % TILE, word.var)
            return _at(rows, *outer, block.var, Const(part, i64), wide, word.var)

        def column_word(part: int) -> Read:
            outer = [y.read.indices[d] for d in y.others]
            if "columns" in self._flat:
                return _at(columns, *outer, block.var, Const(part, i64), word.var, column)
            return _at(columns, column // TILE, *outer, block.var, Const(part, i64), word.var, column % TILE)

        total: Expr | None = None
        for p, q in PAIRS:
            left, right = row_word(p), column_word(q)
            both = call("bf16_low", left) * call("bf16_low", right) + call("bf16_high", left) * call("bf16_high", right)
            total = both if total is None else total + both
        assert total is not None
        tensor = Tensor(free_name(self._program, f"{stage.name}_products"), f32, _shape(axes))
        return Stage((tensor,), axes, (total,), reduction, "sum", None, stage.origin)

    def _checked(self, products: Stage) -> tuple[Stage, Stage]:
        """E[others.., rows, columns] = the terms of results whose products are not finite; T[same axes] = the results"""
        stage = self._stage
        extents = {axis.name: axis for axis in stage.axes}
        axes = tuple(extents[axis.name] for axis in products.axes)
        found = Read(products.name, tuple(axis.var for axis in axes), f32)
        fine = call("abs", found) < LARGEST
        term = call("select", ~fine, stage.bodies[0], Const(0.0, f32))
        tensor = Tensor(free_name(self._program, f"{stage.name}_exact"), f32, _shape(axes))
        exact = Stage((tensor,), axes, (term,), stage.reduction, "sum", None, stage.origin)
        value = call("select", fine, found * (1 / SCALE**2), _read(exact))
        name = stage.name if axes == stage.axes else free_name(self._program, f"{stage.name}_checked")
        return exact, Stage((Tensor(name, f32, _shape(axes)),), axes, (value,), origin=stage.origin)


def _part(value: Expr, part: Var) -> Expr:
    """Part 0, 1 or 2 of a value, before it is rounded to bfloat16."""
    first = value - _rounded(value)
    second = first - _rounded(first)
    return call("select", part.equal(0), value, call("select", part.equal(1), first, second))


def _rounded(value: Expr) -> Expr:
    """The bfloat16 next to a value. (For the oracle, which computes in float64, a cast to bf16 rounds nothing.)"""
    return call("bf16_low", call("bf16_pair", value, Const(0.0, f32)))


def _read(stage: Stage) -> Read:
    return _at(stage, *(axis.var for axis in stage.axes))


def _at(stage: Stage, *indices: Expr) -> Read:
    return Read(stage.name, indices, stage.tensors[0].dtype)


def _shape(axes: tuple[Axis, ...]) -> tuple[int, ...]:
    return tuple(axis.extent for axis in axes)
