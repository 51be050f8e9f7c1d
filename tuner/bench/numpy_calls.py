"""NumPy: the fastest plain way that a user of it would write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...measure.compare.serving import PlainCall
from ...tensor.dtype import DTYPES
from .calls import Array, NamedArrays, Sizes, TensorNames
from .stagewise import ArrayLibrary


def numpy_call(
    operator: str, arrays: NamedArrays, outputs: Sequence[Array], threads: int, constants: TensorNames, sizes: Sizes
) -> PlainCall | None:
    """NumPy with `out=`. Its BLAS reads the number of threads from the environment."""
    out = outputs[0]
    scratch = np.empty_like(out)
    a = dict(arrays)

    def matmul() -> None:
        np.matmul(a["A"], a["B"], out=out)

    def matmul_bias_relu() -> None:
        np.matmul(a["A"], a["B"], out=out)
        np.add(out, a["bias"], out=out)
        np.maximum(out, 0, out=out)

    def silu_add() -> None:
        np.negative(a["x"], out=scratch)
        np.exp(scratch, out=scratch)
        np.add(scratch, 1, out=scratch)
        np.divide(a["x"], scratch, out=scratch)
        np.add(scratch, a["y"], out=out)

    ways: dict[str, PlainCall] = {
        "matmul": matmul,
        "batch_matmul": matmul,
        "matmul_bias_relu": matmul_bias_relu,
        "silu_add": silu_add,
        "row_sum": lambda: np.sum(a["x"], axis=1, out=out),
        "column_sum": lambda: np.sum(a["x"], axis=0, out=out),
        "transpose": lambda: np.copyto(out, a["x"].T),
    }
    return ways.get(operator)


def _erf(x: Array) -> Any:
    from scipy.special import erf

    return erf(x)


def _erfc(x: Array) -> Any:
    from scipy.special import erfc

    return erfc(x)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "floordiv": np.floor_divide, "mod": np.remainder,
    "max": np.maximum, "min": np.minimum, "pow": np.power, "neg": np.negative, "abs": np.abs, "floor": np.floor,
    "ceil": np.ceil, "round": np.rint, "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "sin": np.sin,
    "cos": np.cos, "tanh": np.tanh,
    "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "erf": _erf,
    "erfc": _erfc, "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "and": np.logical_and, "or": np.logical_or, "not": np.logical_not, "select": np.where,
}  # fmt: skip

NUMPY = ArrayLibrary(
    functions=_FUNCTIONS,
    reductions={"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min},
    einsum=lambda text, *given: np.einsum(text, *given, optimize=True),
    permute=np.transpose,
    expand=np.broadcast_to,
    cast=lambda x, dtype: x.astype(DTYPES[dtype].numpy),
    array=np.asarray,
)
