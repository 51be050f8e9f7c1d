"""What torch takes apart before a graph comes here."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from ...graph.importers.torch_export import WHOLE, operator_name, torch_module
from .gradients import gradients

# Stays whole: what torch makes of it gives other sums to the backward graph than that reads.
_KEPT = WHOLE | {"_scaled_dot_product_flash_attention_for_cpu.default"}


# Core operators of training that are not covered, and those that save for it what is not computed: made of others here.
_APART = ("native_layer_norm", "native_layer_norm_backward", "native_group_norm", "native_group_norm_backward",
          "embedding_dense_backward", "_native_batch_norm_legit", "_native_batch_norm_legit_functional")  # fmt: skip


@cache
def _table() -> dict[Any, Any]:
    decomposing, torch = import_module("torch._decomp"), torch_module()
    apart = [getattr(torch.ops.aten, name) for name in _APART if hasattr(torch.ops.aten, name)]
    core = decomposing.core_aten_decompositions()  # a class of its own, whose | leaves out what it has
    table = {**dict(core.items()), **decomposing.get_decompositions(apart), **gradients()}
    return {operator: function for operator, function in table.items() if operator_name(operator) not in _KEPT}


def decompositions() -> dict[Any, Any]:
    """Operators and what they are made of: core ATen's, without those that are fewer stages whole."""
    return dict(_table())
