"""Operators of torch against eager torch: many calls in one module; and torch's own samples of all its operators."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch

from helpers.torch_models import results, tensors_of
from tilesmith import from_torch
from tilesmith.common.errors import UserError

Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


class Calls(torch.nn.Module):  # type: ignore[misc]
    """Several calls, each with tensors of its own; what is no tensor is fixed."""

    def __init__(self, calls: Sequence[Call]) -> None:
        super().__init__()
        self.calls = calls

    def forward(self, *tensors: Any) -> Any:
        rest, outputs = iter(tensors), []
        for function, args, kwargs in self.calls:
            leaves, tree = torch.utils._pytree.tree_flatten((args, kwargs))
            own = [next(rest) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
            given, named = torch.utils._pytree.tree_unflatten(own, tree)
            outputs.append(function(*given, **named))
        return outputs


def differences(
    calls: Sequence[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]], close: float
) -> Iterator[str]:
    """What differs between the model of these calls and eager torch, which computes in float64."""
    inputs = [tensor.detach() for tensor in tensors_of([(args, kwargs) for _, args, kwargs in calls])]
    module = Calls(calls)
    with torch.no_grad():
        said = tensors_of(module(*[tensor.clone() for tensor in inputs]))
        wide = [tensor.double() if tensor.dtype == torch.float32 else tensor.clone() for tensor in inputs]
        try:
            wanted = tensors_of(module(*wide))
        except RuntimeError:  # a dtype that is fixed inside
            wanted = said
    model = from_torch(module, inputs)
    found = results(model, *inputs)
    names = {"f": "float", "i": "int", "b": "bool"}
    for number, (got, plain, want) in enumerate(zip(found, said, wanted, strict=True)):
        told = str(model.program.tensors[model.program.outputs[number]].dtype)
        if got.shape != tuple(plain.shape) or not str(plain.dtype).split(".")[1].startswith(
            (names[got.dtype.kind], "uint", "bf")
        ):
            yield f"result {number}: {told}{got.shape}, and of torch {plain.dtype}{tuple(plain.shape)}"
            continue
        values = [tensor.double().numpy() for tensor in (want, plain)]
        if not any(np.allclose(got.astype(float), value, close, close, equal_nan=True) for value in values):
            yield f"result {number}: off by {np.nanmax(np.abs(got.astype(float) - values[0])):.3g}"


LEFT_EMPTY = ("empty", "new_empty", "empty_like", "empty_strided", "empty_permuted", "new_empty_strided")
# which result, and of how many, says where equal elements stood, which torch leaves open
_OPEN = {"argsort": (0, 1), "sort": (1, 2), "topk": (1, 2), "kthvalue": (1, 2)}


@cache
def sampled_operators() -> list[Any]:
    """All operators that torch has samples of, in the order of their names."""
    from torch.testing._internal.common_methods_invocations import op_db

    return sorted(
        (one for one in op_db if one.name not in LEFT_EMPTY), key=lambda one: (one.name, one.variant_test_name)
    )


def sample_outcomes(operator: Any, dtype: Any, most: int = 4) -> list[str]:
    """ "right", "refused" or "wrong: why" of each of some samples of an operator in a dtype; none where it takes no such."""
    if dtype not in operator.dtypes:
        return []
    return _outcomes(operator.name, list(_samples(operator, dtype, most)))


def _samples(operator: Any, dtype: Any, most: int) -> Iterator[Call]:
    try:
        samples = list(operator.sample_inputs("cpu", dtype))
    except Exception:  # a sample that wants a library, or what this build lacks
        return
    for sample in samples[:: max(1, len(samples) // most)][:most]:
        args = (sample.input, *sample.args)
        with torch.no_grad():
            try:
                copies = [tensor.clone() for tensor in tensors_of(args, sample.kwargs)]
                outputs = tensors_of(Calls([(operator.op, args, sample.kwargs)])(*copies))
            except Exception:
                continue
        if all(0 not in tensor.shape for tensor in [*tensors_of(args, sample.kwargs), *outputs]):
            yield operator.op, args, sample.kwargs


def _outcomes(name: str, calls: list[Call]) -> list[str]:
    """ "right", "refused" or "wrong: why" of each call. All are tried in one module first, which is quicker."""
    close = 1e-2 if name in ("bfloat16", "half") else 1e-4
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = list(differences(calls, close)) if calls else []
        except UserError:
            found = ["refused"]
    if name in _OPEN and found != ["refused"]:
        place, results_each = _OPEN[name]
        found = [one for one in found if int(one.split()[1].rstrip(":")) % results_each != place]
    if not found:
        return ["right"] * len(calls)
    if len(calls) > 1:
        return [outcome for call in calls for outcome in _outcomes(name, [call])]
    return ["refused" if found == ["refused"] else f"wrong: {found[0]}"]
