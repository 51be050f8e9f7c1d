"""einsum: a sum of products, written as letters for axes."""

from __future__ import annotations

import string
from collections.abc import Sequence
from math import prod

from ...common.errors import ArgumentError
from .. import build
from ..build import compute, reduce_axis
from ..expr import Expr
from ..precision import narrowed, wide
from ..program import Program
from .arguments import Equation, Shapes
from .operator import Operands, operator


@operator
def einsum(equation: Equation, shapes: Shapes, dtype: str = "f32", constants: Sequence[str] = ()) -> Program:
    """out = sum of products as `equation` says: "bij,bjk->bik" is a product of matrices for each b.

    Operands are called A, B, ... and have the `shapes`, as in 2x3x4,2x4x5. Letters that do not stand behind -> are summed
    over; without -> the result has the letters that occur once, in the order of the alphabet. A letter twice in an operand
    is its diagonal. Errors: ArgumentError for an equation that cannot be read, or sizes that contradict each other.
    """
    terms, result = _read(equation)
    sizes = _sizes(equation, terms, shapes)
    operand = Operands(dtype, constants)
    tensors = [operand(string.ascii_uppercase[number], *shape) for number, shape in enumerate(shapes)]
    over = {letter: reduce_axis(size, letter) for letter, size in sizes.items() if letter not in result}

    def element(*i: Expr) -> object:
        places: dict[str, Expr] = {**dict(zip(result, i, strict=True)), **over}
        factors = [wide(t[tuple(places[letter] for letter in term)]) for t, term in zip(tensors, terms, strict=True)]
        total = prod(factors[1:], start=factors[0]) if factors[1:] else factors[0]
        return build.sum(total, list(over.values())) if over else total

    out = compute(tuple(sizes[letter] for letter in result), element, name="out", axes=tuple(result))
    return operand.program(narrowed(out, operand.dtype))


def _read(equation: str) -> tuple[list[str], str]:
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    letters = "".join(terms)
    if any(letter not in string.ascii_letters for letter in letters + right):
        raise ArgumentError(
            "an equation of einsum has letters, commas and one ->", expected="bij,bjk->bik", found=equation
        )
    if not arrow:
        right = "".join(sorted(letter for letter in set(letters) if letters.count(letter) == 1))
    unknown = [letter for letter in right if letter not in letters or right.count(letter) > 1]
    if unknown:
        raise ArgumentError(
            f"the result of einsum has {unknown[0]!r} twice, or no operand has it",
            expected="each letter once, of those before ->", found=equation,
        )  # fmt: skip
    return terms, right


def _sizes(equation: str, terms: list[str], shapes: Sequence[Sequence[int]]) -> dict[str, int]:
    if [len(term) for term in terms] != [len(shape) for shape in shapes]:
        raise ArgumentError(
            "equation and shapes of einsum do not fit",
            expected="a shape for each operand, with a size for each letter",
            found=f"{equation} and {','.join('x'.join(map(str, shape)) for shape in shapes)}",
        )
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        for letter, size in zip(term, shape, strict=True):
            if sizes.setdefault(letter, size) != size:
                raise ArgumentError(f"{letter!r} of einsum has two sizes", found=f"{sizes[letter]} and {size}")
    return sizes
