"""ATen's normalisation, softmax and attention."""

from __future__ import annotations

from collections.abc import Sequence

from ....tensor.dtype import DType
from ....tensor.program import Tensor
from ...functions import normalisation, softmax
from ...functions.function import NotCovered
from .registry import CONVERTERS, Missing, aten


@aten("batch_norm.default")
def batch_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor | None, variance: Tensor | None,
    training: bool, momentum: float, eps: float, cudnn_enabled: bool = False,
) -> Tensor:  # fmt: skip
    """By given moments, or by those of the batch"""
    if training and mean is not None:
        raise NotCovered("batch normalisation in training, which changes its moments; call module.eval()")
    if mean is None or variance is None:
        mean, variance = normalisation.batch_moments(x)
    return normalisation.batch_norm(x, mean, variance, weight, bias, eps)


@aten("_native_batch_norm_legit_no_training.default")
def batch_norm_no_training(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, variance: Tensor, momentum: float, eps: float
) -> tuple[Tensor, Missing, Missing]:
    """By given moments"""
    saved = Missing("moments that batch normalisation saves for training")
    return normalisation.batch_norm(x, mean, variance, weight, bias, eps), saved, saved


@aten("_native_batch_norm_legit.no_stats")
def batch_norm_no_stats(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, training: bool, momentum: float, eps: float
) -> tuple[Tensor, Missing, Missing]:
    """By the moments of the batch"""
    saved = Missing("moments that batch normalisation saves for training")
    return normalisation.batch_norm(x, *normalisation.batch_moments(x), weight, bias, eps), saved, saved


@aten("instance_norm.default")
def instance_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor | None, variance: Tensor | None,
    use_input_stats: bool, momentum: float, eps: float, cudnn_enabled: bool = False,
) -> Tensor:  # fmt: skip
    """Each channel of each image, or by given moments"""
    if not use_input_stats and mean is not None and variance is not None:
        return normalisation.batch_norm(x, mean, variance, weight, bias, eps)
    if mean is not None:
        raise NotCovered("instance normalisation in training, which changes its moments; call module.eval()")
    return normalisation.group_norm(x, x.shape[1], weight, bias, eps)


@aten("layer_norm.default")
def layer_norm(
    x: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-5, cudnn_enable: bool = False,
) -> Tensor:  # fmt: skip
    """Over the last axes"""
    return normalisation.layer_norm(x, len(normalized_shape), weight, bias, eps)


@aten("native_layer_norm.default")
def native_layer_norm(
    x: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Missing, Missing]:
    """Over the last axes"""
    saved = Missing("moments that layer normalisation saves for training")
    return layer_norm(x, normalized_shape, weight, bias, eps), saved, saved


@aten("group_norm.default")
def group_norm(
    x: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5,
    cudnn_enabled: bool = False,
) -> Tensor:  # fmt: skip
    """Groups of channels"""
    return normalisation.group_norm(x, num_groups, weight, bias, eps)


@aten("native_group_norm.default")
def native_group_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, n: int, c: int, hw: int, group: int, eps: float
) -> tuple[Tensor, Missing, Missing]:
    """Groups of channels"""
    saved = Missing("moments that group normalisation saves for training")
    return normalisation.group_norm(x, group, weight, bias, eps), saved, saved


@aten("rms_norm.default")
def rms_norm(
    x: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """By the mean square over the last axes"""
    epsilon = x.dtype.eps if eps is None else eps
    return normalisation.rms_norm(x, len(normalized_shape), weight, epsilon)


@aten("_softmax.default", "softmax.int", "_safe_softmax.default", "special_softmax.int")
def soft(x: Tensor, dim: int, dtype: DType | bool | None = None) -> Tensor:
    """exp(x) / sum of exp(x)"""
    return softmax.softmax(x, dim, dtype if isinstance(dtype, DType) else None)


@aten("_log_softmax.default", "log_softmax.int", "special_log_softmax.int")
def log_soft(x: Tensor, dim: int, dtype: DType | bool | None = None) -> Tensor:
    """log of softmax"""
    return softmax.log_softmax(x, dim, dtype if isinstance(dtype, DType) else None)


CONVERTERS["_safe_softmax.default"] = lambda x, dim, dtype=None: softmax.softmax(x, dim, dtype, safe=True)


@aten("scaled_dot_product_attention.default")
def attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
    """softmax(q k^T * scale + mask) v"""
    if dropout_p:
        raise NotCovered("random numbers: dropout in attention; call module.eval()")
    return softmax.attention(query, key, value, attn_mask, is_causal, scale)


@aten("_scaled_dot_product_flash_attention_for_cpu.default")
def flash_attention(
    query: Tensor, key: Tensor, value: Tensor, dropout_p: float = 0, is_causal: bool = False,
    attn_mask: Tensor | None = None, scale: float | None = None,
) -> tuple[Tensor, Tensor | Missing]:  # fmt: skip
    """The same, and the logarithms of the sums of each query"""
    made = attention(query, key, value, attn_mask, dropout_p, is_causal, scale)
    if not softmax.keeps_scores(query.shape, key.shape):
        return made, Missing("logarithms of sums that attention saves for training, of shared heads or long texts")
    return made, softmax.attention_sums(query, key, attn_mask, is_causal, scale)
