"""Matrix products. Products of narrow floats are summed in float32 and rounded once, with what is added to them."""

from __future__ import annotations

from collections.abc import Sequence

from ...common.errors import ArgumentError
from ...tensor import build
from ...tensor.build import compute, reduce_axis
from ...tensor.dtype import DType, i8, u8
from ...tensor.expr import Expr
from ...tensor.precision import wide
from ...tensor.program import Tensor
from .elementwise import multiply
from .function import NotCovered, function
from .operands import at, broadcast_shape
from .shape import reshape


@function
def matmul(x: Tensor, y: Tensor, dtype: DType | None = None) -> Tensor:
    """The product of the last two axes, as in NumPy: axes before broadcast, and vectors are rows or columns that are dropped.
    Integers are summed in int32 at least; the result is in the dtype of x unless another is given: then
    bytes with a sign may be multiplied with bytes without."""
    return _rounded(_product(x, y, signs=dtype is not None), dtype or x.dtype)


def _product(x: Tensor, y: Tensor, signs: bool = False) -> Tensor:
    """The stage of sums, wide. `signs`: whether one factor may be bytes with a sign and the other bytes without."""
    if not x.shape or not y.shape:
        raise ArgumentError("a scalar has no matrix product", found=f"{x.shape} and {y.shape}")
    bytes_of_both_signs = signs and {x.dtype, y.dtype} == {u8, i8}
    if (x.dtype != y.dtype and not bytes_of_both_signs) or x.dtype.name == "bool":
        raise ArgumentError("factors need one dtype, not bool", found=f"{x.dtype} and {y.dtype}")
    rows, columns = x.shape[-2:-1], y.shape[-1:] if len(y.shape) > 1 else ()
    inner = y.shape[-2] if len(y.shape) > 1 else y.shape[0]
    if x.shape[-1] != inner:
        raise ArgumentError("factors do not fit", expected=f"{x.shape[-1]} rows", found=f"{x.shape} times {y.shape}")
    outer = broadcast_shape(x.shape[:-2], y.shape[:-2])
    k, count = reduce_axis(inner, "k"), len(outer)
    own_x, own_y = x.shape[:-2], y.shape[:-2]

    def body(*i: Expr) -> build.Reduction:
        left = (*_own(own_x, i[:count]), *i[count : count + len(rows)], k)
        right = (*_own(own_y, i[:count]), k, *i[len(i) - len(columns) :]) if columns else (*_own(own_y, i[:count]), k)
        return build.sum(wide(x[left]) * wide(y[right]), k)

    return compute((*outer, *rows, *columns), body, name="dots", axes=_axis_names(count, bool(rows), bool(columns)))


def _own(sizes: Sequence[int], outer: Sequence[Expr]) -> tuple[Expr | int, ...]:
    """The indices of axes that broadcast."""
    kept = outer[len(outer) - len(sizes) :]
    return tuple(index if size > 1 else 0 for index, size in zip(kept, sizes, strict=True))


def _axis_names(outer: int, rows: bool, columns: bool) -> tuple[str, ...]:
    return (*(f"b{number}" if outer > 1 else "b" for number in range(outer)), *["i"] * rows, *["j"] * columns)


def _rounded(x: Tensor, dtype: DType) -> Tensor:
    return x if x.dtype == dtype else compute(x.shape, lambda *i: x[i].cast(dtype), name="rounded")


@function
def linear(x: Tensor, weights: Tensor, bias: Tensor | None = None) -> Tensor:
    """x times the transpose of weights[out, in], over the last axis of x, plus the bias[out]."""
    inner = x.shape[-1]
    if weights.shape[-1] != inner or x.dtype != weights.dtype:
        raise ArgumentError("weights do not fit", found=f"{x.dtype}{x.shape} and {weights.dtype}{weights.shape}")
    k = reduce_axis(inner, "k")
    if len(weights.shape) == 1:
        dots = compute(x.shape[:-1], lambda *i: build.sum(wide(x[(*i, k)]) * wide(weights[k]), k), name="dots")
        return _rounded(dots, x.dtype) if bias is None else _plus(dots, bias, x.dtype)
    names = (*_row_names(len(x.shape) - 1), "j")

    def body(*i: Expr) -> build.Reduction:
        return build.sum(wide(x[(*i[:-1], k)]) * wide(weights[i[-1], k]), k)

    dots = compute((*x.shape[:-1], weights.shape[0]), body, name="dots", axes=names)
    return _rounded(dots, x.dtype) if bias is None else _plus(dots, bias, x.dtype)


