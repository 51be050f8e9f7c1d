"""Operators: builders of programs, nothing else. `OPERATORS` maps their names for the command line.

Every builder takes its sizes by position or by name, `dtype`, and `constants`: the names of operands that are known when
the program is compiled (weights). Errors: ArgumentError.
"""

from collections.abc import Callable

from .operator import OPERATORS, build_operator, find_operator
from .ops_conv import (
    conv1d,
    conv2d,
    conv2d_bias_relu,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
    depthwise_conv2d,
)
from .ops_linear import (
    batch_matmul,
    dot,
    matmul,
    matmul_bias_gelu,
    matmul_bias_relu,
    matmul_residual_layer_norm,
    matvec,
)
from .ops_norm import batch_norm, group_norm, instance_norm, l2_normalize, layer_norm, rms_norm
from .ops_pointwise import bias_add, bias_relu, outer, scale_rows, transpose
from .ops_pool import (
    adaptive_avg_pool2d,
    adaptive_max_pool2d,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    global_avg_pool2d,
    global_max_pool2d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
)
from .ops_reduce import column_max, column_sum, row_max, row_mean, row_sum, total
from .ops_softmax import attention, log_softmax, matmul_softmax, softmax
from .program import Program

__all__ = [
    "OPERATORS",
    "adaptive_avg_pool2d",
    "adaptive_max_pool2d",
    "attention",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_matmul",
    "batch_norm",
    "bias_add",
    "bias_relu",
    "build_operator",
    "column_max",
    "column_sum",
    "conv1d",
    "conv2d",
    "conv2d_bias_relu",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "depthwise_conv2d",
    "dot",
    "find_operator",
    "global_avg_pool2d",
    "global_max_pool2d",
    "group_norm",
    "instance_norm",
    "l2_normalize",
    "layer_norm",
    "log_softmax",
    "matmul",
    "matmul_bias_gelu",
    "matmul_bias_relu",
    "matmul_residual_layer_norm",
    "matmul_softmax",
    "matvec",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "outer",
    "rms_norm",
    "row_max",
    "row_mean",
    "row_sum",
    "scale_rows",
    "softmax",
    "total",
    "transpose",
]


def __getattr__(name: str) -> Callable[..., Program]:
    """Elementwise operators, which are made from tables: `ops.relu`, `ops.add`."""
    found = OPERATORS.get(name)
    if found is None:
        raise AttributeError(f"module {__name__!r} has no operator {name!r}")
    return found
