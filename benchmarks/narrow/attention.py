"""How torch computes attention of bfloat16: `scaled_dot_product_attention`, whose second product has bfloat16 weights too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tilesmith.tuner.bench.images import ReturnedElsewhere


def attention_call(
    library: str, arrays: Mapping[str, np.ndarray], threads: int, sizes: Mapping[str, Any]
) -> Callable[[], Any] | None:
    """Returns how a library computes a row of `attention`; None where it has no way."""
    if library != "torch":
        return None
    import torch

    torch.set_num_threads(threads)
    q, k, v = (torch.from_numpy(arrays[name]).view(torch.bfloat16)[None] for name in "QKV")

    def call() -> Any:
        with torch.no_grad():
            made = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=bool(sizes["causal"]))[0]
            return ReturnedElsewhere(lambda: made.contiguous().view(torch.uint16).numpy(), arrays)

    return call