def _row_names(count: int) -> tuple[str, ...]:
    return ("i",) if count == 1 else tuple(f"i{number}" for number in range(count))


def _plus(dots: Tensor, bias: Tensor, dtype: DType) -> Tensor:
    return compute(dots.shape, lambda *i: (dots[i] + wide(at(bias, i))).cast(dtype), name="biased")


@function
def product_plus(added: Tensor | None, x: Tensor, y: Tensor, alpha: float = 1, beta: float = 1) -> Tensor:
    """beta * added + alpha * (x times y); `added` broadcasts (addmm, baddbmm, addmv, ONNX's Gemm)."""
    dots = _product(x, y)
    if added is None or beta == 0:
        if alpha == 1:
            return _rounded(dots, x.dtype)
        return compute(dots.shape, lambda *i: (dots[i] * _number(alpha, dots)).cast(x.dtype), name="scaled")
    if broadcast_shape(added.shape, dots.shape) != dots.shape:
        raise ArgumentError("what is added to a product does not fit", found=f"{added.shape} to {dots.shape}")

    def body(*i: Expr) -> Expr:
        value = dots[i] if alpha == 1 else dots[i] * _number(alpha, dots)
        other = wide(at(added, i))
        return (value + (other if beta == 1 else other * _number(beta, dots))).cast(x.dtype)

    return compute(dots.shape, body, name="biased")


def _number(value: float, like: Tensor) -> float:
    if not like.dtype.is_float and value != int(value):
        raise NotCovered("a product of integers times a fraction", found=str(value))
    return value


def outer_product(x: Tensor, y: Tensor) -> Tensor:
    """x[i] * y[j], in the dtype in which both meet."""
    return multiply(reshape(x, [-1, 1]), reshape(y, [1, -1]))


@function
def einsum(equation: str, operands: Sequence[Tensor]) -> Tensor:
    """A sum of products as letters say: "bij,bjk->bik"; `...` are axes that broadcast."""
    terms, result, sizes = _letters(equation, operands)
    over = {letter: reduce_axis(size, _name(letter)) for letter, size in sizes.items() if letter not in result}
    dtype = operands[0].dtype

    def body(*i: Expr) -> object:
        places: dict[str, Expr] = {**dict(zip(result, i, strict=True)), **over}
        total: Expr | None = None
        for tensor, term in zip(operands, terms, strict=True):
            own = [places[n] if s > 1 else 0 for n, s in zip(term, tensor.shape, strict=True)]
            factor = wide(tensor[tuple(own)])
            total = factor if total is None else total * factor
        assert total is not None
        return build.sum(total, list(over.values())) if over else total.cast(dtype)

    made = compute(tuple(sizes[n] for n in result), body, name="dots", axes=tuple(map(_name, result)))
    return _rounded(made, dtype)


def _name(letter: str) -> str:
    return letter if letter.isalpha() else f"e{letter}"


def _letters(equation: str, operands: Sequence[Tensor]) -> tuple[list[list[str]], list[str], dict[str, int]]:
    """(letters of each operand, letters of the result, size of each); digits stand for axes of an ellipsis."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    written = left.split(",")
    if len(written) != len(operands):
        raise ArgumentError("an equation needs a term for each operand", found=equation)
    spare = [len(t.shape) - len(term.replace("...", "")) for term, t in zip(written, operands, strict=True)]
    most = max((count for count, term in zip(spare, written, strict=True) if "..." in term), default=0)

    def spread(term: str, count: int) -> list[str]:
        head, dots, tail = term.partition("...")
        return [*head, *(str(number) for number in range(most - count, most) if dots), *tail]

    terms = [spread(term, count) for term, count in zip(written, spare, strict=True)]
    flat = [letter for term in terms for letter in term]
    if arrow:
        result = spread(right, most)
    else:
        once = sorted(letter for letter in set(flat) if flat.count(letter) == 1 and letter.isalpha())
        result = [*(str(number) for number in range(most)), *once]
    sizes: dict[str, int] = {}
    for term, tensor in zip(terms, operands, strict=True):
        if len(term) != len(tensor.shape):
            raise ArgumentError("a term has another number of axes than its operand", found=equation)
        for letter, size in zip(term, tensor.shape, strict=True):
            if sizes.get(letter, 1) != 1 and size not in (1, sizes[letter]):
                raise ArgumentError(f"{letter!r} of an equation has two sizes", found=f"{sizes[letter]} and {size}")
            sizes[letter] = max(sizes.get(letter, 1), size)
    return terms, result, sizes
