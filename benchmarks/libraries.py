"""How each library computes each operator of a row: the ways of `tune bench` (tilesmith.tuner.bench), and those of drafts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from drafts import workload

from tilesmith.measure.compare.serving import PlainCall
from tilesmith.tuner.bench.calls import NamedArrays, Sizes, TensorNames
from tilesmith.tuner.bench.numpy_calls import numpy_call
from tilesmith.tuner.bench.onnxruntime_calls import onnxruntime_call
from tilesmith.tuner.bench.openvino_calls import openvino_call
from tilesmith.tuner.bench.torch_calls import TorchWay, torch_call, torch_channels_last_call, torch_compile_call

Library = Callable[[str, NamedArrays, Sequence[np.ndarray], int, TensorNames, Sizes], PlainCall | None]


def _drafted(operator: str) -> TorchWay | None:
    """All results of a draft, of which the caller takes the first; None for an operator."""
    import torch

    if not operator.startswith("draft:"):
        return None
    draft = workload(operator)
    count = len(draft.inputs)
    return (lambda out, **x: draft.results(torch, [x[f"x{number}"] for number in range(count)])), False


def _with_drafts(
    library: Callable[..., PlainCall | None],
    operator: str, arrays: NamedArrays, outputs: Sequence[np.ndarray], threads: int, constants: TensorNames, sizes: Sizes,
) -> PlainCall | None:  # fmt: skip
    return library(operator, arrays, outputs, threads, constants, sizes, _drafted(operator))


def onednn_call(*given: Any) -> PlainCall | None:
    """oneDNN by torch, with packed weights: of narrow elements alone (narrow/)."""
    return None


LIBRARIES: dict[str, Library] = {
    "numpy": numpy_call,
    "torch": partial(_with_drafts, torch_call),
    "torch.channels_last": torch_channels_last_call,
    "torch.compile": partial(_with_drafts, torch_compile_call),
    "torch.onednn": onednn_call,
    "onnxruntime": onnxruntime_call,
    "openvino": openvino_call,
}
# whom a row is measured against unless told otherwise
PEERS = (
    "torch",
    "torch.channels_last",
    "torch.compile",
    "onnxruntime",
    "openvino",
)
NARROW_PEERS = ("torch", "torch.onednn", "onnxruntime", "openvino")  # the same of narrow elements
WEIGHTS_PEERS = ("torch", "onnxruntime", "openvino")  # the same of those with weights in few bits
