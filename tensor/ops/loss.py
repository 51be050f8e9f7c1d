"""Losses: how far results are from what is wanted. `over` says what becomes of the single ones: mean, sum or none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from .. import build
from ..build import absolute, compute, exp, log, maximum, select, sqrt
from ..composites import log1p
from ..dtype import i64
from ..expr import Expr
from ..precision import narrowed, precise
from ..program import Program, Tensor
from .arguments import Shape, Size, choose
from .elementwise import sizes_of
from .movement import clamped
from .operator import Operands, floats, operator
from .reduce import over_all, reduced
from .softmax import log_softmax_of


@operator
def mse_loss(
    size: Size | None = None, shape: Shape | None = None, over: str = "mean", dtype: str = "f32",
    constants: Sequence[str] = (),
) -> Program:  # fmt: skip
    """out = mean of (x - y)^2

    `over` says what becomes of the single ones: "mean", "sum", or "none", when they are the result.
    """
    return _of_pairs(
        "mse_loss", size, shape, over, floats("mse_loss", dtype, constants), lambda x, y: (x - y) * (x - y)
    )


@operator
def l1_loss(
    size: Size | None = None, shape: Shape | None = None, over: str = "mean", dtype: str = "f32",
    constants: Sequence[str] = (),
) -> Program:  # fmt: skip
    """out = mean of |x - y|

    `over` says what becomes of the single ones: "mean", "sum", or "none", when they are the result.
    """
    return _of_pairs("l1_loss", size, shape, over, floats("l1_loss", dtype, constants), lambda x, y: absolute(x - y))


@operator
def huber_loss(
    size: Size | None = None, shape: Shape | None = None, delta: float = 1.0, over: str = "mean", dtype: str = "f32",
    constants: Sequence[str] = (),
) -> Program:  # fmt: skip
    """out = mean of d^2 / 2 where d <= delta, else delta * (d - delta / 2), d being |x - y|

    `over` says what becomes of the single ones: "mean", "sum", or "none", when they are the result.
    """

    def single(x: Expr, y: Expr) -> Expr:
        away = absolute(x - y)
        return select(away <= delta, away * away * 0.5, (away - delta / 2) * float(delta))

    return _of_pairs("huber_loss", size, shape, over, floats("huber_loss", dtype, constants), single)


@operator
def binary_cross_entropy(
    size: Size | None = None, shape: Shape | None = None, over: str = "mean", dtype: str = "f32",
    constants: Sequence[str] = (),
) -> Program:  # fmt: skip
    """out = mean of -(y log s + (1 - y) log(1 - s)), s = sigmoid(x): as max(x, 0) - x y + log(1 + exp(-|x|))

    x are logits, y the probabilities that are wanted. `over` says what becomes of the single ones: "mean", "sum", or
    "none", when they are the result.
    """

    def single(x: Expr, y: Expr) -> Expr:
        return maximum(x, 0) - x * y + log1p(exp(-absolute(x)))

    name = "binary_cross_entropy"
    return _of_pairs(name, size, shape, over, floats(name, dtype, constants), single)


@operator
def kl_divergence(
    rows: Size, columns: Size, over: str = "mean", dtype: str = "f32", constants: Sequence[str] = ()
) -> Program:
    """out = mean over rows of sum of y * (log y - x), x being logarithms of probabilities; y <= 0 adds nothing.

    x and y are [rows, columns]. `over`: "mean" over rows, "sum", or "none", when out is [rows]. Unlike
    torch's "mean", which divides by all elements, that is its "batchmean".
    """
    operand = floats("kl_divergence", dtype, constants)
    x, y = operand("x", rows, columns), operand("y", rows, columns)

    def single(i: Expr, j: Expr) -> Expr:
        wanted = precise(y[i, j])
        return select(wanted <= 0, 0, wanted * (log(wanted) - precise(x[i, j])))

    each = compute((rows, columns), single, name="each")
    return _finished(operand, reduced(each, (1,), "row", build.sum), over, "kl_divergence")


@operator
def cross_entropy(
    rows: Size, classes: Size, over: str = "mean", dtype: str = "f32", constants: Sequence[str] = ()
) -> Program:
    """out = mean over rows of -log_softmax(x)[i, label[i]], for i64 labels, clamped to the classes.

    Unlike in torch, a label outside of the classes is no error. x is [rows, classes], of logits; label is [rows]. `over`:
    "mean" over rows, "sum", or "none", when out is [rows].
    """
    operand = floats("cross_entropy", dtype, constants)
    x, label = operand("x", rows, classes), operand("label", rows, dtype=i64)
    logs = log_softmax_of(x, "logs")
    each = compute(rows, lambda i: -logs[i, clamped(label[i], classes)], name="each")
    return _finished(operand, each, over, "cross_entropy")


@operator
def nll_loss(
    rows: Size, classes: Size, over: str = "mean", dtype: str = "f32", constants: Sequence[str] = ()
) -> Program:
    """out = mean over rows of -x[i, label[i]], x being logarithms of probabilities, for i64 labels, clamped to the classes.

    Unlike in torch, a label outside of the classes is no error. x is [rows, classes]; label is [rows]. `over`: "mean" over
    rows, "sum", or "none", when out is [rows].
    """
    operand = floats("nll_loss", dtype, constants)
    x, label = operand("x", rows, classes), operand("label", rows, dtype=i64)
    each = compute(rows, lambda i: -precise(x[i, clamped(label[i], classes)]), name="each")
    return _finished(operand, each, over, "nll_loss")


@operator
def cosine_similarity(
    rows: Size, columns: Size, epsilon: float = 1e-8, dtype: str = "f32", constants: Sequence[str] = ()
) -> Program:
    """out[rows] = sum of x y / max(sqrt(sum of x^2) * sqrt(sum of y^2), epsilon), sums over columns

    x and y are [rows, columns].
    """
    operand = floats("cosine_similarity", dtype, constants)
    x, y = operand("x", rows, columns), operand("y", rows, columns)

    def products(a: Tensor, b: Tensor, name: str) -> Tensor:
        return reduced(
            compute(a.shape, lambda i, j: precise(a[i, j]) * precise(b[i, j]), name=f"{name}_each"),
            (1,),
            name,
            build.sum,
        )

    both, first, second = products(x, y, "xy"), products(x, x, "xx"), products(y, y, "yy")
    out = compute(rows, lambda i: both[i] / maximum(sqrt(first[i]) * sqrt(second[i]), epsilon), name="out")
    return operand.program(narrowed(out, operand.dtype))


def _of_pairs(
    name: str, size: int | None, shape: Sequence[int] | None, over: str, operand: Operands,
    single: Callable[[Expr, Expr], Expr],
) -> Program:  # fmt: skip
    sizes = sizes_of(name, size, shape)
    x, y = operand("x", *sizes), operand("y", *sizes)
    each = compute(sizes, lambda *i: single(precise(x[i]), precise(y[i])), name="each")
    return _finished(operand, each, over, name)


def _finished(operand: Operands, each: Tensor, over: str, name: str) -> Program:
    """The program of the single losses, their sum or their mean."""
    choose(name, "over", over, ("mean", "sum", "none"))
    result = each if over == "none" else over_all(each, "loss")
    if over == "mean":
        total = result
        result = compute((), lambda: total[()] / float(prod(each.shape)), name="out")
    return operand.program(narrowed(result, operand.dtype))
