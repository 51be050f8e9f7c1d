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

from ...dtype import DType, f32
from ...expr import Const, Expr, Read, Var, call, rewrite
from ...program import Axis, Program, Stage
from ...stage_edits import factors, find_stage
from .products import TILE, WORDS, ElementAt, TileProducts, number_at

PARTS = 3
PAIRS = ((2, 0), (1, 0), (1, 1), (0, 1), (0, 0), (0, 2))  # neighbours share a part: one alone is taken twice
SCALE = 2.0**24  # of either operand: what makes subnormal numbers, and their parts, normal


def bf16_products(
    program: Program, stage: str, rows: str, columns: str, depth: str, flat: Sequence[str] = (),
    numbers: bool = False,
) -> Program:  # fmt: skip
    """A sum of products of two float32 reads X and Y becomes one over words of two bfloat16.

    Args:
        stage: a sum whose body is the product of two reads of f32.
        rows: a spatial axis on which X alone depends, in one affine index with a positive factor (windows may slide: other
            axes may be added to it).
        columns: a spatial axis on which Y alone depends; it is one index of Y.
        depth: a reduction axis that is one index of X and one of Y.
        flat: "rows", "columns", or both: operands whose rows or columns stay one dimension, so that parts of it are boxes.
        numbers: words of columns are made of a stage NAME_numbers[columns / 16, y.., depth, 16], which has the elements of Y
            and zeros beyond its ends. Of a constant, these are four bytes to keep for the six of words.

    Stages made, for the other dimensions x of X and y of Y at their extents, and blocks of 32 of the depth:
    NAME_rows[rows / 16, x.., block, part, 16, word] and NAME_columns[columns / 16, y.., block, part, word, 16] (words of i32;
    word l holds the elements l and 16 + l of its block), NAME_products[other axes, rows, columns] (both rounded up to multiples
    of 16; what is beyond the depth and the tensors is zero), NAME_exact[other axes, rows, columns], whose terms count only
    where the products are not finite, and the stage itself, which chooses. Where its axes stand in another order it takes its
    elements from NAME_checked, which has that of the products. Flat operands and rows that slide: NAME_rows[x.., block, part,
    row dimension, word], enlarged as far as the rounded rows reach, and NAME_columns[y.., block, part, word, columns].
    Errors: ProgramError where the stage is no such product.
    """
    return _Products(program, find_stage(program, stage), rows, columns, depth, flat).program(numbers)


class _Products(TileProducts):
    """Takes one product apart and puts it together again."""

    parts = PARTS
    step = 2 * WORDS
    wanted = "bfloat16 parts can make"

    def program(self, numbers: bool) -> Program:
        """The rewritten program."""
        term, made = self._stage.bodies[0], self._number_stage() if numbers else None
        packed = self._row_stage(), *self._column_stages(made)
        products = self._product_stage(packed[0], packed[-1])
        if made is None:
            return self._with_stand_ins(packed, products, term, 1 / SCALE**2)
        return self._with_stand_ins((made, *packed), products, self._of_numbers(term, made), 1 / SCALE**2)

    def _number_stage(self) -> Stage:
        """N[columns / 16, others of Y.., depth, columns % 16], as long as whole tiles of words are."""
        others, *_ = self._dimensions(self._y)
        tile = Axis("cblock", self._padded[self._columns.name].extent // TILE)
        deep, column = Axis("k", self._blocks * self.step), Axis("c16", TILE)
        axes, wide = (tile, *others, deep, column), tile.var * TILE + column.var
        value: Expr
        value, inside = self._element(self._y, axes, others, wide, self._columns.extent, deep.var)
        return self._made("numbers", f32, axes, _where(inside, value))

    def _of_numbers(self, term: Expr, numbers: Stage) -> Expr:
        """The term of the sum, which reads numbers in place of Y."""
        others = [self._y.read.indices[d] for d in self._y.others]
        there = number_at(numbers, others, self._depth.var, self._columns.var)
        return rewrite(term, lambda node: there if node == self._y.read else None)

    def _two_reads(self) -> tuple[Read, Read]:
        stage = self._stage
        if stage.combiner == "sum":
            match factors(stage.bodies[0]):
                case [Read(dtype=first) as left, Read(dtype=second) as right] if first == second == f32:
                    return left, right
        raise self._refused("a sum of products of two reads of f32")

    def _word(self, element: ElementAt, block: Expr, word: Expr) -> Expr:
        first = block * self.step + word

        def part(deep: Expr) -> Expr:
            value, inside = element(deep)
            return _part(_where(inside, value) * SCALE, Var("part"))

        return call("bf16_word", part(first), part(first + WORDS))

    def _terms(self, row: Sequence[Read], column: Sequence[Read]) -> Expr:
        total: Expr | None = None
        for p, q in PAIRS:
            left, right = row[p], column[q]
            both = call("bf16_low", left) * call("bf16_low", right) + call("bf16_high", left) * call("bf16_high", right)
            total = both if total is None else total + both
        assert total is not None
        return total

    def _sum_dtype(self) -> DType:
        return f32


def _where(conditions: Sequence[Expr], value: Expr) -> Expr:
    """A value where it counts, else zero."""
    for condition in conditions:
        value = call("select", condition, value, Const(0.0, f32))
    return value


def _part(value: Expr, part: Var) -> Expr:
    """Part 0, 1 or 2 of a value, each a bfloat16. (The last is one as it stands; saying so spares its word a rounding.)"""
    first, rest = _rounded(value)
    second, third = _rounded(rest)
    return call("select", part.equal(0), first, call("select", part.equal(1), second, call("bf16_near", third)))


def _rounded(value: Expr) -> tuple[Expr, Expr]:
    """The bfloat16 next to a value, and what it lacks."""
    near = call("bf16_near", value)
    return near, value - near
