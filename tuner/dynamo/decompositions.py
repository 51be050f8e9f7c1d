"""What torch takes apart before a graph comes here."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from ...graph.importers.torch_export import WHOLE, operator_name

# Stays whole: what torch makes of it gives other sums to the backward graph than that reads.
_KEPT = WHOLE | {"_scaled_dot_product_flash_attention_for_cpu.default"}


@cache
def _table() -> dict[Any, Any]:
    table = import_module("torch._decomp").core_aten_decompositions()
    return {operator: function for operator, function in table.items() if operator_name(operator) not in _KEPT}


def decompositions() -> dict[Any, Any]:
    """Operators and what they are made of: core ATen's, without those that are fewer stages whole."""
    return dict(_table())
