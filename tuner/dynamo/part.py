"""What is covered of a graph of torch, as a function of its tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...graph.importers.torch_export import torch_module
from ...runtime.kernel import Kernel


class Part:
    """A kernel that takes and gives torch tensors as a graph of torch would: results lie in memory as torch said.

    Args:
        kernel: of the part's model.
        results: fake tensors with shape, dtype and strides of each result.
        single: whether the graph's result is a tensor and no tuple.
    """

    def __init__(self, kernel: Kernel, results: Sequence[Any], *, single: bool) -> None:
        self._torch = torch_module()
        self._kernel = kernel
        self._made = [(tuple(one.shape), one.dtype, _order(one)) for one in results]
        self._single = single

    def __call__(self, *tensors: Any) -> Any:
        """The results for these tensors."""
        torch = self._torch
        given = [tensor.detach().contiguous() for tensor in tensors]
        made = [torch.empty(shape, dtype=dtype) for shape, dtype, _ in self._made]
        self._kernel(*given, out=made[0] if len(made) == 1 else tuple(made))
        laid = [
            one if strides is None else torch.empty_strided(one.shape, strides, dtype=one.dtype).copy_(one)
            for one, (_, _, strides) in zip(made, self._made, strict=True)
        ]
        return laid[0] if self._single else tuple(laid)


def _order(fake: Any) -> tuple[int, ...] | None:
    """The strides of a result; None where it lies as kernels write it."""
    return None if fake.is_contiguous() else tuple(fake.stride())
