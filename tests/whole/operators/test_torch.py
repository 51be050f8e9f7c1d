"""Operators of neural networks against torch's own, where torch is installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilesmith.tensor import ops
from tilesmith.tensor.oracle.random_inputs import random_inputs
from tilesmith.tensor.oracle.reference import evaluate

torch = pytest.importorskip("torch")
F = torch.nn.functional
IMAGE = {"n": 2, "c": 4, "h": 9, "w": 7}

CASES: dict[str, tuple[str, dict[str, object], Callable[..., Any]]] = {
    "conv1d": (
        "conv1d", {"n": 2, "c": 4, "w": 11, "o": 6, "kernel": 3, "stride": 2, "padding": 1},
        lambda x, w: F.conv1d(x, w, stride=2, padding=1),
    ),
    "conv2d": (
        "conv2d", {**IMAGE, "o": 6, "kernel": (3, 2), "stride": (2, 1), "padding": 1, "dilation": 2, "groups": 2},
        lambda x, w: F.conv2d(x, w, stride=(2, 1), padding=1, dilation=2, groups=2),
    ),
    "conv3d": (
        "conv3d", {"n": 1, "c": 2, "d": 4, "h": 5, "w": 6, "o": 3, "kernel": 2, "padding": 1},
        lambda x, w: F.conv3d(x, w, padding=1),
    ),
    "depthwise": (
        "depthwise_conv2d", {**IMAGE, "kernel": 3, "padding": 1},
        lambda x, w: F.conv2d(x, w[:, None], padding=1, groups=4),
    ),
    "conv_transpose2d": (
        "conv_transpose2d", {**IMAGE, "o": 6, "kernel": 3, "stride": 2, "padding": 1, "output_padding": 1, "groups": 2},
        lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1, groups=2),
    ),
    "max_pool2d": (
        "max_pool2d", {**IMAGE, "kernel": 3, "stride": 2, "padding": 1},
        lambda x: F.max_pool2d(x, 3, stride=2, padding=1),
    ),
    "avg_pool2d": ("avg_pool2d", {**IMAGE, "kernel": 2}, lambda x: F.avg_pool2d(x, 2)),
    "adaptive_avg_pool2d": (
        "adaptive_avg_pool2d", {**IMAGE, "to": (4, 3)}, lambda x: F.adaptive_avg_pool2d(x, (4, 3))
    ),
    "layer_norm": (
        "layer_norm", {"rows": 5, "columns": 12}, lambda x, gamma, beta: F.layer_norm(x, (12,), gamma, beta)
    ),
    "group_norm": (
        "group_norm", {**IMAGE, "groups": 2}, lambda x, gamma, beta: F.group_norm(x, 2, gamma, beta)
    ),
    "log_softmax": ("log_softmax", {"rows": 5, "columns": 12}, lambda x: F.log_softmax(x, -1)),
    "gelu": ("gelu", {"shape": (5, 12)}, F.gelu),
    "attention": (
        "attention", {"heads": 3, "queries": 8, "keys": 8, "width": 4, "causal": True},
        lambda q, k, v: F.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0],
    ),
    "mse_loss": ("mse_loss", {"shape": (5, 12)}, F.mse_loss),
    "cross_entropy": ("cross_entropy", {"rows": 5, "classes": 7}, lambda x, t: F.cross_entropy(x, t.clip(0, 6).long())),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_they_say_the_same(name: str) -> None:
    operator, arguments, truth = CASES[name]
    program = ops.find_operator(operator)(**{**arguments, "dtype": "f64"})
    inputs = random_inputs(program, 3)
    found = evaluate(program, inputs)[0]
    wanted = truth(*(torch.from_numpy(np.array(x)) for x in inputs)).numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-11)
