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
from ...expr import Const, Expr, Read, Var, call
from ...program import Program
from ...stage_edits import factors, find_stage
from .products import WORDS, ElementAt, TileProducts

PARTS = 3
PAIRS = ((2, 0), (1, 0), (1, 1), (0, 1), (0, 0), (0, 2))  # neighbours share a part: one alone is taken twice
SCALE = 2.0**24  # of either operand: what makes subnormal numbers, and their parts, normal


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


class _Products(TileProducts):
    """Takes one product apart and puts it together again."""

    parts = PARTS
    step = 2 * WORDS
    wanted = "bfloat16 parts can make"

    def program(self) -> Program:
        """The rewritten program."""
        rows, (columns,) = self._row_stage(), self._column_stages()
        products = self._product_stage(rows, columns)
        return self._with_stand_ins((rows, columns), products, self._stage.bodies[0], 1 / SCALE**2)

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
            read, inside = element(deep)
            value: Expr = read
            for condition in inside:
                value = call("select", condition, value, Const(0.0, f32))
            return _part(value * SCALE, Var("part"))

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


def _part(value: Expr, part: Var) -> Expr:
    """Part 0, 1 or 2 of a value, before it is rounded to bfloat16."""
    first = value - _rounded(value)
    second = first - _rounded(first)
    return call("select", part.equal(0), value, call("select", part.equal(1), first, second))


def _rounded(value: Expr) -> Expr:
    """The bfloat16 next to a value. (For the oracle, which computes in float64, a cast to bf16 rounds nothing.)"""
    return call("bf16_low", call("bf16_word", value, Const(0.0, f32)))
