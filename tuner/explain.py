"""tilesmith.explain: what of a model is covered, what stays in torch and why, and into which kernels it is cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..common.errors import ArgumentError
from ..graph.importers.torch_export import is_module
from ..graph.model import Model
from ..tensor.program import Program
from .models.explanation import Explanation, cut_of


def explain(what: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Explanation:
    """Returns what is covered of a model, what stays in torch and why, and how it is cut into kernels. Nothing is compiled.

    Args:
        what: a Model, a Program, or a torch.nn.Module, which is looked at as torch.compile(module, backend="tilesmith") does.
        args, kwargs: example inputs of a module. A module in train() has a backward graph as well.
    """
    if isinstance(what, Model):
        return Explanation((cut_of(what.program, what.name),))
    if isinstance(what, Program):
        return Explanation((cut_of(what, "the program"),))
    if is_module(what):
        from .dynamo.explain import explain_module

        return explain_module(what, args, kwargs or {})
    raise ArgumentError(
        "that is no model", expected="a Model, a Program, or a torch.nn.Module", found=type(what).__name__
    )
