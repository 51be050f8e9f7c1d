"""Operators in the dtypes that networks are not mostly made of: float64, and integers and bool where an operator takes them.

One case of each, made of the operator's first.
"""

from __future__ import annotations

from dataclasses import replace

from helpers.operators import moves, products, windows
from helpers.operators.case import Case

IN_F64 = (
    "conv1d", "conv2d", "conv3d", "depthwise_conv2d", "conv2d_bias_relu", "conv_transpose1d", "conv_transpose2d",
    "conv_transpose3d", "max_pool1d", "max_pool2d", "max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d",
    "global_max_pool2d", "global_avg_pool2d", "adaptive_max_pool2d", "adaptive_avg_pool2d", "layer_norm", "rms_norm",
    "l2_normalize", "batch_norm", "group_norm", "instance_norm", "softmax", "log_softmax", "matmul_softmax", "attention",
    "matmul_bias_gelu", "matmul_residual_layer_norm", "mse_loss", "l1_loss", "huber_loss", "binary_cross_entropy",
    "kl_divergence", "cross_entropy", "nll_loss", "cosine_similarity",
)  # fmt: skip
OTHERS = {
    "conv1d": "i8", "conv2d": "i8", "conv3d": "i32", "depthwise_conv2d": "i8", "conv2d_bias_relu": "i8",
    "conv_transpose1d": "i8", "conv_transpose2d": "i8", "conv_transpose3d": "i32", "max_pool1d": "bool",
    "max_pool2d": "i8", "max_pool3d": "i32", "global_max_pool2d": "bool", "adaptive_max_pool2d": "i8",
    "batch_matmul": "i8", "matvec": "i8", "dot": "i32", "matmul_bias_relu": "i8", "resize_nearest": "bool",
}  # fmt: skip


def first(operator: str, **options: object) -> Case:
    """The first case of an operator that has these options."""
    cases = (*products.CASES, *windows.CASES, *moves.CASES)
    return next(case for case in cases if case.operator == operator and options.items() <= case.arguments.items())


def in_dtype(operator: str, dtype: str, **options: object) -> Case:
    case = first(operator, **options)
    return replace(case, arguments={**case.arguments, "dtype": dtype})


CASES: list[Case] = [
    *(in_dtype(operator, "f64") for operator in IN_F64),
    *(in_dtype(operator, dtype) for operator, dtype in OTHERS.items()),
    *(in_dtype("max_pool2d", dtype, padding=1) for dtype in ("bool", "u8")),
]
