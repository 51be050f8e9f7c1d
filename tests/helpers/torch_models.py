"""Modules for tests of models, and what eager torch says of them in float64."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from tilesmith import Model
from tilesmith.tensor.oracle.reference import evaluate


def randomised(module: torch.nn.Module, seed: int = 0) -> torch.nn.Module:
    """The module for inference in float64, with no parameter or buffer of floats at a value of which nothing can be seen."""
    torch.manual_seed(seed)
    module = module.eval().double()
    with torch.no_grad():
        for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
            if not tensor.is_floating_point():
                continue
            if "running_var" in name:
                tensor.uniform_(0.5, 1.5)
            elif len(tensor.shape) < 2:
                tensor.add_(torch.randn_like(tensor) * 0.1)
            elif not tensor.any():
                tensor.normal_(0, 0.05)
    return module


def tensors_of(*items: Any) -> list[torch.Tensor]:
    """The tensors in nested containers, in order."""
    return [leaf for leaf in torch.utils._pytree.tree_leaves(items) if isinstance(leaf, torch.Tensor)]


def array(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """Its elements; bfloat16 as bits."""
    plain = tensor.detach().contiguous()
    return plain.view(torch.int16).numpy().view(np.uint16) if plain.dtype == torch.bfloat16 else plain.numpy()


def results(model: Model, *inputs: torch.Tensor) -> list[np.ndarray[Any, Any]]:
    """What a model gives for inputs, by the oracle."""
    rest = iter(inputs)
    given = [model.constants[item.tensor.name] if item.constant else array(next(rest)) for item in model.program.inputs]
    return list(evaluate(model.program, given))


def agrees(
    model: Model,
    module: torch.nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    close: float = 1e-10,
) -> None:
    """Asserts that a model gives what eager torch gives, each result within `close` of its greatest element."""
    with torch.no_grad():
        wanted = tensors_of(module(*args, **(kwargs or {})))
    found = results(model, *tensors_of(args, kwargs or {}))
    assert len(found) == len(wanted)
    for got, want in zip(found, wanted, strict=True):
        assert got.shape == tuple(want.shape)
        truth = want.double().numpy()
        assert np.ptp(truth) > 0 or truth.size == 1, "a result that is the same everywhere shows nothing"
        np.testing.assert_allclose(got, truth, rtol=0, atol=close * np.abs(truth).max())
