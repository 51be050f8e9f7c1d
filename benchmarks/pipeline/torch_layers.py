"""The programs of layers.py in PyTorch, compiled by its own compiler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from tilesmith.measure.compare.contender import MissingContender

from .layers import LAYERS


def _separable(x: Any, dw: Any, db: Any, pw: Any, pb: Any, *squeezed: Any) -> Any:
    e = F.conv2d(x[None], dw[:, None], db, groups=len(dw)).clamp(0, 6)
    if squeezed:
        sw, tw = squeezed
        g = tw @ torch.relu(sw @ e.mean((0, 2, 3)))
        e = e * (F.relu6(g + 3) / 6)[None, :, None, None]
    return F.conv2d(e, pw[:, :, None, None], pb).clamp(0, 6)[0]


def _dense(x: Any, *weights: Any) -> Any:
    for weight in weights:
        x = torch.relu(x @ weight) * (1 / 8)
    return x


def prepared(name: str, arrays: Sequence[np.ndarray], output: np.ndarray, threads: int) -> Callable[[], object]:
    """A program on these arrays, compiled: what runs it. Errors: MissingContender for one that is none of layers."""
    if name not in LAYERS:
        raise MissingContender("no program of layers")
    torch.set_num_threads(threads)
    compiled = torch.compile(_dense if name.startswith("dense") else _separable)
    tensors, target = [torch.from_numpy(array) for array in arrays], torch.from_numpy(output)
    with torch.no_grad():
        target.copy_(compiled(*tensors))

    def call() -> None:
        with torch.no_grad():
            compiled(*tensors)

    return call
