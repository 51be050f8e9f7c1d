"""tile_dots: a sum of products of narrow elements becomes one over words that lie as a unit multiplies them in tiles.

    C[i, j] = sum[k](i32(A[i, k]) * i32(B[k, j]))                 A and B of bytes, each with a sign or without
    ->  C_rows[i', b, 0, i'', l]     = four elements of the depth of A from 64 b + 4 l on, in row 16 i' + i''
        C_columns[j', b, 0, l, j'']  = the same of B, in column 16 j' + j''
        C_products[i, j] = sum[b, l](quad_dot(C_rows[..], C_columns[..]))
        C[i, j] = C_products[i, j]

The same of bfloat16, two elements in a word, summed in f32: there numbers below the least normal one count as zero. Sums of
bytes are those of i32, modulo 2^32, whatever their order.

Terms of bfloat16 may count under a condition on the row and the place in the depth, as those of a causal attention do:

    C[i, j] = sum[k](select(k <= i, f32(A[i, k]) * f32(B[k, j]), 0))

Then words of A hold zero where it fails. Zero times an infinity or NaN of B would be NaN, so results that are not finite are
computed as they stood, from the words of A (tensor/exceptional.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from ...dots import DOTS, Dot
from ...dtype import DType, bf16, f32, i32
from ...expr import Cast, Const, Expr, Read, call, const, reads, substitute, variables
from ...program import Program, Stage
from ...stage_edits import factors, find_stage, result_of, with_stages
from ..dot_words import guarded
from .products import WORDS, ElementAt, TileProducts


def tile_dots(
    program: Program, stage: str, rows: str, columns: str, depth: str, flat: Sequence[str] = (), turned: bool = False
) -> Program:
    """A sum of products of two reads of bytes, cast to i32, becomes one over words.

    Args:
        stage: a sum whose body is the product of two casts of reads.
        rows: a spatial axis on which one read alone depends, in one affine index with a positive factor.
        columns: a spatial axis on which the other read alone depends; it is one index of it.
        depth: a reduction axis that is one index of each.
        flat: as of bf16_products.
        turned: words of columns are made as they lie along the depth, and turned after that.

    Stages made: as by bf16_products, with one part; before STAGE_columns, if these are turned, STAGE_lines.
    Errors: ProgramError where the stage is no such product of bytes.
    """
    return _Dots(program, find_stage(program, stage), rows, columns, depth, flat, turned).program(i32)


def bf16_tile_dots(
    program: Program, stage: str, rows: str, columns: str, depth: str, flat: Sequence[str] = (), turned: bool = False
) -> Program:
    """The same of two reads of bf16, cast to f32. Errors: as `tile_dots`."""
    return _Dots(program, find_stage(program, stage), rows, columns, depth, flat, turned).program(f32)


def tile_dot(rows: DType, columns: DType) -> Dot | None:
    """The dot of words of rows with words of columns; its operands may have to change places."""
    kinds = {(dot.left, dot.right): dot for dot in DOTS.values() if dot.left == "bf16" or dot.group == 4}
    return kinds.get((rows.name, columns.name)) or kinds.get((columns.name, rows.name))


class _Dots(TileProducts):
    """Takes one product apart and puts it together again."""

    wanted = "tiles of narrow elements make"

    def program(self, wide: DType) -> Program:
        """The rewritten program, of sums in a type."""
        if self._wide != wide:
            raise self._refused(f"sums of {wide}")
        rows, columns = self._row_stage(), self._column_stages()
        products = self._product_stage(rows, columns[-1])
        if self._guard is not None:
            return self._with_stand_ins((rows, *columns), products, self._term_of_words(rows, self._guard))
        values = {axis.name: axis for axis in self._stage.axes}
        index = tuple(values[axis.name].var for axis in products.axes)
        result = replace(result_of(products), indices=index)
        made = replace(self._stage, bodies=(result,), reduction=(), combiner=None)
        return with_stages(self._program, {self._stage.name: (rows, *columns, products, made)})

    def _term_of_words(self, rows: Stage, guard: Expr) -> Expr:
        """A term as it stood, with the element of A taken out of its word: nothing else needs A then."""
        deep = self._depth.var
        word = self._row_word(rows, deep // self.step, 0, deep % self.step // self._dot.group)
        value = call("select", (deep % 2).equal(0), call("bf16_low", word), call("bf16_high", word))
        return call("select", guard, value * self._y.read.cast(f32), Const(0.0, f32))

    def _counts(self, kind: str, wide: Expr, deep: Expr) -> list[Expr]:
        if self._guard is None or kind != "rows":
            return []
        return [substitute(self._guard, {self._rows.name: wide, self._depth.name: deep})]

    def _two_reads(self) -> tuple[Read, Read]:
        stage = self._stage
        self._guard, term = guarded(stage.bodies[0])
        if self._guard is not None and not self._may_guard(self._guard, term):
            raise self._refused("a condition on the row and the place in the depth alone, of bf16")
        if stage.combiner == "sum" and len(stage.bodies) == 1:
            match factors(term):
                case [Cast(arg=Read() as left, dtype=first), Cast(arg=Read() as right, dtype=second)]:
                    dot = tile_dot(left.dtype, right.dtype)
                    wide = f32 if bf16 in (left.dtype, right.dtype) else i32
                    if dot is not None and first == second == wide:
                        self._dot, self._wide, self.step = dot, wide, dot.group * WORDS
                        return left, right
        raise self._refused("sum(i32(x) * i32(y)) of bytes, or sum(f32(x) * f32(y)) of bf16")

    def _may_guard(self, guard: Expr, term: Expr) -> bool:
        """Says whether words of rows can hold zero where a condition fails. Rows that slide are read by several of them."""
        found = [read for read in reads(term) if self._rows.name in variables(read)]
        plain = len(found) == 1 and self._rows.var in found[0].indices
        return plain and found[0].dtype == bf16 and variables(guard) <= {self._rows.name, self._depth.name}

    def _word(self, element: ElementAt, block: Expr, word: Expr) -> Expr:
        first = block * self.step + word * self._dot.group

        def value(place: int) -> Expr:
            read, inside = element(first + place if place else first)
            wide = read.cast(self._wide)
            if not inside:
                return wide
            return call("select", reduce(lambda a, b: a & b, inside), wide, const(0, self._wide))

        return call(self._dot.pack, *(value(place) for place in range(self._dot.group)))

    def _terms(self, row: Sequence[Read], column: Sequence[Read]) -> Expr:
        operands = [row[0], column[0]]
        if self._x.read.dtype.name != self._dot.left:
            operands.reverse()
        return call(self._dot.name, *operands)

    def _sum_dtype(self) -> DType:
        return self._wide
