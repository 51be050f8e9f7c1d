"""Activations as functions of expressions: those of the operators, of the text form and of programs in Python are the same."""

from __future__ import annotations

import math
from collections.abc import Callable

from .composites import vanishing
from .expr import Expr
from .functions import maximum
from .mathematics import erfc, sigmoid
from .precision import rounded_once


def relu(x: Expr) -> Expr:
    """max(x, 0); NaN stays."""
    return maximum(x, 0)


def gelu(x: Expr) -> Expr:
    """x times the normal distribution function of x, as x erfc(-x / sqrt(2)) / 2, which keeps the digits of small results: the
    error is at most 10 + x^2 units of the last place."""
    return rounded_once(lambda x: vanishing(x) * 0.5 * erfc(x * -math.sqrt(0.5)), x)


def silu(x: Expr) -> Expr:
    """x sigmoid(x); -0 at -inf."""
    return rounded_once(lambda x: vanishing(x) * sigmoid(x), x)


# Names of the text form that stand for an expression; tensors and axes may be called so too.
EXPANSIONS: dict[str, Callable[[Expr], Expr]] = {"gelu": gelu, "relu": relu, "silu": silu}
