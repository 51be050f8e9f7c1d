"""Operators: builders of programs, nothing else. `OPERATORS` maps their names for the command line.

Every builder takes its sizes by position or by name, `dtype`, and `constants`: the names of operands that are known when
the program is compiled (weights). Errors: ArgumentError.

Imports the builders and functions of tensor, never what schedules or runs a program.
"""

from collections.abc import Callable

from ..program import Program
from . import scan as _made_from_tables  # noqa: F401
from .activation import bias_gelu, bias_relu, geglu, glu, prelu, swiglu
from .conv import (
    conv1d,
    conv2d,
    conv2d_bias_relu,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
    depthwise_conv2d,
)
from .einsum import einsum
from .linear import batch_matmul, dot, matmul, matmul_bias_gelu, matmul_bias_relu, matmul_residual_layer_norm, matvec
from .loss import (
    binary_cross_entropy,
    cosine_similarity,
    cross_entropy,
    huber_loss,
    kl_divergence,
    l1_loss,
    mse_loss,
    nll_loss,
)
from .movement import (
    broadcast_to,
    concat,
    depth_to_space,
    embedding,
    flip,
    gather,
    one_hot,
    pad,
    permute,
    repeat,
    reshape,
    roll,
    slice,
    space_to_depth,
    split,
    stack,
    take_along_axis,
    tile,
    transpose,
    triangle,
)
from .norm import batch_norm, group_norm, instance_norm, l2_normalize, layer_norm, rms_norm
from .operator import OPERATORS, build_operator, find_operator
from .pointwise import bias_add, cast, fill, outer, scale_rows
from .pool import (
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
from .reduce import argmax, argmin, column_max, column_sum, row_max, row_mean, row_sum, total
from .resize import resize_bilinear, resize_nearest
from .scatter import bincount, histogram, index_add, scatter_add, segment_sum
from .softmax import attention, log_softmax, matmul_softmax, softmax
from .sort import argsort, sort, topk

__all__ = [
    "OPERATORS",
    "adaptive_avg_pool2d",
    "adaptive_max_pool2d",
    "argmax",
    "argmin",
    "argsort",
    "attention",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_matmul",
    "batch_norm",
    "bias_add",
    "bias_gelu",
    "bias_relu",
    "binary_cross_entropy",
    "bincount",
    "broadcast_to",
    "build_operator",
    "cast",
    "column_max",
    "column_sum",
    "concat",
    "conv1d",
    "conv2d",
    "conv2d_bias_relu",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cosine_similarity",
    "cross_entropy",
    "depth_to_space",
    "depthwise_conv2d",
    "dot",
    "einsum",
    "embedding",
    "fill",
    "find_operator",
    "flip",
    "gather",
    "geglu",
    "global_avg_pool2d",
    "global_max_pool2d",
    "glu",
    "group_norm",
    "histogram",
    "huber_loss",
    "index_add",
    "instance_norm",
    "kl_divergence",
    "l1_loss",
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
    "mse_loss",
    "nll_loss",
    "one_hot",
    "outer",
    "pad",
    "permute",
    "prelu",
    "repeat",
    "reshape",
    "resize_bilinear",
    "resize_nearest",
    "rms_norm",
    "roll",
    "row_max",
    "row_mean",
    "row_sum",
    "scale_rows",
    "scatter_add",
    "segment_sum",
    "slice",
    "softmax",
    "sort",
    "space_to_depth",
    "split",
    "stack",
    "swiglu",
    "take_along_axis",
    "tile",
    "topk",
    "total",
    "transpose",
    "triangle",
]


def __getattr__(name: str) -> Callable[..., Program]:
    """Elementwise operators, which are made from tables: `ops.relu`, `ops.add`."""
    found = OPERATORS.get(name)
    if found is None:
        raise AttributeError(f"module {__name__!r} has no operator {name!r}")
    return found
